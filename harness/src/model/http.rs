//! The transport to real providers: exact bytes out, exact bytes in, with arrival times.
//!
//! Place in the flow: the driver hands an encoded request to [`Http`]; what comes back is decoded by the wire
//! and kept on the tape byte for byte. Nothing is retried, decompressed or followed here: retries belong to the
//! machine, and a redirect could carry the key to another host.

use super::{Reply, Transport, Wire, WireRequest};
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url, redirect};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use trace::fact::{Chunk, Fault};
use trace::outcome::FaultClass;

/// Response headers that are kept, lower case; a name that ends in `*` stands for all that begin so.
///
/// Everything else, cookies and organisation ids first, never reaches a tape.
pub const KEPT_HEADERS: &[&str] = &[
    "content-type",
    "date",
    "retry-after",
    "retry-after-ms",
    "request-id",
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "openai-model",
    "x-should-retry",
    "x-ratelimit-*",
    "anthropic-ratelimit-*",
    "ratelimit-*",
];

/// Largest answer that is taken in, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Where a provider is and how long it may take.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Such as `https://api.openai.com/v1`; each request's endpoint is appended.
    pub base_url: String,
    /// Further request headers, by name; they win over the wire's own.
    pub headers: BTreeMap<String, String>,
    /// To reach the host.
    pub connect_timeout: Duration,
    /// From sending to the first byte of the answer: a model may think for minutes before it speaks.
    pub answer_timeout: Duration,
    /// Between two pieces of an answer.
    pub idle_timeout: Duration,
}

impl Endpoint {
    /// An endpoint with the default times: 10 s to connect, 10 min to the first byte, 2 min between pieces.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            headers: BTreeMap::new(),
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// A transport that cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The base URL is none.
    #[error("base_url `{url}` is not an http or https address: {why}")]
    BaseUrl {
        /// As configured.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A header name or value that HTTP does not allow. The value is not shown: it may be the key.
    #[error(
        "the request header `{name}` cannot be sent: its name or value has a character that HTTP forbids"
    )]
    Header {
        /// Its name.
        name: String,
    },
    /// The client could not be set up.
    #[error("the HTTP client could not be set up: {0}")]
    Client(reqwest::Error),
}

/// Carries requests over HTTP.
pub struct Http {
    client: reqwest::Client,
    base_url: Url,
    headers: HeaderMap,
    answer_timeout: Duration,
    idle_timeout: Duration,
}

/// Headers are left out: one of them is the key.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base_url", &self.base_url.as_str()).finish_non_exhaustive()
    }
}

impl Http {
    /// A transport for this wire at this endpoint.
    ///
    /// # Errors
    /// Where the address or a header is malformed, or TLS cannot be set up.
    pub fn new(endpoint: &Endpoint, wire: &dyn Wire, key: Option<&SecretString>) -> Result<Self, HttpError> {
        let base_url = base(&endpoint.base_url)?;
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(endpoint.connect_timeout)
            .user_agent(concat!("loopdeck/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base_url) {
            builder = builder.no_proxy();
        }
        let mut headers = HeaderMap::new();
        for (name, value) in wire.headers(key).into_iter().chain(endpoint.headers.clone()) {
            let (name, value) = header(&name, &value)?;
            headers.insert(name, value);
        }
        Ok(Self {
            client: builder.build().map_err(HttpError::Client)?,
            base_url,
            headers,
            answer_timeout: endpoint.answer_timeout,
            idle_timeout: endpoint.idle_timeout,
        })
    }

    async fn exchange(
        &self,
        request: &WireRequest,
        on_chunk: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        let mut headers = self.headers.clone();
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static(accept));
        let url = address(&self.base_url, &request.endpoint);
        let sending = self.client.post(url).headers(headers).body(request.body.clone()).send();
        let answer = match timeout(self.answer_timeout, sending).await {
            Err(_) => return Err(self.silence("no answer began", self.answer_timeout)),
            Ok(Err(error)) => return Err(self.unreachable(error)),
            Ok(Ok(answer)) => answer,
        };
        let mut reply = Reply {
            status: answer.status().as_u16(),
            headers: kept(answer.headers()),
            body: Vec::new(),
            chunks: Vec::new(),
            latency_ns: 0,
            cut: None,
        };
        reply.cut = self.read(answer, started, &mut reply, on_chunk).await.err();
        reply.latency_ns = elapsed_ns(started);
        Ok(reply)
    }

