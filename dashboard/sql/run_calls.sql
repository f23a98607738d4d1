-- The tool calls of a run, in the order they were asked for; long texts are cut.
-- $1 run id.
SELECT
    turn, call_index, tool_name, left(arguments, 2000) AS arguments, args_hash, left(result, 2000) AS result,
    result_hash, status, error_class, latency_ms, span_id
FROM tool_calls
WHERE run_id = $1::VARCHAR
ORDER BY turn NULLS LAST, call_index, started_at, span_id
