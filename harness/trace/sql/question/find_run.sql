-- The runs a person can mean by a text; only the best kind of match is answered. Read from the spans: a trace is a run
-- when it holds an agent or a model call, and nothing else of the view `runs` is needed.
WITH candidate AS (
    SELECT
        run_id,
        min(started_at) AS started_at,
        CASE
            WHEN run_id = $1::VARCHAR THEN 1
            WHEN min(trace_id) = $1 THEN 2
            WHEN bool_or(session_id = $1) THEN 3
            -- Parts of a run are found by their own ids.
            WHEN $1 = 'latest' AND max(parent_run_id) IS NULL THEN 4
            WHEN starts_with(run_id, lower($1)) OR starts_with(run_id, $1) THEN 5
            WHEN starts_with(min(trace_id), lower($1)) THEN 6
        END AS how
    FROM span_live
    GROUP BY run_id
    HAVING bool_or(operation IN ('invoke_agent', 'chat', 'text_completion', 'generate_content'))
),
best AS (
    SELECT run_id, started_at, how
    FROM candidate
    WHERE how = (SELECT min(how) FROM candidate)
)
SELECT run_id, how
FROM best
-- Of a session, and of all, the newest run is meant.
WHERE how NOT IN (3, 4)
    OR run_id = (SELECT run_id FROM best ORDER BY started_at DESC NULLS LAST, run_id LIMIT 1)
ORDER BY started_at DESC NULLS LAST, run_id