    /// Reads the body to its end; an error says why the rest is missing.
    async fn read(
        &self,
        mut answer: Response,
        started: Instant,
        reply: &mut Reply,
        on_chunk: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<(), Fault> {
        loop {
            let piece = match timeout(self.idle_timeout, answer.chunk()).await {
                Err(_) => return Err(self.silence("the answer stalled", self.idle_timeout)),
                Ok(Err(error)) => return Err(self.broken(error)),
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(piece))) => piece,
            };
            if reply.body.len() + piece.len() > MAX_BODY_BYTES {
                let why = format!("the answer of {} is longer than {MAX_BODY_BYTES} bytes", self.host());
                return Err(Fault::new(FaultClass::Permanent, why));
            }
            reply.body.extend_from_slice(&piece);
            // The cap above keeps a piece far below u32::MAX.
            let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            reply.chunks.push(Chunk { bytes, after_ns: elapsed_ns(started) });
            if (200..300).contains(&reply.status) {
                on_chunk(&piece);
            }
        }
    }

    fn host(&self) -> String {
        let host = self.base_url.host_str().unwrap_or_default();
        self.base_url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn silence(&self, what: &str, after: Duration) -> Fault {
        let message = format!("{what} from {} within {:.1} s", self.host(), after.as_secs_f64());
        let elapsed_ms = u64::try_from(after.as_millis()).ok();
        Fault { elapsed_ms, ..Fault::new(FaultClass::Timeout, message) }
    }

    fn unreachable(&self, error: reqwest::Error) -> Fault {
        let class = match &error {
            error if error.is_timeout() => FaultClass::Timeout,
            error if error.is_builder() => FaultClass::Permanent,
            _ => FaultClass::Transient,
        };
        Fault::new(class, format!("no answer from {}: {}", self.host(), causes(error)))
    }

    fn broken(&self, error: reqwest::Error) -> Fault {
        let message = format!("the connection to {} broke within the answer: {}", self.host(), causes(error));
        Fault::new(FaultClass::Transient, message)
    }
}

impl Transport for Http {
    fn send<'a>(
        &'a self,
        request: &'a WireRequest,
        on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(self.exchange(request, on_chunk))
    }
}

fn base(base_url: &str) -> Result<Url, HttpError> {
    let wrong = |why: String| HttpError::BaseUrl { url: base_url.to_owned(), why };
    let url = Url::parse(base_url).map_err(|error| wrong(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(wrong(format!("its scheme is `{other}`"))),
    }
}

/// The endpoint below the base URL. Queries of both, such as Azure's version and Gemini's `alt`, end up behind
/// the path.
fn address(base_url: &Url, endpoint: &str) -> Url {
    let (path, query) =
        endpoint.split_once('?').map_or((endpoint, None), |(path, query)| (path, Some(query)));
    let mut url = base_url.clone();
    url.set_path(&format!("{}{path}", base_url.path().trim_end_matches('/')));
    let queries: Vec<&str> = [base_url.query(), query].into_iter().flatten().collect();
    url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
    url
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HttpError> {
    let wrong = || HttpError::Header { name: name.to_owned() };
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
    // Any of them may be a key; the client then leaves it out of what it prints.
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let is_kept = |name: &str| {
        KEPT_HEADERS.iter().any(|kept| match kept.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *kept,
        })
    };
    headers
        .iter()
        .filter(|(name, _)| is_kept(name.as_str()))
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

fn elapsed_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// An error with its causes, without the address: that may hold a key.
pub(crate) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
