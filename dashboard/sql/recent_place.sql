-- The place in the index after which something began or ended since an instant: where the first look begins.
-- $1 microseconds since 1970.
SELECT coalesce(
    (SELECT min(row_id) - 1 FROM span WHERE coalesce(ended_at, started_at) >= make_timestamp($1::BIGINT)),
    (SELECT max(row_id) FROM span),
    -1
) AS row_id
