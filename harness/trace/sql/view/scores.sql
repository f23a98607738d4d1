CREATE OR REPLACE VIEW scores AS
SELECT run_id, suite, case_id, repeat, scorer, value, verdict, label, reason, eval_id, "at"
FROM score;
