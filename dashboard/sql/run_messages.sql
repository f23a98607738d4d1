-- The conversation of a run; long texts are cut.
-- $1 run id.
SELECT turn, position, role, left(content, 4000) AS content, length(content) AS length
FROM messages
WHERE run_id = $1::VARCHAR
ORDER BY turn NULLS LAST, position, blob
