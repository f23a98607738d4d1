//! OTLP messages -> spans: checks that no decoder makes, the same for protobuf and JSON.
//!
//! Place in the flow: the protobuf decoder and [`super::json`] both end here.

use super::{Decoded, ExportTraceServiceRequest, Rejected, value};
use crate::id::{SpanId, TraceId};
use crate::span::{Span, SpanEvent, SpanLink, SpanStatus};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use serde_json::{Map, Value};

/// What OTLP says of a span beside its attributes; kept as attributes under these names where it was said.
pub(super) const TRACE_STATE: &str = "loopdeck.otlp.trace_state";
/// How many attributes the sender dropped.
pub(super) const DROPPED_ATTRIBUTES: &str = "loopdeck.otlp.dropped_attributes";
/// How many events the sender dropped.
pub(super) const DROPPED_EVENTS: &str = "loopdeck.otlp.dropped_events";
/// How many links the sender dropped.
pub(super) const DROPPED_LINKS: &str = "loopdeck.otlp.dropped_links";

/// What the spans of one scope share.
pub(super) struct Origin {
    /// Attributes of the resource, or why they cannot be read.
    pub(super) resource: Result<Map<String, Value>, String>,
    /// Name of the scope.
    pub(super) scope: String,
    /// Version of the scope.
    pub(super) scope_version: String,
}

impl Origin {
    pub(super) fn new(
        resource: Result<Map<String, Value>, String>,
        scope: Option<InstrumentationScope>,
    ) -> Self {
        let scope = scope.unwrap_or_default();
        Self { resource, scope: scope.name, scope_version: scope.version }
    }
}

/// The attributes of a resource.
pub(super) fn resource(resource: Option<Resource>) -> Result<Map<String, Value>, String> {
    value::map(resource.unwrap_or_default().attributes).map_err(|reason| format!("resource: {reason}"))
}

/// A decoded request: every span kept or rejected.
pub(super) fn request(request: ExportTraceServiceRequest) -> Decoded {
    let mut decoded = Decoded::default();
    for (r, resource_spans) in request.resource_spans.into_iter().enumerate() {
        let shared = resource(resource_spans.resource);
        for (s, scope_spans) in resource_spans.scope_spans.into_iter().enumerate() {
            let origin = Origin::new(shared.clone(), scope_spans.scope);
            for (n, one) in scope_spans.spans.into_iter().enumerate() {
                keep(&mut decoded, || place(r, s, n), span(one, &origin));
            }
        }
    }
    decoded
}

/// Where a span stands in a body.
pub(super) fn place(resource: usize, scope: usize, span: usize) -> String {
    format!("resourceSpans[{resource}].scopeSpans[{scope}].spans[{span}]")
}

/// Adds a span or its rejection.
pub(super) fn keep(decoded: &mut Decoded, place: impl FnOnce() -> String, span: Result<Span, String>) {
    match span {
        Ok(span) => decoded.spans.push(span),
        Err(reason) => decoded.rejected.push(Rejected { place: place(), reason }),
    }
}

/// One span, checked.
pub(super) fn span(from: otlp::Span, origin: &Origin) -> Result<Span, String> {
    let mut attributes = value::map(from.attributes)?;
    if !from.trace_state.is_empty() {
        attributes.insert(TRACE_STATE.to_owned(), from.trace_state.into());
    }
    for (name, count) in [
        (DROPPED_ATTRIBUTES, from.dropped_attributes_count),
        (DROPPED_EVENTS, from.dropped_events_count),
        (DROPPED_LINKS, from.dropped_links_count),
    ] {
        if count > 0 {
            attributes.insert(name.to_owned(), count.into());
        }
    }
    let status = from.status.unwrap_or_default();
    let ended_at_ns = instant(from.end_time_unix_nano, "endTimeUnixNano")?;
    Ok(Span {
        trace_id: TraceId::new(id(&from.trace_id, "traceId")?),
        span_id: SpanId::new(id(&from.span_id, "spanId")?),
        parent_span_id: parent(&from.parent_span_id)?,
        name: from.name,
        kind: from.kind,
        started_at_ns: instant(from.start_time_unix_nano, "startTimeUnixNano")?,
        ended_at_ns,
        open: ended_at_ns.is_none() && from.start_time_unix_nano > 0,
        status: SpanStatus { code: status.code, message: status.message },
        attributes,
        events: from.events.into_iter().map(event).collect::<Result<_, _>>()?,
        links: from.links.into_iter().map(link).collect::<Result<_, _>>()?,
        resource: origin.resource.clone()?,
        scope: origin.scope.clone(),
        scope_version: origin.scope_version.clone(),
    })
}

fn event(from: otlp::span::Event) -> Result<SpanEvent, String> {
    Ok(SpanEvent {
        at_ns: instant(from.time_unix_nano, "event timeUnixNano")?.unwrap_or(0),
        attributes: value::map(from.attributes)
            .map_err(|reason| format!("event `{}`: {reason}", from.name))?,
        name: from.name,
    })
}

fn link(from: otlp::span::Link) -> Result<SpanLink, String> {
    Ok(SpanLink {
        trace_id: TraceId::new(id(&from.trace_id, "link traceId")?),
        span_id: SpanId::new(id(&from.span_id, "link spanId")?),
        attributes: value::map(from.attributes).map_err(|reason| format!("link: {reason}"))?,
    })
}

fn id<const N: usize>(bytes: &[u8], field: &str) -> Result<[u8; N], String> {
    if bytes.is_empty() {
        return Err(format!("{field} is missing"));
    }
    let id: [u8; N] =
        bytes.try_into().map_err(|_| format!("{field} has {} bytes, {N} are wanted", bytes.len()))?;
    if id == [0; N] {
        return Err(format!("{field} is all zeros, which OTLP calls invalid"));
    }
    Ok(id)
}

/// A root has no parent; some senders write that as zeros.
fn parent(bytes: &[u8]) -> Result<Option<SpanId>, String> {
    if bytes.iter().all(|byte| *byte == 0) && matches!(bytes.len(), 0 | 8) {
        return Ok(None);
    }
    id(bytes, "parentSpanId").map(|id| Some(SpanId::new(id)))
}

/// Nanoseconds since 1970; zero is OTLP's word for unknown.
fn instant(nanos: u64, field: &str) -> Result<Option<i64>, String> {
    if nanos == 0 {
        return Ok(None);
    }
    i64::try_from(nanos).map(Some).map_err(|_| format!("{field} {nanos} lies beyond the year 2262"))
}
