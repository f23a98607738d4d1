-- The tool calls of the runs a suite judges. The condition of the suite stands where `true` does.
SELECT run_id, turn, call_index, tool_name, arguments, status, args_hash, result_hash
FROM tool_calls
WHERE run_id IN (SELECT run_id FROM runs WHERE (
    true
))
