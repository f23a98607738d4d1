-- One row a run. A trace is a run when it holds an agent or a model call.
--
-- Our own runs say how they ended. Of others it is read from the agent's span and from the last model call, as
-- far as these tell; what nobody tells is `unknown` as a reason and NULL as a status.
CREATE OR REPLACE VIEW runs AS
WITH agent_span AS (
    SELECT *
    FROM (
        SELECT
            *,
            row_number() OVER (
                PARTITION BY run_id
                ORDER BY stop_reason IS NULL, parent_span_id IS NOT NULL, started_at NULLS LAST, span_id
            ) AS nth
        FROM span_live
        WHERE operation = 'invoke_agent'
    )
    WHERE nth = 1
),
extent AS (
    SELECT
        run_id,
        min(trace_id) AS trace_id,
        min(started_at) AS started_at,
        max(ended_at) AS ended_at,
        bool_or(open) AS open,
        bool_or(parent_span_id IS NULL AND status = 'error') AS root_failed,
        max(service) AS service,
        max(session_id) AS session_id,
        max(user_id) AS user_id,
        max(environment) AS environment,
        max(release) AS release,
        max(prompt_name) AS prompt_name,
        max(prompt_version) AS prompt_version,
        max(source) AS source
    FROM span_live
    GROUP BY run_id
),
model AS (
    SELECT
        run_id,
        count(DISTINCT turn)::BIGINT AS turns,
        max(turn) AS last_turn,
        sum(input_tokens)::BIGINT AS input_tokens,
        sum(output_tokens)::BIGINT AS output_tokens,
        sum(cache_read_tokens)::BIGINT AS cached_input_tokens,
        sum(cost_usd) AS cost_usd,
        arg_min(coalesce(response_model, request_model), turn) AS model,
        arg_max(struct_pack(word := finish_reason, status := status), turn) AS last_call,
        min(source_dialect) AS source_dialect
    FROM call_live
    WHERE is_model
    GROUP BY run_id
),
tool AS (
    SELECT
        run_id,
        count(*)::BIGINT AS tool_calls,
        (count(*) FILTER (WHERE tool_status IN ('error', 'timeout')))::BIGINT AS tool_errors,
        (count(args_hash) - count(DISTINCT args_hash))::BIGINT AS repeated_calls
    FROM call_live
    WHERE NOT is_model
    GROUP BY run_id
),
joined AS (
    SELECT
        e.run_id,
        e.trace_id,
        a.parent_run_id,
        a.agent,
        coalesce(a.service, e.service) AS service,
        coalesce(a.request_model, m.model) AS model,
        e.started_at,
        CASE WHEN NOT e.open THEN e.ended_at END AS ended_at,
        a.run_status,
        e.open,
        CASE
            WHEN a.stop_reason IS NOT NULL THEN a.stop_reason
            WHEN e.open THEN NULL
            WHEN a.source_dialect IN ('loopdeck') THEN NULL
            WHEN m.last_call.status = 'error' AND (a.status = 'error' OR a.run_id IS NULL) THEN 'model_error'
            WHEN a.status = 'error' OR e.root_failed THEN 'unknown'
            WHEN m.last_call.word IN ('end_turn', 'stop_sequence') THEN 'completed'
            WHEN m.last_call.word = 'length' THEN 'output_truncated'
            WHEN m.last_call.word = 'refusal' THEN 'refused'
            WHEN m.last_call.word = 'context_full' THEN 'context_exhausted'
            WHEN a.answer IS NOT NULL THEN 'completed'
            ELSE 'unknown'
        END AS stop_reason,
        a.status = 'error' OR e.root_failed AS failed,
        a.stop_evidence,
        m.turns,
        a.max_turns,
        a.max_tokens,
        t.tool_calls,
        t.tool_errors,
        t.repeated_calls,
        m.input_tokens,
        m.output_tokens,
        m.cached_input_tokens,
        m.cost_usd,
        coalesce(a.session_id, e.session_id) AS session_id,
        coalesce(a.user_id, e.user_id) AS user_id,
        coalesce(a.environment, e.environment) AS environment,
        coalesce(a.release, e.release) AS release,
        coalesce(a.prompt_name, e.prompt_name) AS prompt_name,
        coalesce(a.prompt_version, e.prompt_version) AS prompt_version,
        a.prompt_hash,
        a.task_id,
        a.trial,
        a.tags,
        a.replay_of,
        a.replay_mode,
        coalesce(a.source, e.source) AS source,
        coalesce(a.source_dialect, m.source_dialect) AS source_dialect,
        a.task,
        a.answer
    FROM extent AS e
    LEFT JOIN agent_span AS a ON a.run_id = e.run_id
    LEFT JOIN model AS m ON m.run_id = e.run_id
    LEFT JOIN tool AS t ON t.run_id = e.run_id
    WHERE a.run_id IS NOT NULL OR m.run_id IS NOT NULL
)
SELECT
    run_id,
    trace_id,
    parent_run_id,
    agent,
    service,
    model,
    started_at,
    ended_at,
    date_diff('microsecond', started_at, ended_at) / 1000.0 AS duration_ms,
    coalesce(run_status, CASE
        WHEN open THEN 'running'
        WHEN failed THEN 'failed'
        WHEN stop_reason = 'completed' THEN 'completed'
        WHEN stop_reason IN ('output_truncated', 'context_exhausted') THEN 'stopped'
        WHEN stop_reason IN ('model_error', 'refused') THEN 'failed'
    END) AS status,
    stop_reason,
    stop_evidence,
    coalesce(turns, 0) AS turns,
    max_turns,
    coalesce(tool_calls, 0) AS tool_calls,
    coalesce(tool_errors, 0) AS tool_errors,
    coalesce(repeated_calls, 0) AS repeated_calls,
    input_tokens,
    output_tokens,
    cached_input_tokens,
    cost_usd,
    session_id,
    user_id,
    environment,
    release,
    prompt_name,
    prompt_version,
    prompt_hash,
    task_id,
    trial,
    from_json(tags, '["VARCHAR"]') AS tags,
    replay_of,
    replay_mode,
    source,
    source_dialect,
    max_tokens,
    task,
    answer
FROM joined;
