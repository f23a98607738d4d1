-- Model calls and tool calls with their turn. Internal: the base of `model_calls` and `tool_calls`.
--
-- One model call can be told several times: by a framework and, as its child or sibling, by the provider's SDK.
-- One telling is kept: of those with the same response id the best, and none whose parent is a model call itself,
-- and no echo of the SDK within the time of another call. Counting the others would count tokens twice. What the
-- telling that is kept does not know of the tokens, another telling of the same response may.
-- A turn is a model call and the tool calls after it: our own spans carry it, others are counted in order of time.
CREATE OR REPLACE VIEW call_live AS
WITH told AS (
    SELECT
        s.* EXCLUDE (input_tokens, output_tokens, cache_read_tokens, cache_write_tokens),
        coalesce(s.input_tokens, max(s.input_tokens) OVER same) AS input_tokens,
        coalesce(s.output_tokens, max(s.output_tokens) OVER same) AS output_tokens,
        coalesce(s.cache_read_tokens, max(s.cache_read_tokens) OVER same) AS cache_read_tokens,
        coalesce(s.cache_write_tokens, max(s.cache_write_tokens) OVER same) AS cache_write_tokens,
        s.operation <> 'execute_tool' AS is_model,
        CASE WHEN s.operation <> 'execute_tool' THEN s.parent_span_id END AS model_parent,
        row_number() OVER (
            PARTITION BY s.run_id, s.operation = 'execute_tool', coalesce(s.response_id, s.span_id)
            ORDER BY s.echo, s.input_tokens IS NULL, s.started_at NULLS LAST, s.span_id
        ) AS telling,
        max(CASE WHEN s.operation <> 'execute_tool' AND NOT s.echo THEN s.ended_at END) OVER (
            PARTITION BY s.run_id ORDER BY s.started_at NULLS LAST
        ) AS told_until
    FROM span_live AS s
    WHERE s.operation IN ('chat', 'text_completion', 'generate_content', 'execute_tool')
    WINDOW same AS (PARTITION BY s.run_id, s.operation = 'execute_tool', coalesce(s.response_id, s.span_id))
),
once AS (
    SELECT t.*
    FROM told AS t
    WHERE (NOT t.is_model OR (t.telling = 1 AND NOT (t.echo AND coalesce(t.told_until >= t.started_at, FALSE))))
        AND NOT EXISTS (
            SELECT 1 FROM span AS around
            WHERE around.operation IN ('chat', 'text_completion', 'generate_content')
                AND around.run_id = t.run_id
                AND around.span_id = t.model_parent
        )
)
SELECT
    o.* EXCLUDE (turn, call_index, telling, told_until, model_parent),
    coalesce(o.turn, nullif(count(*) FILTER (WHERE o.is_model) OVER (
        PARTITION BY o.run_id
        ORDER BY o.started_at NULLS LAST, NOT o.is_model, o.span_id
        ROWS UNBOUNDED PRECEDING
    ), 0))::BIGINT AS turn,
    o.call_index
FROM once AS o;
