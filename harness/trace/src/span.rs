//! Spans in words of OpenTelemetry: what tapes are turned into and what OTLP brings in.
//!
//! Place in the flow: tape -> **span** -> row, and OTLP body -> **span** -> row. A span is also what the export
//! sends. [`from_tape`] is the only way a tape becomes spans.

mod from_tape;

pub use from_tape::from_tape;

use crate::id::{SpanId, TraceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One span, decoded and validated, with everything the sender said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Its parent; absent for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// OTLP's number: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    #[serde(default)]
    pub kind: i32,
    /// Nanoseconds since 1970; absent where the source has no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ns: Option<i64>,
    /// Nanoseconds since 1970; absent while the span is open or where the source has no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ns: Option<i64>,
    /// Whether the thing is still going on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// OTLP's status.
    #[serde(default)]
    pub status: SpanStatus,
    /// Attributes as JSON values; the last of equal keys.
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// Events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    /// Links to other spans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLink>,
    /// Attributes of the resource that sent it.
    #[serde(default)]
    pub resource: Map<String, Value>,
    /// Name of the instrumentation scope.
    #[serde(default)]
    pub scope: String,
    /// Version of the instrumentation scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope_version: String,
}

/// OTLP's span status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanStatus {
    /// 0 unset, 1 ok, 2 error.
    #[serde(default)]
    pub code: i32,
    /// Free words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An event of a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanEvent {
    /// Its name.
    pub name: String,
    /// Nanoseconds since 1970.
    pub at_ns: i64,
    /// Its attributes.
    #[serde(default)]
    pub attributes: Map<String, Value>,
}

/// A link of a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanLink {
    /// The other trace.
    pub trace_id: TraceId,
    /// The other span.
    pub span_id: SpanId,
    /// Its attributes.
    #[serde(default)]
    pub attributes: Map<String, Value>,
}

impl Span {
    /// An attribute as text, if it is there and is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.as_str()
    }
}
