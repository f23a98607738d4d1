CREATE OR REPLACE VIEW model_calls AS
SELECT
    run_id,
    turn,
    provider,
    request_model,
    response_model,
    finish_reason,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    reasoning_tokens,
    cost_usd,
    latency_ms,
    ttft_ms,
    attempts,
    context_head,
    started_at,
    span_id,
    trace_id,
    status,
    error_type,
    open
FROM call_live
WHERE is_model;
