-- The overview's runs in one row, so that the view `runs` is worked out once: figures, why runs ended, those
-- that wait for a person, the worst and the latest.
-- $1 microseconds since 1970 from which on runs count; all where NULL. $2 how many of those that wait and of the worst, $3 how many of the latest.
WITH seen AS MATERIALIZED (
    SELECT run_id, agent, model, status, stop_reason, turns, max_turns, tool_calls, tool_errors, repeated_calls,
        strftime(started_at, '%Y-%m-%dT%H:%M:%SZ') AS started_at, duration_ms, coalesce(input_tokens + output_tokens, input_tokens, output_tokens) AS tokens, cost_usd
    FROM runs
    WHERE $1::BIGINT IS NULL OR started_at >= make_timestamp($1::BIGINT)
),
numbers AS (
    SELECT
        count(*) AS runs,
        count(*) FILTER (WHERE status = 'completed') AS completed,
        count(*) FILTER (WHERE status = 'running') AS running,
        quantile_cont(duration_ms, 0.95) AS p95_ms,
        sum(tokens)::BIGINT AS tokens,
        sum(cost_usd) AS cost_usd,
        count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced
    FROM seen
),
reasons AS (
    SELECT stop_reason, status, count(*) AS runs
    FROM seen
    GROUP BY stop_reason, status
),
-- Loops first, then limits, then failures; among equals the latest.
worst AS (
    SELECT
        *,
        CASE stop_reason
            WHEN 'repeated_calls' THEN 0
            WHEN 'max_turns' THEN 1
            WHEN 'budget_exceeded' THEN 2
            WHEN 'timeout' THEN 2
            ELSE 3
        END AS mildness
    FROM seen
    WHERE status IN ('stopped', 'failed') OR repeated_calls >= 3
    ORDER BY mildness, started_at DESC NULLS LAST, run_id
    LIMIT $2::BIGINT
),
waiting AS (
    SELECT * FROM seen WHERE status = 'paused' ORDER BY started_at DESC NULLS LAST, run_id LIMIT $2::BIGINT
),
latest AS (
    SELECT * FROM seen ORDER BY started_at DESC NULLS LAST, run_id LIMIT $3::BIGINT
)
SELECT
    (SELECT numbers FROM numbers) AS numbers,
    (SELECT list(reasons) FROM reasons) AS reasons,
    (SELECT list(waiting ORDER BY started_at DESC NULLS LAST, run_id) FROM waiting) AS waiting,
    (SELECT list(worst ORDER BY mildness, started_at DESC NULLS LAST, run_id) FROM worst) AS worst,
    (SELECT list(latest ORDER BY started_at DESC NULLS LAST, run_id) FROM latest) AS latest
