-- Model calls and tool calls, each told once. Internal: the base of `call_live` and `runs`.
--
-- One model call can be told several times: by a framework and, as its child or sibling, by the provider's SDK.
-- One telling is kept: of those with the same response id the best, and none whose parent is a model call itself,
-- and no echo of the SDK within the time of another call. Counting the others would count tokens twice. What the
-- telling that is kept does not know of the tokens, another telling of the same response may.
-- A tape tells each call once, whatever id a server gives its answers: some give all the same.
-- Few responses are told twice and few spans are echoes, so these are looked for alone: a window over all calls, or
-- a correlated subquery, costs ten times as much.
CREATE OR REPLACE VIEW call_once AS
WITH model AS NOT MATERIALIZED (
    SELECT * FROM span_live WHERE operation IN ('chat', 'text_completion', 'generate_content')
),
retold AS (
    SELECT
        run_id,
        response_id,
        max(input_tokens) AS input_tokens,
        max(output_tokens) AS output_tokens,
        max(cache_read_tokens) AS cache_read_tokens,
        max(cache_write_tokens) AS cache_write_tokens,
        arg_min(row_id, {
            'echo': echo, 'blank': input_tokens IS NULL,
            'started_at': coalesce(started_at, 'infinity'::TIMESTAMP), 'span_id': span_id
        }) AS best
    FROM model
    WHERE source_dialect <> 'loopdeck' AND response_id IN (
        SELECT response_id FROM span WHERE response_id IS NOT NULL GROUP BY response_id HAVING count(*) > 1
    )
    GROUP BY run_id, response_id
),
echoed AS (
    SELECT e.row_id
    FROM model AS e
    JOIN model AS around
        ON around.run_id = e.run_id AND around.started_at <= e.started_at AND around.ended_at >= e.started_at
    WHERE e.echo AND NOT around.echo
)
SELECT
    m.* REPLACE (
        coalesce(m.input_tokens, r.input_tokens) AS input_tokens,
        coalesce(m.output_tokens, r.output_tokens) AS output_tokens,
        coalesce(m.cache_read_tokens, r.cache_read_tokens) AS cache_read_tokens,
        coalesce(m.cache_write_tokens, r.cache_write_tokens) AS cache_write_tokens
    ),
    TRUE AS is_model
FROM model AS m
ANTI JOIN span AS around
    ON around.run_id = m.run_id
    AND around.span_id = m.parent_span_id
    AND around.operation IN ('chat', 'text_completion', 'generate_content')
LEFT JOIN retold AS r
    ON r.run_id = m.run_id AND r.response_id = m.response_id AND m.source_dialect <> 'loopdeck'
WHERE coalesce(r.best, m.row_id) = m.row_id
    AND m.row_id NOT IN (SELECT row_id FROM echoed)
UNION ALL
SELECT *, FALSE AS is_model
FROM span_live
WHERE operation = 'execute_tool';
