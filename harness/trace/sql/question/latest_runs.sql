SELECT *
FROM runs
WHERE ($1::VARCHAR IS NULL OR agent = $1)
    AND ($2::VARCHAR IS NULL OR status = $2)
    AND ($3::VARCHAR IS NULL OR stop_reason = $3)
    AND ($4::VARCHAR IS NULL OR source = $4)
    AND ($5::VARCHAR IS NULL OR task_id = $5)
    AND ($6::BIGINT IS NULL OR started_at >= make_timestamp($6::BIGINT))
ORDER BY started_at DESC NULLS LAST, run_id
