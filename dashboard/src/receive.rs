//! OTLP/HTTP in: one body is read, unpacked, decoded, redacted and written to the inbox, then acknowledged.
//!
//! Place in the flow: sender -> **receive** -> inbox -> index. 200 is answered only after the inbox write. What
//! cannot be written now is put off with 503, which senders retry; 500 would lose it. A body is held in memory
//! by at most [`BODIES`] requests at once; others wait, then are put off.
//! Source: OTLP specification, "OTLP/HTTP".

mod answer;
mod unpack;

use crate::clock;
use crate::server::Server;
use answer::{Answer, Encoding};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use futures::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use trace::inbox::{self, InboxError};
use trace::otlp::{self, Decoded, Rejected};
use trace::redact::Redactor;
use trace::span::Span;

/// The largest body, before and after decompression; OTLP recommends this value.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;
/// Requests whose bodies may be in memory at once.
pub(crate) const BODIES: usize = 8;
/// How long a request waits for its turn before it is put off.
const TURN_WAIT: Duration = Duration::from_secs(5);
/// How long a sender may take to send its body.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// `POST /v1/traces`
pub(crate) async fn traces(State(server): State<Arc<Server>>, request: Request) -> Response {
    let encoding = Encoding::of(request.headers());
    let answer = take(&server, encoding, request).await;
    answer.count(&server.counters);
    answer.into_response(encoding.unwrap_or(Encoding::Json))
}

/// `POST /v1/metrics` and `/v1/logs`: taken and dropped, so that a sender configured for all three does not fail.
pub(crate) async fn ignored(request: Request) -> Response {
    let encoding = Encoding::of(request.headers()).unwrap_or(Encoding::Json);
    Answer::Accepted(None).into_response(encoding)
}

async fn take(server: &Arc<Server>, encoding: Option<Encoding>, request: Request) -> Answer {
    let Some(encoding) = encoding else {
        return Answer::refused(415, "content-type must be application/x-protobuf or application/json");
    };
    let gzip = match is_gzip(request.headers()) {
        Ok(gzip) => gzip,
        Err(answer) => return answer,
    };
    let Ok(Ok(_turn)) = timeout(TURN_WAIT, server.bodies.acquire()).await else {
        return Answer::deferred("too many requests at once; send this one again");
    };
    let body = match timeout(BODY_WAIT, read(request)).await {
        Ok(Ok(body)) => body,
        Ok(Err(answer)) => return answer,
        Err(_) => return Answer::refused(408, "the body did not arrive in time"),
    };
    let server = Arc::clone(server);
    let work = move || keep(&server, encoding, gzip, body);
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Answer::deferred("the server is shutting down"))
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Answer> {
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"" | b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => Err(Answer::refused(415, "content-encoding must be gzip or none")),
    }
}

async fn read(request: Request) -> Result<Vec<u8>, Answer> {
    let told =
        request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > MAX_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut stream = Body::into_data_stream(request.into_body());
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Answer::refused(400, "the body was cut off"))?;
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn too_large() -> Answer {
    Answer::refused(413, format!("the body is larger than {MAX_BODY_BYTES} bytes; send smaller batches"))
}

/// All that costs time: off the threads that serve others.
fn keep(server: &Server, encoding: Encoding, gzip: bool, body: Vec<u8>) -> Answer {
    let body = match gzip {
        false => body,
        true => match unpack::gunzip(&body, MAX_BODY_BYTES) {
            Ok(body) => body,
            Err(unpack::Unpack::TooLarge) => return too_large(),
            Err(unpack::Unpack::Broken) => {
                return Answer::refused(400, "the body is not gzip, as its header says");
            }
        },
    };
    let decoded = match encoding {
        Encoding::Protobuf => otlp::decode_protobuf(&body),
        Encoding::Json => otlp::decode_json(&body),
    };
    drop(body);
    let mut decoded = match decoded {
        Ok(decoded) => decoded,
        Err(bad) => return Answer::refused(400, bad.to_string()),
    };
    decoded.spans.iter_mut().for_each(|span| redact(span, &server.redactor));
    let spans = std::mem::take(&mut decoded.spans);
    match write(server, spans, &mut decoded) {
        Ok(()) => Answer::Accepted(decoded.partial_success()),
        Err(why) => {
            tracing::error!(%why, "cannot write to the inbox");
            Answer::deferred(format!("cannot write to the inbox: {why}"))
        }
    }
}

/// Appends the spans; what is too large for one entry goes into several, and a span too large for any is rejected.
fn write(server: &Server, spans: Vec<Span>, decoded: &mut Decoded) -> Result<(), InboxError> {
    if spans.is_empty() {
        return Ok(());
    }
    let count = spans.len();
    let now_ns = clock::now_ns();
    let entry = inbox::Entry { at_ns: now_ns, body: inbox::Body::Otlp { spans } };
    match server.inbox.append(&entry) {
        Ok(_) => {
            server.counters.spans_accepted.add(count as u64);
            server.counters.received_at.set(now_ns);
            server.received.notify_one();
            Ok(())
        }
        Err(InboxError::TooLarge { bytes }) => {
            let inbox::Body::Otlp { mut spans } = entry.body else { return Ok(()) };
            if let [span] = spans.as_slice() {
                let place = format!("span {}", span.span_id);
                decoded.rejected.push(Rejected { place, reason: format!("it takes {bytes} bytes to store") });
                return Ok(());
            }
            let rest = spans.split_off(count / 2);
            write(server, spans, decoded)?;
            write(server, rest, decoded)
        }
        Err(why) => Err(why),
    }
}

/// Takes secrets out of every text of a span before anything of it is written.
fn redact(span: &mut Span, redactor: &Redactor) {
    let clean = |map: &mut serde_json::Map<String, serde_json::Value>| {
        let mut value = serde_json::Value::Object(std::mem::take(map));
        redactor.value(&mut value);
        if let serde_json::Value::Object(members) = value {
            *map = members;
        }
    };
    clean(&mut span.attributes);
    clean(&mut span.resource);
    span.events.iter_mut().for_each(|event| clean(&mut event.attributes));
    span.links.iter_mut().for_each(|link| clean(&mut link.attributes));
    for text in [&mut span.name, &mut span.status.message] {
        if let std::borrow::Cow::Owned(redacted) = redactor.text(text) {
            *text = redacted;
        }
    }
}

impl Encoding {
    /// The encoding that the content type names, its parameters left aside.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let name = text.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case("application/x-protobuf") {
            Some(Self::Protobuf)
        } else if name.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else {
            None
        }
    }
}
