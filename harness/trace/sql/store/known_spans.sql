-- Rows that spans with these keys already have. A span sent again has the start it had before, so only the time
-- around the batch is looked at; spans without a time are looked for among their like.
WITH incoming AS (SELECT unnest(from_json($1, '["UBIGINT"]')) AS span_key),
near AS (
    SELECT row_id, span_key, trace_id, span_id, rank, content_key
    FROM span
    WHERE started_at BETWEEN make_timestamp($2::BIGINT) AND make_timestamp($3::BIGINT)
    UNION ALL
    SELECT row_id, span_key, trace_id, span_id, rank, content_key
    FROM span
    WHERE started_at IS NULL
)
SELECT near.row_id, near.trace_id, near.span_id, near.rank, near.content_key
FROM near
WHERE near.span_key IN (SELECT span_key FROM incoming)
    AND NOT EXISTS (SELECT 1 FROM superseded AS old WHERE old.row_id = near.row_id);
