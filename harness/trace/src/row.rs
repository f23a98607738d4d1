//! A span as a row: hot fields as typed columns, everything else beside them as JSON text.
//!
//! Place in the flow: span -> **row** -> DuckDB. Pure: the same span always gives the same row. Our own spans are
//! read by the names of [`crate::attribute`], others through [`crate::dialect`].

mod message;
mod own;

pub use message::MessageRow;
pub use own::Own;

use crate::attribute::{self as name, operation};
use crate::dialect::{self, Dialect, Reading};
use crate::id::Hash;
use crate::span::Span;
use crate::{canonical, outcome::ToolStatus};
use serde_json::{Map, Value};

/// What a count of tokens can be. Beyond it a sum over runs could overflow, and no model read that much.
const TOKENS: std::ops::Range<i64> = 0..1 << 40;

/// Which log a span comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// OTLP, decoded.
    Otlp,
    /// An imported file.
    Import,
    /// A tape: nothing received replaces it.
    Tape,
}

/// One row of the table `span`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is the column of the same name, described in sql/schema")]
pub struct SpanRow {
    pub span_key: u64,
    pub rank: u8,
    pub content_key: u64,
    pub source: String,
    pub source_dialect: String,
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: Option<String>,
    pub run_id: String,
    pub name: String,
    pub kind: Option<&'static str>,
    pub operation: Option<String>,
    pub echo: bool,
    pub open: bool,
    pub started_at_ns: Option<i64>,
    pub ended_at_ns: Option<i64>,
    pub latency_ms: Option<f64>,
    pub status: &'static str,
    pub status_message: Option<String>,
    pub error_type: Option<String>,
    pub own: Own,
    pub service: Option<String>,
    pub environment: Option<String>,
    pub release: Option<String>,
    pub reading: Reading,
    pub input_was_exclusive: bool,
    pub args_hash: Option<String>,
    pub result_hash: Option<String>,
    pub tool_status: Option<String>,
    pub attributes: String,
    pub events: String,
    pub links: String,
    pub resource: String,
    pub scope: String,
}

/// The row of a span, and the rows of the messages it carries.
#[must_use]
pub fn rows(span: &Span, origin: Origin) -> (SpanRow, Vec<MessageRow>) {
    let mut reading = dialect::read(span);
    let own = own::read(span);
    let ours = Dialect::of(span) == Dialect::Loopdeck;
    let operation = operation_of(span, &mut reading);
    let messages = message::rows(span, operation.as_deref(), ours, std::mem::take(&mut reading.said));
    let input_was_exclusive = include_cached(&mut reading);
    let is_tool = operation.as_deref() == Some(operation::EXECUTE_TOOL);
    let tool = reading.tool_name.as_deref().unwrap_or_default();
    let args_hash = reading
        .arguments
        .as_deref()
        .filter(|_| is_tool)
        .map(|args| canonical::args_hash(tool, args).to_string());
    let result_hash =
        reading.result.as_deref().filter(|_| is_tool).map(|text| canonical::result_hash(text).to_string());
    let row = SpanRow {
        span_key: key(span.span_id.bytes()),
        rank: rank(span, origin),
        content_key: content_key(span),
        source: source(span, origin),
        source_dialect: dialect::label(span).to_owned(),
        trace_id: span.trace_id.to_string(),
        span_id: span.span_id.to_string(),
        parent_span_id: span.parent_span_id.filter(|id| !id.is_zero()).map(|id| id.to_string()),
        run_id: own.run_id.clone().unwrap_or_else(|| span.trace_id.to_string()),
        name: span.name.clone(),
        kind: kind(span.kind),
        echo: dialect::is_echo(span),
        open: span.open,
        started_at_ns: span.started_at_ns,
        ended_at_ns: span.ended_at_ns,
        latency_ms: latency_ms(span),
        status: status(span),
        status_message: Some(span.status.message.clone()).filter(|text| !text.is_empty()),
        error_type: error_type(span),
        service: resource_text(span, &[name::SERVICE_NAME])
            .filter(|text| !text.starts_with("unknown_service")),
        environment: resource_text(span, &[name::ENVIRONMENT, "deployment.environment"]),
        release: resource_text(span, &[name::SERVICE_VERSION]),
        input_was_exclusive,
        args_hash: if is_tool { own.args_hash.clone().or(args_hash) } else { None },
        result_hash: if is_tool { own.result_hash.clone().or(result_hash) } else { None },
        tool_status: if is_tool { tool_status(span, &own) } else { None },
        operation,
        own,
        reading,
        attributes: json_text(&span.attributes),
        events: json_text(&span.events),
        links: json_text(&span.links),
        resource: json_text(&span.resource),
        scope: span.scope.clone(),
    };
    (row, messages)
}

