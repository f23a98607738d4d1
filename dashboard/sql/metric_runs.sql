-- Runs by how they ended, for /metrics.
SELECT coalesce(status, 'unknown') AS status, coalesce(stop_reason, 'none') AS stop_reason, count(*) AS runs,
    sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens
FROM runs
GROUP BY 1, 2
ORDER BY 1, 2
