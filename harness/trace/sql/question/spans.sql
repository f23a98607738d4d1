SELECT * FROM spans WHERE run_id = $1::VARCHAR ORDER BY started_at NULLS LAST, span_id
