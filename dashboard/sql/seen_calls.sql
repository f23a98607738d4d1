-- What the rules need to know of the tool calls of some runs, in the order they were asked for.
-- $1 run ids as a JSON list; asked as a function of the run, because such a filter reaches the scan below the windows of
-- these views and a subquery does not.
WITH turn_tokens AS (
    SELECT run_id, turn, sum(coalesce(input_tokens + output_tokens, input_tokens, output_tokens))::BIGINT AS tokens
    FROM model_calls
    WHERE list_contains(from_json($1::VARCHAR, '["VARCHAR"]'), run_id)
    GROUP BY run_id, turn
)
SELECT c.run_id, c.turn, c.call_index, c.span_id, c.tool_name, c.args_hash, c.result_hash, c.status, t.tokens
FROM tool_calls AS c
LEFT JOIN turn_tokens AS t ON t.run_id = c.run_id AND t.turn = c.turn
WHERE list_contains(from_json($1::VARCHAR, '["VARCHAR"]'), c.run_id)
ORDER BY c.run_id, c.turn NULLS LAST, c.call_index, c.started_at, c.span_id
