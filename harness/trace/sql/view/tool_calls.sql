CREATE OR REPLACE VIEW tool_calls AS
SELECT
    run_id,
    turn,
    coalesce(call_index, row_number() OVER (
        PARTITION BY run_id, turn ORDER BY started_at NULLS LAST, span_id
    ) - 1)::BIGINT AS call_index,
    call_id,
    tool_name,
    arguments,
    args_hash,
    result,
    result_hash,
    tool_status AS status,
    error_class,
    failure_stage,
    permission,
    latency_ms,
    attempts,
    started_at,
    span_id,
    trace_id,
    error_type,
    open
FROM call_live
WHERE NOT is_model;
