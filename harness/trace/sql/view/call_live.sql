-- Model calls and tool calls with their turn. Internal: the base of `model_calls` and `tool_calls`.
--
-- One model call can be told several times: by a framework and, as its child or sibling, by the provider's SDK.
-- One telling is kept: of those with the same response id the best, and none whose parent is a model call itself,
-- and no echo of the SDK within the time of another call. Counting the others would count tokens twice.
-- A turn is a model call and the tool calls after it: our own spans carry it, others are counted in order of time.
CREATE OR REPLACE VIEW call_live AS
WITH told AS (
    SELECT
        s.*,
        s.operation <> 'execute_tool' AS is_model,
        row_number() OVER (
            PARTITION BY s.run_id, s.operation = 'execute_tool', coalesce(s.response_id, s.span_id)
            ORDER BY s.echo, s.input_tokens IS NULL, s.started_at NULLS LAST, s.span_id
        ) AS telling
    FROM span_live AS s
    WHERE s.operation IN ('chat', 'text_completion', 'generate_content', 'execute_tool')
),
once AS (
    SELECT t.*
    FROM told AS t
    WHERE NOT t.is_model
        OR (
            t.telling = 1
            AND NOT EXISTS (
                SELECT 1 FROM told AS outer_call
                WHERE outer_call.is_model
                    AND outer_call.run_id = t.run_id
                    AND outer_call.span_id = t.parent_span_id
            )
            AND NOT (
                t.echo
                AND EXISTS (
                    SELECT 1 FROM told AS first_hand
                    WHERE first_hand.is_model
                        AND NOT first_hand.echo
                        AND first_hand.run_id = t.run_id
                        AND first_hand.started_at <= t.started_at
                        AND first_hand.ended_at >= t.started_at
                )
            )
        )
)
SELECT
    o.* EXCLUDE (turn, call_index, telling),
    coalesce(o.turn, nullif(count(*) FILTER (WHERE o.is_model) OVER (
        PARTITION BY o.run_id
        ORDER BY o.started_at NULLS LAST, NOT o.is_model, o.span_id
        ROWS UNBOUNDED PRECEDING
    ), 0))::BIGINT AS turn,
    o.call_index
FROM once AS o;
