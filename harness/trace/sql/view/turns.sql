-- One row a turn, from its model call and its tool calls, so that it is the same for every source. What only our
-- own spans know of a turn comes from them; the last turn carries the reason why the run stopped.
CREATE OR REPLACE VIEW turns AS
WITH called AS (
    SELECT
        run_id,
        turn,
        min(started_at) AS started_at,
        max(ended_at) AS ended_at,
        bool_or(open) AS open,
        bool_or(CASE WHEN is_model THEN status = 'error' ELSE tool_status <> 'ok' END) AS failed,
        max(coalesce(response_model, request_model)) FILTER (WHERE is_model) AS model,
        (sum(input_tokens) FILTER (WHERE is_model))::BIGINT AS input_tokens,
        (sum(output_tokens) FILTER (WHERE is_model))::BIGINT AS output_tokens,
        list(tool_name ORDER BY call_index NULLS LAST, started_at NULLS LAST, span_id)
            FILTER (WHERE NOT is_model) AS tool_names,
        list(arguments ORDER BY call_index NULLS LAST, started_at NULLS LAST, span_id)
            FILTER (WHERE NOT is_model) AS arguments,
        list(tool_status ORDER BY call_index NULLS LAST, started_at NULLS LAST, span_id)
            FILTER (WHERE NOT is_model) AS tool_statuses
    FROM call_live
    WHERE turn IS NOT NULL
    GROUP BY run_id, turn
),
own AS (
    SELECT run_id, turn, max(stop_reason) AS stop_reason, max(latency_ms) AS latency_ms
    FROM span_live
    WHERE operation = 'turn' AND turn IS NOT NULL
    GROUP BY run_id, turn
),
root AS (
    SELECT run_id, max(stop_reason) AS stop_reason
    FROM span_live
    WHERE operation = 'invoke_agent' AND stop_reason IS NOT NULL
    GROUP BY run_id
)
SELECT
    c.run_id,
    c.turn,
    c.started_at,
    coalesce(own.latency_ms, date_diff('microsecond', c.started_at, c.ended_at) / 1000.0) AS latency_ms,
    CASE WHEN c.open THEN 'running' WHEN c.failed THEN 'error' ELSE 'ok' END AS status,
    coalesce(
        own.stop_reason,
        CASE WHEN c.turn = max(c.turn) OVER (PARTITION BY c.run_id) THEN root.stop_reason END
    ) AS stop_reason,
    c.model,
    c.input_tokens,
    c.output_tokens,
    coalesce(c.tool_names, []) AS tool_names,
    coalesce(c.arguments, []) AS arguments,
    coalesce(c.tool_statuses, []) AS tool_statuses
FROM called AS c
LEFT JOIN own ON own.run_id = c.run_id AND own.turn = c.turn
LEFT JOIN root ON root.run_id = c.run_id;