/// The first eight bytes of an id or hash as a number: narrow enough to be scanned for.
#[must_use]
pub(crate) fn key(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
}

/// A better row of the same span has a higher rank: a tape before anything received, an ended span before an open.
fn rank(span: &Span, origin: Origin) -> u8 {
    u8::from(origin == Origin::Tape) * 2 + u8::from(!span.open)
}

/// Equal for equal spans: a tape that is read again changes only the rows that differ.
fn content_key(span: &Span) -> u64 {
    key(Hash::of(&serde_json::to_vec(span).unwrap_or_default()).bytes())
}

fn source(span: &Span, origin: Origin) -> String {
    span.text(name::RUN_SOURCE).map_or_else(
        || match origin {
            Origin::Otlp => "otlp".to_owned(),
            Origin::Import => "import".to_owned(),
            Origin::Tape => "run".to_owned(),
        },
        str::to_owned,
    )
}

/// Our turn spans have no operation of the registry; of other spans the dialect knows, or nobody.
fn operation_of(span: &Span, reading: &mut Reading) -> Option<String> {
    match span.text(name::SPAN_KIND) {
        Some(operation::TURN) => Some(operation::TURN.to_owned()),
        _ => reading.operation.take(),
    }
}

/// Some emitters leave cached tokens out of the input; then the parts are larger than the whole. They are added,
/// and the row says so.
fn include_cached(reading: &mut Reading) -> bool {
    for tokens in [
        &mut reading.input_tokens,
        &mut reading.output_tokens,
        &mut reading.cache_read_tokens,
        &mut reading.cache_write_tokens,
        &mut reading.reasoning_tokens,
    ] {
        *tokens = tokens.filter(|count| TOKENS.contains(count));
    }
    let cached =
        reading.cache_read_tokens.unwrap_or(0).saturating_add(reading.cache_write_tokens.unwrap_or(0));
    match reading.input_tokens {
        Some(input) if cached > input => {
            reading.input_tokens = Some(input.saturating_add(cached));
            true
        }
        _ => false,
    }
}

fn kind(number: i32) -> Option<&'static str> {
    match number {
        1 => Some("internal"),
        2 => Some("server"),
        3 => Some("client"),
        4 => Some("producer"),
        5 => Some("consumer"),
        _ => None,
    }
}

/// A span that ended before it began has a broken clock, not a negative latency.
fn latency_ms(span: &Span) -> Option<f64> {
    let ns = span.ended_at_ns?.checked_sub(span.started_at_ns?)?;
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 ns, which is 104 days")]
    (ns >= 0).then_some(ns as f64 / 1e6)
}

fn status(span: &Span) -> &'static str {
    match span.status.code {
        1 => "ok",
        2 => "error",
        _ => "unset",
    }
}

fn exception(span: &Span) -> Option<&Map<String, Value>> {
    span.events.iter().rev().find(|event| event.name == "exception").map(|event| &event.attributes)
}

fn error_type(span: &Span) -> Option<String> {
    let said = span.text(name::ERROR_TYPE).or_else(|| exception(span)?.get("exception.type")?.as_str());
    said.map(str::to_owned)
}

/// How a tool call ended: our spans say it, others by status, error type or a recorded exception.
fn tool_status(span: &Span, own: &Own) -> Option<String> {
    if own.tool_status.is_some() || span.open {
        return own.tool_status.clone();
    }
    let kind = error_type(span);
    let failed = span.status.code == 2 || (span.status.code != 1 && kind.is_some());
    let status = match (failed, kind.map(|kind| kind.to_ascii_lowercase())) {
        (false, _) => ToolStatus::Ok,
        (true, Some(kind)) if kind.contains("timeout") => ToolStatus::Timeout,
        (true, Some(kind)) if kind.contains("cancel") => ToolStatus::Cancelled,
        (true, _) => ToolStatus::Error,
    };
    Some(status.as_str().to_owned())
}

fn resource_text(span: &Span, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| span.resource.get(*name).or_else(|| span.attributes.get(*name)));
    found.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn json_text<T: serde::Serialize>(value: &T) -> String {
    // Values that came from JSON always go back to it.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
