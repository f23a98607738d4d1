-- Runs that went wrong, the worst first: loops, then limits, then failures; among equals the latest.
-- $1 microseconds since 1970 from which on runs count; all where NULL.
SELECT run_id, agent, model, status, stop_reason, turns, max_turns, tool_calls, tool_errors, repeated_calls, started_at, duration_ms,
    coalesce(input_tokens + output_tokens, input_tokens, output_tokens) AS tokens
FROM runs
WHERE ($1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT))
    AND (status IN ('stopped', 'failed') OR repeated_calls >= 3)
ORDER BY
    CASE stop_reason
        WHEN 'repeated_calls' THEN 0
        WHEN 'max_turns' THEN 1
        WHEN 'budget_exceeded' THEN 2
        WHEN 'timeout' THEN 2
        ELSE 3
    END,
    started_at DESC NULLS LAST,
    run_id
