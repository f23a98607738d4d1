SELECT *
FROM scores
WHERE ($1::VARCHAR IS NULL OR suite = $1) AND ($2::VARCHAR IS NULL OR eval_id = $2)
ORDER BY suite, case_id, repeat, scorer, run_id
