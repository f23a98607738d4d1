-- Ended tool calls of a rolling window, by tool and by how they ended.
-- $1 microseconds since 1970 at which the window begins.
SELECT tool_name, tool_status AS status, count(*) AS calls
FROM span_live
WHERE operation = 'execute_tool'
    AND coalesce(ended_at, started_at) >= make_timestamp($1::BIGINT)
    AND tool_name IS NOT NULL
    AND tool_status IS NOT NULL
    AND replay_of IS NULL
GROUP BY tool_name, tool_status
ORDER BY tool_name, tool_status
