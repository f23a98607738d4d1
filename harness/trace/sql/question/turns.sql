SELECT * FROM turns WHERE run_id = $1::VARCHAR ORDER BY turn
