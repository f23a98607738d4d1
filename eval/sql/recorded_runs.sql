-- The runs a suite judges, one row each. The condition of the suite stands where `true` does.
--
-- Sums of tokens and cost are told only where every answered call tells them: the sum of what is known would be
-- too small, and a budget would pass for it. The reward is one that the run's source brought, not an eval's.
SELECT
    r.run_id,
    r.task_id,
    r.trial,
    r.status,
    r.stop_reason,
    coalesce(r.answer, said.answer) AS answer,
    r.turns,
    r.duration_ms,
    used.input_tokens,
    used.output_tokens,
    used.cost_usd,
    rewarded.reward
FROM runs AS r
LEFT JOIN (
    SELECT
        run_id,
        CASE WHEN count(*) = count(input_tokens) THEN sum(input_tokens)::BIGINT END AS input_tokens,
        CASE WHEN count(*) = count(output_tokens) THEN sum(output_tokens)::BIGINT END AS output_tokens,
        CASE WHEN count(*) = count(cost_usd) THEN sum(cost_usd)::DOUBLE END AS cost_usd
    FROM model_calls
    WHERE NOT (status = 'error' AND input_tokens IS NULL AND output_tokens IS NULL)
    GROUP BY run_id
) AS used ON used.run_id = r.run_id
LEFT JOIN (
    SELECT run_id, arg_max(content, position) AS answer
    FROM messages
    WHERE role = 'assistant' AND content <> ''
    GROUP BY run_id
) AS said ON said.run_id = r.run_id
LEFT JOIN (
    SELECT run_id, max(value) AS reward
    FROM scores
    WHERE scorer = 'reward' AND eval_id IS NULL
    GROUP BY run_id
) AS rewarded ON rewarded.run_id = r.run_id
WHERE r.run_id IN (SELECT run_id FROM runs WHERE (
    true
))
