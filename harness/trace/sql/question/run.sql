SELECT * FROM runs WHERE run_id = $1::VARCHAR
