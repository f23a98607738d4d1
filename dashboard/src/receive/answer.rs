//! What a sender is answered, in the encoding it used.
//!
//! Place in the flow: [`super::traces`] decides, this spells. Failures carry a `google.rpc.Status`; 503 carries
//! `Retry-After`. JSON is written by hand: 64-bit integers are text there and an empty answer is `{}`.

use crate::counter::Counters;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use prost::Message as _;
use serde_json::json;
use trace::otlp::{ExportTracePartialSuccess, ExportTraceServiceResponse};

/// How long a sender is asked to wait, in seconds.
const RETRY_AFTER_S: u16 = 2;

/// The two encodings of OTLP/HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Answer {
    /// Written; perhaps with something to tell.
    Accepted(Option<ExportTracePartialSuccess>),
    /// Never to be sent again like this.
    Refused(StatusCode, String),
    /// To be sent again later.
    Deferred(String),
}

/// The error body of OTLP/HTTP.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Answer {
    pub(super) fn refused(status: u16, why: impl Into<String>) -> Self {
        Self::Refused(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), why.into())
    }

    pub(super) fn deferred(why: impl Into<String>) -> Self {
        Self::Deferred(why.into())
    }

    pub(super) fn count(&self, counters: &Counters) {
        match self {
            Self::Accepted(told) => {
                counters.requests_accepted.add(1);
                let rejected = told.as_ref().map_or(0, |told| told.rejected_spans);
                counters.spans_rejected.add(u64::try_from(rejected).unwrap_or(0));
            }
            Self::Refused(..) => counters.requests_refused.add(1),
            Self::Deferred(_) => counters.requests_deferred.add(1),
        }
    }

    pub(super) fn into_response(self, encoding: Encoding) -> Response {
        match self {
            Self::Accepted(partial_success) => {
                body(StatusCode::OK, encoding, accepted(partial_success, encoding))
            }
            Self::Refused(status, why) => body(status, encoding, failed(code(status), why, encoding)),
            Self::Deferred(why) => {
                const UNAVAILABLE: i32 = 14;
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut response = body(status, encoding, failed(UNAVAILABLE, why, encoding));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
                response
            }
        }
    }
}

/// The code of `google.rpc` that goes with a status of HTTP.
fn code(status: StatusCode) -> i32 {
    match status.as_u16() {
        408 => 4,
        413 => 8,
        415 => 12,
        _ => 3,
    }
}

fn accepted(partial_success: Option<ExportTracePartialSuccess>, encoding: Encoding) -> Vec<u8> {
    match (encoding, partial_success) {
        (Encoding::Protobuf, partial_success) => {
            ExportTraceServiceResponse { partial_success }.encode_to_vec()
        }
        (Encoding::Json, None) => b"{}".to_vec(),
        (Encoding::Json, Some(told)) => json!({"partialSuccess": {
            "rejectedSpans": told.rejected_spans.to_string(),
            "errorMessage": told.error_message,
        }})
        .to_string()
        .into_bytes(),
    }
}

fn failed(code: i32, message: String, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => RpcStatus { code, message }.encode_to_vec(),
        Encoding::Json => json!({"code": code, "message": message}).to_string().into_bytes(),
    }
}

fn body(status: StatusCode, encoding: Encoding, bytes: Vec<u8>) -> Response {
    let name = match encoding {
        Encoding::Protobuf => "application/x-protobuf",
        Encoding::Json => "application/json",
    };
    (status, [(CONTENT_TYPE, name)], Body::from(bytes)).into_response()
}
