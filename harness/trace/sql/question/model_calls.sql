SELECT * FROM model_calls WHERE run_id = $1::VARCHAR ORDER BY turn NULLS LAST, span_id
