SELECT * FROM annotation WHERE run_id = $1::VARCHAR ORDER BY "at"
