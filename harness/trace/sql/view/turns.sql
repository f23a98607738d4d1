-- One row a turn, from its model call and its tool calls, so that it is the same for every source.
CREATE OR REPLACE VIEW turns AS
WITH model AS (
    SELECT
        run_id,
        turn,
        min(started_at) AS started_at,
        max(started_at + to_microseconds((latency_ms * 1000)::BIGINT)) AS ended_at,
        bool_or(open) AS open,
        bool_or(status = 'error') AS failed,
        max(coalesce(response_model, request_model)) AS model,
        sum(input_tokens)::BIGINT AS input_tokens,
        sum(output_tokens)::BIGINT AS output_tokens
    FROM model_calls
    WHERE turn IS NOT NULL
    GROUP BY run_id, turn
),
tool AS (
    SELECT
        run_id,
        turn,
        min(started_at) AS started_at,
        max(started_at + to_microseconds((latency_ms * 1000)::BIGINT)) AS ended_at,
        bool_or(open) AS open,
        bool_or(status <> 'ok') AS failed,
        list(tool_name ORDER BY call_index) AS tool_names,
        list(arguments ORDER BY call_index) AS arguments,
        list(status ORDER BY call_index) AS tool_statuses
    FROM tool_calls
    WHERE turn IS NOT NULL
    GROUP BY run_id, turn
),
own AS (
    SELECT run_id, turn, max(stop_reason) AS stop_reason, max(latency_ms) AS latency_ms
    FROM span_live
    WHERE operation = 'turn' AND turn IS NOT NULL
    GROUP BY run_id, turn
),
last_turn AS (
    SELECT run_id, max(turn) AS turn FROM call_live GROUP BY run_id
),
root AS (
    SELECT run_id, max(stop_reason) AS stop_reason
    FROM span_live
    WHERE operation = 'invoke_agent' AND stop_reason IS NOT NULL
    GROUP BY run_id
)
SELECT
    run_id,
    turn,
    coalesce(model.started_at, tool.started_at) AS started_at,
    coalesce(
        own.latency_ms,
        date_diff(
            'microsecond',
            coalesce(model.started_at, tool.started_at),
            greatest(model.ended_at, tool.ended_at)
        ) / 1000.0
    ) AS latency_ms,
    CASE
        WHEN coalesce(model.open, FALSE) OR coalesce(tool.open, FALSE) THEN 'running'
        WHEN coalesce(model.failed, FALSE) OR coalesce(tool.failed, FALSE) THEN 'error'
        ELSE 'ok'
    END AS status,
    coalesce(own.stop_reason, CASE WHEN last_turn.turn IS NOT NULL THEN root.stop_reason END) AS stop_reason,
    model.model,
    model.input_tokens,
    model.output_tokens,
    coalesce(tool.tool_names, []) AS tool_names,
    coalesce(tool.arguments, []) AS arguments,
    coalesce(tool.tool_statuses, []) AS tool_statuses
FROM model
FULL JOIN tool USING (run_id, turn)
LEFT JOIN own USING (run_id, turn)
LEFT JOIN last_turn USING (run_id, turn)
LEFT JOIN root USING (run_id);
