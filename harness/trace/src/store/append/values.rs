//! The columns of each table, in the order of `sql/schema`.

use super::Row;
use crate::ops::{AlertChange, Annotation, Score, Silence};
use crate::row::SpanRow;
use duckdb::types::{TimeUnit, ToSqlOutput, Value};

const NULL: ToSqlOutput<'static> = ToSqlOutput::Owned(Value::Null);

pub(super) fn span(row_id: i64, row: &SpanRow) -> Row<'_> {
    let mut values = span_identity(row_id, row);
    values.extend(run_columns(row));
    values.extend(model_columns(row));
    values.extend(tool_columns(row));
    values.extend([
        text(&row.attributes),
        text(&row.events),
        text(&row.links),
        text(&row.resource),
        text(&row.scope),
    ]);
    values
}

fn span_identity(row_id: i64, row: &SpanRow) -> Row<'_> {
    vec![
        row_id.into(),
        row.span_key.into(),
        row.rank.into(),
        row.content_key.into(),
        text(&row.source),
        text(&row.source_dialect),
        text(&row.trace_id),
        text(&row.span_id),
        maybe(&row.parent_span_id),
        text(&row.run_id),
        text(&row.name),
        row.kind.map_or(NULL, text),
        maybe(&row.operation),
        row.echo.into(),
        row.open.into(),
        at(row.started_at_ns),
        at(row.ended_at_ns),
        float(row.latency_ms),
        text(row.status),
        maybe(&row.status_message),
        maybe(&row.error_type),
        int(row.own.turn),
    ]
}

fn run_columns(row: &SpanRow) -> Row<'_> {
    let (own, said) = (&row.own, &row.reading);
    vec![
        maybe(&own.parent_run_id),
        maybe(&said.agent),
        maybe(&row.service),
        maybe(&own.run_status),
        maybe(&own.stop_reason),
        maybe(&own.stop_evidence),
        int(own.max_turns),
        int(own.max_tokens),
        maybe(&said.session_id),
        maybe(&said.user_id),
        maybe(&row.environment),
        maybe(&row.release),
        maybe(&said.prompt_name),
        maybe(&said.prompt_version),
        maybe(&own.prompt_hash),
        maybe(&own.task),
        if own.answer.is_some() { maybe(&own.answer) } else { maybe(&said.answer) },
        maybe(&own.task_id),
        int(own.trial),
        maybe(&own.tags),
        maybe(&own.replay_of),
        maybe(&own.replay_mode),
    ]
}

fn model_columns(row: &SpanRow) -> Row<'_> {
    let said = &row.reading;
    vec![
        maybe(&said.provider),
        maybe(&said.request_model),
        maybe(&said.response_model),
        maybe(&said.response_id),
        maybe(&said.finish_reason),
        int(said.input_tokens),
        int(said.output_tokens),
        int(said.cache_read_tokens),
        int(said.cache_write_tokens),
        int(said.reasoning_tokens),
        row.input_was_exclusive.into(),
        float(said.cost_usd),
        float(said.ttft_ms),
        maybe(&row.own.context_head),
    ]
}

fn tool_columns(row: &SpanRow) -> Row<'_> {
    let (own, said) = (&row.own, &row.reading);
    vec![
        int(own.call_index),
        maybe(&said.call_id),
        maybe(&said.tool_name),
        maybe(&said.arguments),
        maybe(&row.args_hash),
        maybe(&said.result),
        maybe(&row.result_hash),
        maybe(&row.tool_status),
        maybe(&own.error_class),
        maybe(&own.failure_stage),
        maybe(&own.permission),
        int(own.attempts),
    ]
}

pub(super) fn score(key: u64, score: &Score) -> Row<'_> {
    vec![
        key.into(),
        text(score.run_id.as_str()),
        text(&score.suite),
        text(&score.case_id),
        i64::from(score.repeat).into(),
        text(&score.scorer),
        float(score.value),
        text(&score.verdict),
        maybe(&score.label),
        maybe(&score.reason),
        maybe(&score.eval_id),
        at(score.at_ns),
    ]
}

pub(super) fn alert_change(nth: i64, change: &AlertChange) -> Row<'_> {
    vec![
        nth.into(),
        text(&change.alert_id),
        text(&change.rule),
        text(&change.kind),
        text(change.state.as_str()),
        maybe(&change.agent),
        maybe(&change.tool_name),
        maybe(&change.args_hash),
        float(change.value),
        float(change.threshold),
        json(&change.runs),
        change.evidence.as_ref().map_or(NULL, json),
        at(Some(change.at_ns)),
    ]
}

pub(super) fn silence(nth: i64, silence: &Silence) -> Row<'_> {
    vec![
        nth.into(),
        text(&silence.silence_id),
        maybe(&silence.rule),
        maybe(&silence.agent),
        at(Some(silence.until_ns)),
        text(&silence.by),
        maybe(&silence.reason),
        at(Some(silence.at_ns)),
    ]
}

pub(super) fn annotation(annotation: &Annotation) -> Row<'_> {
    vec![
        text(annotation.run_id.as_str()),
        annotation.span_id.map_or(NULL, |id| id.to_string().into()),
        text(&annotation.by),
        text(&annotation.label),
        maybe(&annotation.note),
        at(Some(annotation.at_ns)),
    ]
}

fn text(text: &str) -> ToSqlOutput<'_> {
    text.into()
}

fn maybe(text: &Option<String>) -> ToSqlOutput<'_> {
    text.as_deref().map_or(NULL, Into::into)
}

fn int(number: Option<i64>) -> ToSqlOutput<'static> {
    number.map_or(NULL, Into::into)
}

fn float(number: Option<f64>) -> ToSqlOutput<'static> {
    number.map_or(NULL, Into::into)
}

/// An instant as a column keeps it: microseconds, UTC.
fn at(ns: Option<i64>) -> ToSqlOutput<'static> {
    ns.map_or(NULL, |ns| ToSqlOutput::Owned(Value::Timestamp(TimeUnit::Microsecond, ns.div_euclid(1000))))
}

/// A list or object as JSON text.
fn json<T: serde::Serialize>(value: &T) -> ToSqlOutput<'static> {
    serde_json::to_string(value).map_or(NULL, Into::into)
}
