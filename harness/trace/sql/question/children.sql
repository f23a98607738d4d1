SELECT run_id, agent, stop_reason, turns, tool_calls, input_tokens, output_tokens, cost_usd
FROM runs
WHERE parent_run_id = $1
ORDER BY started_at NULLS LAST, run_id
