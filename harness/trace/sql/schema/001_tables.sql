-- Everything here is derived from the logs and can be rebuilt. Append only; no primary key, no index, no upsert:
-- duplicates are looked up before a batch is written, and a better row supersedes the older one.

-- One row a span. `span_key` is the span id as a number: narrow enough to look duplicates up by a scan.
CREATE TABLE span (
    row_id BIGINT NOT NULL,
    span_key UBIGINT NOT NULL,
    rank UTINYINT NOT NULL,
    content_key UBIGINT NOT NULL,
    source VARCHAR NOT NULL,
    source_dialect VARCHAR NOT NULL,
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    parent_span_id VARCHAR,
    run_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    kind VARCHAR,
    operation VARCHAR,
    echo BOOLEAN NOT NULL,
    open BOOLEAN NOT NULL,
    started_at TIMESTAMP,
    ended_at TIMESTAMP,
    latency_ms DOUBLE,
    status VARCHAR NOT NULL,
    status_message VARCHAR,
    error_type VARCHAR,
    turn BIGINT,

    parent_run_id VARCHAR,
    agent VARCHAR,
    service VARCHAR,
    run_status VARCHAR,
    stop_reason VARCHAR,
    stop_evidence VARCHAR,
    max_turns BIGINT,
    max_tokens BIGINT,
    session_id VARCHAR,
    user_id VARCHAR,
    environment VARCHAR,
    release VARCHAR,
    prompt_name VARCHAR,
    prompt_version VARCHAR,
    prompt_hash VARCHAR,
    task VARCHAR,
    answer VARCHAR,
    task_id VARCHAR,
    trial BIGINT,
    tags VARCHAR,
    replay_of VARCHAR,
    replay_mode VARCHAR,

    provider VARCHAR,
    request_model VARCHAR,
    response_model VARCHAR,
    response_id VARCHAR,
    finish_reason VARCHAR,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    reasoning_tokens BIGINT,
    input_was_exclusive BOOLEAN NOT NULL,
    cost_usd DOUBLE,
    ttft_ms DOUBLE,
    context_head VARCHAR,

    call_index BIGINT,
    call_id VARCHAR,
    tool_name VARCHAR,
    arguments VARCHAR,
    args_hash VARCHAR,
    result VARCHAR,
    result_hash VARCHAR,
    tool_status VARCHAR,
    error_class VARCHAR,
    failure_stage VARCHAR,
    permission VARCHAR,
    attempts BIGINT,

    attributes VARCHAR NOT NULL,
    events VARCHAR NOT NULL,
    links VARCHAR NOT NULL,
    resource VARCHAR NOT NULL,
    scope VARCHAR NOT NULL
);

-- Rows of `span` that a better row of the same span replaced.
CREATE TABLE superseded (row_id BIGINT NOT NULL);

-- One row a message a span carries; the content is a blob, kept once.
CREATE TABLE message (
    row_id BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    position BIGINT NOT NULL,
    role VARCHAR NOT NULL,
    blob VARCHAR NOT NULL
);

-- `parts` is NULL where the message is one plain text, which `content` then is.
CREATE TABLE blob (blob_key UBIGINT NOT NULL, blob VARCHAR NOT NULL, content VARCHAR NOT NULL, parts VARCHAR);

CREATE TABLE score (
    score_key UBIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    suite VARCHAR NOT NULL,
    case_id VARCHAR NOT NULL,
    repeat BIGINT NOT NULL,
    scorer VARCHAR NOT NULL,
    value DOUBLE,
    verdict VARCHAR NOT NULL,
    label VARCHAR,
    reason VARCHAR,
    eval_id VARCHAR,
    "at" TIMESTAMP
);

CREATE TABLE alert_change (
    nth BIGINT NOT NULL,
    alert_id VARCHAR NOT NULL,
    rule VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    agent VARCHAR,
    tool_name VARCHAR,
    args_hash VARCHAR,
    value DOUBLE,
    threshold DOUBLE,
    runs VARCHAR NOT NULL,
    evidence VARCHAR,
    "at" TIMESTAMP NOT NULL
);

CREATE TABLE silence (
    nth BIGINT NOT NULL,
    silence_id VARCHAR NOT NULL,
    rule VARCHAR,
    agent VARCHAR,
    until_at TIMESTAMP NOT NULL,
    "by" VARCHAR NOT NULL,
    reason VARCHAR,
    "at" TIMESTAMP NOT NULL
);

CREATE TABLE annotation (
    run_id VARCHAR NOT NULL,
    span_id VARCHAR,
    "by" VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    note VARCHAR,
    "at" TIMESTAMP NOT NULL
);

-- How far the index has read each log file; written in the transaction that holds the rows.
CREATE TABLE progress (
    file VARCHAR NOT NULL,
    read_to BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    modified_at_ns BIGINT NOT NULL
);

-- What of the logs could not be read. `line` is 0 where a file is unreadable as a whole.
CREATE TABLE unreadable (file VARCHAR NOT NULL, line BIGINT NOT NULL, what VARCHAR NOT NULL);
