-- From the spans and not from `tool_calls`: the turn of each call, which costs the most there, is not asked for.
SELECT
    tool_name,
    count(*) AS calls,
    count(*) FILTER (WHERE tool_status IN ('error', 'timeout')) AS errors,
    count(*) FILTER (WHERE tool_status = 'denied') AS denied,
    count(*) FILTER (WHERE tool_status IN ('error', 'timeout'))
        / nullif(count(*) FILTER (WHERE tool_status IS NOT NULL), 0)::DOUBLE AS error_rate,
    quantile_cont(latency_ms, 0.5) AS p50_latency_ms,
    quantile_cont(latency_ms, 0.95) AS p95_latency_ms,
    count(DISTINCT run_id) AS runs
FROM span_live
WHERE operation = 'execute_tool' AND ($1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT))
GROUP BY tool_name
ORDER BY errors DESC, calls DESC, tool_name
