-- Runs whose rows changed after a place in the index, in the order of their last change.
-- $1 row id after which to look.
SELECT run_id, max(row_id) AS last_row_id
FROM span
WHERE row_id > $1::BIGINT
GROUP BY run_id
ORDER BY last_row_id
