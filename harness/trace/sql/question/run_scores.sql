SELECT * FROM scores WHERE run_id = $1::VARCHAR ORDER BY suite, scorer
