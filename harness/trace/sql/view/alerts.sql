-- One row an alert: its last transition, since when it fires, and when it ended.
CREATE OR REPLACE VIEW alerts AS
WITH numbered AS (
    SELECT
        *,
        count(*) FILTER (WHERE state = 'resolved') OVER (
            PARTITION BY alert_id ORDER BY nth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS episode,
        row_number() OVER (PARTITION BY alert_id ORDER BY nth DESC) AS from_last
    FROM alert_change
),
fired AS (
    SELECT alert_id, episode, min("at") AS fired_at
    FROM numbered
    WHERE state = 'firing'
    GROUP BY alert_id, episode
)
SELECT
    n.alert_id,
    n.rule,
    n.kind,
    n.state,
    n.agent,
    n.tool_name,
    n.args_hash,
    n.value,
    n.threshold,
    from_json(n.runs, '["VARCHAR"]') AS runs,
    n.evidence,
    f.fired_at,
    CASE WHEN n.state = 'resolved' THEN n."at" END AS resolved_at
FROM numbered AS n
LEFT JOIN fired AS f ON f.alert_id = n.alert_id AND f.episode = n.episode
WHERE n.from_last = 1;
