-- Tool calls by tool and by how they ended, for /metrics.
SELECT coalesce(tool_name, '') AS tool_name, coalesce(tool_status, 'open') AS status, count(*) AS calls
FROM span_live
WHERE operation = 'execute_tool'
GROUP BY 1, 2
ORDER BY 1, 2
