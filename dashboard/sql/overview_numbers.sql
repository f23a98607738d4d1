-- The figures at the head of the overview.
-- $1 microseconds since 1970 from which on runs count; all where NULL.
SELECT
    count(*) AS runs,
    count(*) FILTER (WHERE status = 'completed') AS completed,
    count(*) FILTER (WHERE status = 'running') AS running,
    quantile_cont(duration_ms, 0.95) AS p95_ms,
    sum(coalesce(input_tokens + output_tokens, input_tokens, output_tokens))::BIGINT AS tokens,
    sum(cost_usd) AS cost_usd,
    count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced
FROM runs
WHERE $1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT)
