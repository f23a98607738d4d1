SELECT
    stop_reason,
    status,
    count(*) AS runs,
    sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))
        FILTER (WHERE input_tokens IS NOT NULL OR output_tokens IS NOT NULL)::BIGINT AS tokens,
    sum(cost_usd) AS cost_usd
FROM runs
WHERE $1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT)
GROUP BY stop_reason, status
ORDER BY runs DESC, stop_reason, status
