SELECT *
FROM alerts
WHERE $1::BIGINT IS NULL OR state = 'firing' OR coalesce(resolved_at, fired_at) >= make_timestamp($1::BIGINT)
ORDER BY state, fired_at DESC, alert_id
