//! The server: takes requests, checks and keeps them, performs what the script says.
//!
//! Place in the flow: started by tests and the demo; ends when it is dropped. It listens on loopback only.

use crate::check::violations;
use crate::play::{Play, first_bytes, pieces};
use crate::request::RequestSeen;
use crate::stored::Stored;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use futures::stream;
use harness::model::scripted::{ScriptTurn, speak};
use harness::model::{chat, fault, gemini, messages, responses};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Largest request that is taken in, in bytes: long conversations are large.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

type Script = dyn Fn(&RequestSeen) -> Play + Send + Sync;

/// A running provider.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    /// Dropping it ends the server, and whatever hangs in it.
    stop: DropGuard,
}

struct Shared {
    script: Box<Script>,
    seen: Mutex<Seen>,
    stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<RequestSeen>,
    violations: Vec<String>,
    by_model: BTreeMap<String, usize>,
    stored: Stored,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Loopback {
    /// Starts a provider on a free port that plays what the script says to each request.
    ///
    /// # Errors
    /// Where no port can be had.
    pub async fn start<P: Into<Play>>(
        script: impl Fn(&RequestSeen) -> P + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stopping = CancellationToken::new();
        let script: Box<Script> = Box::new(move |seen| script(seen).into());
        let shared = Arc::new(Shared { script, seen: Mutex::default(), stopping: stopping.clone() });
        let routes = Router::new()
            .route("/chat/completions", post(chat_request))
            .route("/v1/chat/completions", post(chat_request))
            .route("/v1/messages", post(messages_request))
            .route("/responses", post(responses_request))
            .route("/v1/responses", post(responses_request))
            .route("/models/{call}", post(gemini_request))
            .route("/v1beta/models/{call}", post(gemini_request))
            .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
            .with_state(Arc::clone(&shared));
        // Pieces leave when they are written, so that cuts arrive as cuts; where this fails they arrive joined.
        let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        let tasks = TaskTracker::new();
        let serving =
            axum::serve(listener, routes).with_graceful_shutdown(stopping.clone().cancelled_owned());
        tasks.spawn(async move { serving.await });
        tasks.close();
        Ok(Self { address, shared, tasks, stop: stopping.drop_guard() })
    }

    /// What an agent's `base_url` is set to; the same for all wires.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<RequestSeen> {
        self.shared.seen().requests.clone()
    }

    /// What was wrong with requests so far; such requests were answered with 400.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.seen().violations.clone()
    }

    /// Ends the server and waits until it has ended.
    pub async fn stop(self) {
        drop(self.stop);
        self.tasks.wait().await;
    }
}

/// A script for each model by name: its first request gets the first play, and so on.
///
/// A model without a script, or past the end of its own, is answered with 404 and the reason.
pub fn by_model(scripts: BTreeMap<String, Vec<Play>>) -> impl Fn(&RequestSeen) -> Play + Send + Sync {
    move |seen| {
        let model = seen.model();
        let Some(script) = scripts.get(model) else {
            return refusal(seen.wire, 404, &format!("no script for the model `{model}`"));
        };
        script.get(seen.nth).cloned().unwrap_or_else(|| {
            let (turns, asked) = (script.len(), seen.nth + 1);
            let message =
                format!("the script of `{model}` has {turns} turns, and turn {asked} was asked for");
            refusal(seen.wire, 404, &message)
        })
    }
}

/// A refusal in the wire's own words.
fn refusal(wire: &str, status: u16, message: &str) -> Play {
    let kind = if status == 404 { "not_found_error" } else { "invalid_request_error" };
    let body = match wire {
        messages::NAME => messages::speak::error(kind, message),
        gemini::NAME => gemini::speak::error(status, kind, message),
        responses::NAME => responses::speak::error(kind, message),
        _ => chat::speak::error(kind, message),
    };
    Play::status(status, body.to_string(), None)
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // A script that panicked in one request leaves the list as it was.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps and checks a request, and asks the script about it unless it is wrong.
    fn play(&self, mut request: RequestSeen) -> (RequestSeen, Play) {
        if let Err(unknown) = self.seen().stored.recall(&mut request) {
            let message = format!("Previous response with id '{unknown}' not found.");
            let mut error = responses::speak::error("invalid_request_error", &message);
            error["error"]["code"] = Value::from(fault::FORGOTTEN);
            self.seen().requests.push(request.clone());
            return (request, Play::status(400, error.to_string(), None));
        }
        let mut found = violations(&request);
        if request.wire == messages::NAME && !request.headers.contains_key("anthropic-version") {
            found.push("the header `anthropic-version` is missing".to_owned());
        }
        let at = {
            let mut seen = self.seen();
            let count = seen.by_model.entry(request.model().to_owned()).or_default();
            request.nth = *count;
            *count += 1;
            seen.requests.push(request.clone());
            let at = seen.requests.len();
            seen.violations.extend(found.iter().map(|one| format!("request {at}: {one}")));
            at
        };
        let play = if found.is_empty() {
            let mut play = (self.script)(&request);
            self.seen().stored.keep(&request, &mut play.turn);
            play
        } else {
            refusal(request.wire, 400, &format!("request {at}: {}", found.join("; ")))
        };
        (request, play)
    }
}

