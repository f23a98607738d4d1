SELECT
    tool_name,
    count(*) AS calls,
    count(*) FILTER (WHERE status IN ('error', 'timeout')) AS errors,
    count(*) FILTER (WHERE status = 'denied') AS denied,
    count(*) FILTER (WHERE status IN ('error', 'timeout'))
        / nullif(count(*) FILTER (WHERE status IS NOT NULL), 0)::DOUBLE AS error_rate,
    quantile_cont(latency_ms, 0.5) AS p50_latency_ms,
    quantile_cont(latency_ms, 0.95) AS p95_latency_ms,
    count(DISTINCT run_id) AS runs
FROM tool_calls
WHERE $1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT)
GROUP BY tool_name
ORDER BY errors DESC, calls DESC, tool_name
