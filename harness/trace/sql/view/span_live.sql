-- Spans without the rows that a better one replaced. Internal: the base of all other views.
CREATE OR REPLACE VIEW span_live AS
SELECT *
FROM span
WHERE row_id NOT IN (SELECT row_id FROM superseded);