async fn chat_request(
    shared: State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    answer(shared.0, chat::NAME, &uri, &headers, &body).await
}

async fn messages_request(
    shared: State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    answer(shared.0, messages::NAME, &uri, &headers, &body).await
}

async fn responses_request(
    shared: State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    answer(shared.0, responses::NAME, &uri, &headers, &body).await
}

async fn gemini_request(
    shared: State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    answer(shared.0, gemini::NAME, &uri, &headers, &body).await
}

async fn answer(
    shared: Arc<Shared>,
    wire: &'static str,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Response<Body> {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let request = RequestSeen {
        wire,
        endpoint: uri.to_string(),
        headers: headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        body: body.to_vec(),
        json: serde_json::from_slice(body).unwrap_or(Value::Null),
        nth: 0,
    };
    let (request, play) = shared.play(request);
    perform(&shared, &request, play).await
}

/// Turns a play into an HTTP answer; a hang ends with the server.
async fn perform(shared: &Shared, request: &RequestSeen, mut play: Play) -> Response<Body> {
    loop {
        let (status, mut headers, events) = match play.turn {
            ScriptTurn::After { delay_ms, then } => {
                pause(&shared.stopping, Duration::from_millis(delay_ms)).await;
                play.turn = *then;
                continue;
            }
            ScriptTurn::Hang => {
                shared.stopping.cancelled().await;
                (503, BTreeMap::new(), Vec::new())
            }
            ScriptTurn::Fault(ref fault) => {
                play.turn = as_http(request.wire, fault);
                continue;
            }
            ScriptTurn::Raw { status, ref headers, ref body } => {
                (status, headers.clone(), vec![body.clone()])
            }
            ScriptTurn::Answer(ref response) => match speak(request.wire, response, request.stream()) {
                Some(spoken) => {
                    let headers =
                        BTreeMap::from([("content-type".to_owned(), spoken.content_type.to_owned())]);
                    (200, headers, spoken.pieces)
                }
                None => (500, BTreeMap::new(), vec![format!("the wire `{}` cannot be spoken", request.wire)]),
            },
        };
        headers.entry("content-type".to_owned()).or_insert_with(|| "application/json".to_owned());
        return respond(status, &headers, delivery(shared, &play, &events));
    }
}

fn respond(status: u16, headers: &BTreeMap<String, String>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (header::HeaderName::try_from(name), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The body as a stream of pieces, with the misbehaviour that the play asks for.
fn delivery(shared: &Shared, play: &Play, events: &[String]) -> Body {
    let limit = play.break_after_bytes.or(play.stall_after_bytes).unwrap_or(usize::MAX);
    let (pieces, is_cut) = first_bytes(pieces(events, &play.cuts), limit);
    let stalls = is_cut && play.break_after_bytes.is_none();
    let (wait, stopping) = (play.pause, shared.stopping.clone());
    let end = is_cut.then_some(());
    let pieces = pieces.into_iter().map(Some).chain(end.map(|()| None));
    Body::from_stream(stream::unfold(pieces, move |mut left| {
        let stopping = stopping.clone();
        async move {
            match left.next()? {
                Some(piece) => {
                    pause(&stopping, wait).await;
                    Some((Ok(piece), left))
                }
                None if stalls => {
                    stopping.cancelled().await;
                    None
                }
                // What was written must leave before the error closes the connection.
                None => {
                    pause(&stopping, Duration::from_millis(20)).await;
                    Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), left))
                }
            }
        }
    }))
}

async fn pause(stopping: &CancellationToken, duration: Duration) {
    if !duration.is_zero() {
        stopping.run_until_cancelled(tokio::time::sleep(duration)).await;
    }
}

/// A fault cannot be sent; the status that means its class can.
fn as_http(wire: &str, fault: &Fault) -> ScriptTurn {
    let status = match fault.class {
        FaultClass::Transient => 503,
        FaultClass::Timeout => 408,
        FaultClass::Auth => 401,
        FaultClass::Overflow | FaultClass::Permanent | FaultClass::Cancelled | FaultClass::Fatal => 400,
    };
    let mut turn = refusal(wire, status, &fault.message).turn;
    if let (Some(ms), ScriptTurn::Raw { headers, .. }) = (fault.retry_after_ms, &mut turn) {
        headers.insert("retry-after-ms".to_owned(), ms.to_string());
    }
    turn
}

#[cfg(test)]
mod tests;
