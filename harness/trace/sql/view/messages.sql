-- The conversation of a run: what several calls repeat is shown once, at the first turn that says it.
CREATE OR REPLACE VIEW messages AS
WITH said AS (
    SELECT m.run_id, m.position, m.role, m.blob, min(c.turn) AS turn
    FROM message AS m
    LEFT JOIN call_live AS c ON c.run_id = m.run_id AND c.row_id = m.row_id
    WHERE NOT EXISTS (SELECT 1 FROM superseded AS old WHERE old.row_id = m.row_id)
    GROUP BY m.run_id, m.position, m.role, m.blob
)
SELECT said.run_id, said.turn, said.position, said.role, b.content, said.blob, b.parts
FROM said
JOIN blob AS b ON b.blob = said.blob;
