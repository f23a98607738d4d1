-- What the rules need to know of some runs; replays are tests and page nobody.
-- $1 run ids as a JSON list.
SELECT
    run_id,
    agent,
    status,
    stop_reason,
    stop_evidence,
    turns,
    max_turns,
    coalesce(input_tokens + output_tokens, input_tokens, output_tokens) AS tokens,
    max_tokens
FROM runs
WHERE run_id IN (SELECT unnest(from_json($1::VARCHAR, '["VARCHAR"]'))) AND replay_of IS NULL
