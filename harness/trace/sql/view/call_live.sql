-- The calls of `call_once` with their turn. Internal: the base of `model_calls`, `tool_calls` and `turns`.
--
-- A turn is a model call and the tool calls after it: our own spans carry it, others are counted in order of time.
CREATE OR REPLACE VIEW call_live AS
SELECT
    o.* EXCLUDE (turn),
    coalesce(o.turn, nullif(count(*) FILTER (WHERE o.is_model) OVER (
        PARTITION BY o.run_id
        ORDER BY o.started_at NULLS LAST, NOT o.is_model, o.span_id
        ROWS UNBOUNDED PRECEDING
    ), 0))::BIGINT AS turn
FROM call_once AS o;
