-- What alert rules need of each run that did something since then, or still goes on.
WITH active AS (
    SELECT run_id, agent, service, status, stop_reason, stop_evidence, turns, max_turns, max_tokens,
        CASE WHEN input_tokens IS NOT NULL OR output_tokens IS NOT NULL
            THEN coalesce(input_tokens, 0) + coalesce(output_tokens, 0) END AS tokens,
        started_at, ended_at
    FROM runs
    WHERE $1::BIGINT IS NULL
        OR status = 'running'
        OR coalesce(ended_at, started_at) >= make_timestamp($1::BIGINT)
),
spent AS (
    SELECT run_id, turn, sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))
        FILTER (WHERE input_tokens IS NOT NULL OR output_tokens IS NOT NULL)::BIGINT AS tokens
    FROM model_calls
    GROUP BY run_id, turn
),
called AS (
    SELECT
        t.run_id,
        list(
            struct_pack(
                turn := coalesce(t.turn, 0),
                call_index := t.call_index,
                span_id := t.span_id,
                tool_name := t.tool_name,
                args_hash := t.args_hash,
                result_hash := t.result_hash,
                status := t.status,
                tokens := s.tokens
            )
            ORDER BY t.turn NULLS LAST, t.call_index, t.span_id
        ) AS calls
    FROM tool_calls AS t
    LEFT JOIN spent AS s ON s.run_id = t.run_id AND s.turn = t.turn
    WHERE t.run_id IN (SELECT run_id FROM active)
    GROUP BY t.run_id
)
SELECT active.*, coalesce(called.calls, []) AS calls
FROM active
LEFT JOIN called ON called.run_id = active.run_id
ORDER BY active.started_at NULLS LAST, active.run_id
