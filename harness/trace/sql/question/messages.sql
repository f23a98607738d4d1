SELECT * FROM messages WHERE run_id = $1::VARCHAR ORDER BY position, turn NULLS LAST, blob
