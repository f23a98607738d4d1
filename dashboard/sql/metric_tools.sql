-- Tool calls by tool and by how they ended, for /metrics.
SELECT coalesce(tool_name, '') AS tool_name, coalesce(status, 'open') AS status, count(*) AS calls
FROM tool_calls
GROUP BY 1, 2
ORDER BY 1, 2
