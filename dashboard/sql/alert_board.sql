-- Every alert as its last transition left it, with the instant of that transition, in microseconds since 1970.
WITH last_change AS (
    SELECT alert_id, max("at") AS changed_at FROM alert_change GROUP BY alert_id
)
SELECT
    a.alert_id,
    a.rule,
    a.state,
    a.agent,
    a.tool_name,
    a.args_hash,
    a.runs,
    a.evidence,
    epoch_us(coalesce(a.fired_at, l.changed_at)) AS fired_at_us,
    epoch_us(a.resolved_at) AS resolved_at_us,
    epoch_us(l.changed_at) AS changed_at_us
FROM alerts AS a
JOIN last_change AS l ON l.alert_id = a.alert_id
