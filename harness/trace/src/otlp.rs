//! OTLP bodies and spans: what comes in by `/v1/traces` and what the export sends.
//!
//! Place in the flow: body -> **spans** -> inbox, and spans -> **body** -> somebody else's collector. JSON is read
//! into the same messages that protobuf decodes to, so the same content gives the same spans. One bad span never
//! takes its batch along: it is rejected with a reason, the rest is kept.
//! Source: opentelemetry-proto 1.x, "OTLP/HTTP", "JSON Protobuf Encoding".

mod decode;
mod encode;
mod json;
mod value;

pub use encode::encode;

use crate::span::Span;
use prost::Message as _;

pub use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};

/// Attribute values may be nested this deep; deeper ones reject their span.
///
/// Low enough that neither decoder's own limit (prost 100 messages, JSON 128 levels) is met first.
pub const MAX_DEPTH: usize = 24;

/// What a body held.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The spans that are fit to keep, in the order of the body.
    pub spans: Vec<Span>,
    /// The others.
    pub rejected: Vec<Rejected>,
    /// What the sender should know although nothing was rejected.
    pub warning: Option<String>,
}

/// A span that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Where in the body, such as `resourceSpans[0].scopeSpans[0].spans[2]`.
    pub place: String,
    /// Why, naming the field.
    pub reason: String,
}

/// A body from which nothing can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// Not protobuf of the wanted message.
    #[error("the body is not a protobuf ExportTraceServiceRequest: {0}")]
    Protobuf(String),
    /// Not JSON.
    #[error("the body is not JSON: {0}")]
    Json(String),
    /// JSON of another shape.
    #[error("the body is not an ExportTraceServiceRequest: {place} must be {wanted}")]
    Shape {
        /// Where in the body.
        place: String,
        /// What belongs there.
        wanted: &'static str,
    },
}

/// Reads a protobuf body.
///
/// # Errors
/// When the bytes are no such message.
pub fn decode_protobuf(body: &[u8]) -> Result<Decoded, BadBody> {
    let request =
        ExportTraceServiceRequest::decode(body).map_err(|error| BadBody::Protobuf(error.to_string()))?;
    Ok(decode::request(request))
}

/// Reads a JSON body; an empty one is an empty request.
///
/// # Errors
/// When the bytes are no JSON, or JSON of another shape down to the lists of spans.
pub fn decode_json(body: &[u8]) -> Result<Decoded, BadBody> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Decoded::default());
    }
    json::request(body)
}

impl Decoded {
    /// What `partial_success` tells: the number of rejected spans and a message; `None` where there is nothing to
    /// tell and the field must stay unset.
    #[must_use]
    pub fn partial_success(&self) -> Option<ExportTracePartialSuccess> {
        const SHOWN: usize = 5;
        let rejected_spans = i64::try_from(self.rejected.len()).unwrap_or(i64::MAX);
        if self.rejected.is_empty() && self.warning.is_none() {
            return None;
        }
        let mut told: Vec<String> =
            self.rejected.iter().take(SHOWN).map(|one| format!("{}: {}", one.place, one.reason)).collect();
        if self.rejected.len() > SHOWN {
            told.push(format!("and {} more", self.rejected.len() - SHOWN));
        }
        told.extend(self.warning.clone());
        Some(ExportTracePartialSuccess { rejected_spans, error_message: told.join("; ") })
    }
}

#[cfg(test)]
mod tests;
