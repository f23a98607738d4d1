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
-- A call that says its turn is ordered by it, others by time; the calls of a run without turns are its turns.
called AS (
    SELECT
        run_id,
        count(*) FILTER (WHERE is_model) AS model_calls,
        coalesce(
            nullif(count(DISTINCT turn) FILTER (WHERE is_model), 0),
            count(*) FILTER (WHERE is_model)
        )::BIGINT AS turns,
        (sum(input_tokens) FILTER (WHERE is_model))::BIGINT AS input_tokens,
        (sum(output_tokens) FILTER (WHERE is_model))::BIGINT AS output_tokens,
        (sum(cache_read_tokens) FILTER (WHERE is_model))::BIGINT AS cached_input_tokens,
        -- Summed as decimals: a sum of doubles depends on the order of the rows in its last digits.
        (sum(cost_usd::DECIMAL(38, 12)) FILTER (WHERE is_model))::DOUBLE AS cost_usd,
        arg_min(coalesce(response_model, request_model), place) FILTER (WHERE is_model) AS model,
        arg_max({'word': finish_reason, 'status': status}, place) FILTER (WHERE is_model) AS last_call,
        min(source_dialect) FILTER (WHERE is_model) AS source_dialect,
        (count(*) FILTER (WHERE NOT is_model))::BIGINT AS tool_calls,
        (count(*) FILTER (WHERE NOT is_model AND tool_status IN ('error', 'timeout')))::BIGINT AS tool_errors,
        (count(args_hash) FILTER (WHERE NOT is_model)
            - count(DISTINCT args_hash) FILTER (WHERE NOT is_model))::BIGINT AS repeated_calls
    FROM (
        SELECT
            *,
            {
                'turn': turn, 'started_at': coalesce(started_at, 'infinity'::TIMESTAMP), 'span_id': span_id
            } AS place
        FROM call_once
    )
    GROUP BY run_id
),
joined AS (
    SELECT
        e.run_id,
        e.trace_id,
        a.parent_run_id,
        a.agent,
        coalesce(a.service, e.service) AS service,
        coalesce(a.request_model, c.model) AS model,
        e.started_at,
        CASE WHEN NOT e.open THEN e.ended_at END AS ended_at,
        a.run_status,
        e.open,
        CASE
            WHEN a.stop_reason IS NOT NULL THEN a.stop_reason
            WHEN e.open THEN NULL
            WHEN a.source_dialect IN ('loopdeck') THEN NULL
            WHEN c.last_call.status = 'error' AND (a.status = 'error' OR a.run_id IS NULL) THEN 'model_error'
            WHEN a.status = 'error' OR e.root_failed THEN 'unknown'
            WHEN c.last_call.word IN ('end_turn', 'stop_sequence') THEN 'completed'
            WHEN c.last_call.word = 'length' THEN 'output_truncated'
            WHEN c.last_call.word = 'refusal' THEN 'refused'
            WHEN c.last_call.word = 'context_full' THEN 'context_exhausted'
            WHEN a.answer IS NOT NULL THEN 'completed'
            ELSE 'unknown'
        END AS stop_reason,
        a.status = 'error' OR e.root_failed AS failed,
        a.stop_evidence,
        c.turns,
        a.max_turns,
        a.max_tokens,
        c.tool_calls,
        c.tool_errors,
        c.repeated_calls,
        c.input_tokens,
        c.output_tokens,
        c.cached_input_tokens,
        c.cost_usd,
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
        coalesce(a.source_dialect, c.source_dialect) AS source_dialect,
        a.task,
        a.answer
    FROM extent AS e
    LEFT JOIN agent_span AS a ON a.run_id = e.run_id
    LEFT JOIN called AS c ON c.run_id = e.run_id
    WHERE a.run_id IS NOT NULL OR c.model_calls > 0
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
