//! Spans -> OTLP messages, for the export.
//!
//! Place in the flow: the reverse of [`super::decode`]. Neighbours of one resource and scope share their envelope.

use super::decode::{DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS, TRACE_STATE};
use super::{ExportTraceServiceRequest, value};
use crate::attribute::SCHEMA_URL;
use crate::span::{Span, SpanEvent, SpanLink};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use serde_json::Value;

/// The request that carries these spans.
#[must_use]
pub fn encode(spans: &[Span]) -> ExportTraceServiceRequest {
    let resources = spans.chunk_by(|a, b| a.resource == b.resource);
    ExportTraceServiceRequest { resource_spans: resources.map(resource_spans).collect() }
}

fn resource_spans(spans: &[Span]) -> otlp::ResourceSpans {
    let attributes = spans.first().map(|span| value::attributes(&span.resource)).unwrap_or_default();
    let scopes = spans.chunk_by(|a, b| (&a.scope, &a.scope_version) == (&b.scope, &b.scope_version));
    otlp::ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: scopes.map(scope_spans).collect(),
        ..otlp::ResourceSpans::default()
    }
}

fn scope_spans(spans: &[Span]) -> otlp::ScopeSpans {
    let scope = spans.first().map(|span| InstrumentationScope {
        name: span.scope.clone(),
        version: span.scope_version.clone(),
        ..InstrumentationScope::default()
    });
    let ours = scope.as_ref().is_some_and(|scope| scope.name == crate::attribute::SCOPE);
    otlp::ScopeSpans {
        scope,
        spans: spans.iter().map(one).collect(),
        schema_url: if ours { SCHEMA_URL.to_owned() } else { String::new() },
    }
}

fn one(span: &Span) -> otlp::Span {
    let private = [TRACE_STATE, DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS];
    let said = span.attributes.iter().filter(|(name, _)| !private.contains(&name.as_str()));
    let count = |name: &str| {
        span.attributes.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
    };
    otlp::Span {
        trace_id: span.trace_id.bytes().to_vec(),
        span_id: span.span_id.bytes().to_vec(),
        trace_state: span.text(TRACE_STATE).unwrap_or_default().to_owned(),
        parent_span_id: span.parent_span_id.map(|id| id.bytes().to_vec()).unwrap_or_default(),
        flags: 0,
        name: span.name.clone(),
        kind: span.kind,
        start_time_unix_nano: nanos(span.started_at_ns),
        end_time_unix_nano: nanos(span.ended_at_ns),
        attributes: said.map(|(name, value)| value::key_value(name, value)).collect(),
        dropped_attributes_count: count(DROPPED_ATTRIBUTES),
        events: span.events.iter().map(event).collect(),
        dropped_events_count: count(DROPPED_EVENTS),
        links: span.links.iter().map(link).collect(),
        dropped_links_count: count(DROPPED_LINKS),
        status: Some(otlp::Status { code: span.status.code, message: span.status.message.clone() }),
    }
}

fn event(event: &SpanEvent) -> otlp::span::Event {
    otlp::span::Event {
        time_unix_nano: nanos(Some(event.at_ns)),
        name: event.name.clone(),
        attributes: value::attributes(&event.attributes),
        dropped_attributes_count: 0,
    }
}

fn link(link: &SpanLink) -> otlp::span::Link {
    otlp::span::Link {
        trace_id: link.trace_id.bytes().to_vec(),
        span_id: link.span_id.bytes().to_vec(),
        attributes: value::attributes(&link.attributes),
        ..otlp::span::Link::default()
    }
}

/// Zero is OTLP's word for unknown.
fn nanos(at_ns: Option<i64>) -> u64 {
    at_ns.and_then(|at| u64::try_from(at).ok()).unwrap_or(0)
}
