-- Spans without the rows that a better one replaced. Internal: the base of all other views.
CREATE OR REPLACE VIEW span_live AS
SELECT s.*
FROM span AS s
WHERE NOT EXISTS (SELECT 1 FROM superseded AS old WHERE old.row_id = s.row_id);
