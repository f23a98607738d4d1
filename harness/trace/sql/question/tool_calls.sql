SELECT * FROM tool_calls WHERE run_id = $1::VARCHAR ORDER BY turn NULLS LAST, call_index, span_id
