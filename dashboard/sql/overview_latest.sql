-- The latest runs.
-- $1 microseconds since 1970 from which on runs count; all where NULL.
SELECT run_id, agent, model, status, stop_reason, turns, max_turns, tool_calls, tool_errors, repeated_calls, started_at, duration_ms,
    coalesce(input_tokens + output_tokens, input_tokens, output_tokens) AS tokens
FROM runs
WHERE $1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT)
ORDER BY started_at DESC NULLS LAST, run_id
