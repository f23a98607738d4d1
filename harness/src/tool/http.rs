//! A tool that is an HTTP endpoint: JSON arguments as query or body, the answer's body as result.
//!
//! Place in the flow: made from `[[tool]] http = { method, url }` of agent.toml. A model's words must not choose
//! what is reached: the address is the configured one, arguments are only ever encoded into its query or sent as
//! its body, and a redirect is followed only within the same scheme, host and port. Compression is not asked for,
//! so the cap on the answer is a cap on memory.
//!
//! 401 and 403 are failures of credentials, 408, 425, 429 and 5xx transient ones, all else permanent. A
//! `Retry-After` becomes the fault's; `Idempotency-Key` is the same for every attempt of a call, and `traceparent` tells
//! the endpoint the span of the call.

use super::toolbox::ToolboxError;
use super::{Tool, ToolSpec};
use crate::config::{HttpTable, Method};
use crate::model::fault::retry_after_ms;
use crate::model::http::{causes, is_loopback};
use crate::policy::Permit;
use futures::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Most of an answer that is taken in, in bytes; the result says what is missing.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Most of a failed answer that becomes its message, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// To reach the host. The whole call is held to the tool's own time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Redirects that are followed, within the same origin.
const MAX_REDIRECTS: usize = 5;

/// An HTTP endpoint as a tool.
pub struct HttpTool {
    spec: ToolSpec,
    client: Client,
    method: reqwest::Method,
    in_query: bool,
    url: Url,
    bearer: Option<SecretString>,
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool")
            .field("spec", &self.spec)
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

impl HttpTool {
    /// The tool of an `http` table; its key is looked up in the environment.
    ///
    /// # Errors
    /// Where the address is none, the key is missing, or TLS cannot be set up.
    pub fn new(
        spec: ToolSpec,
        table: &HttpTable,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ToolboxError> {
        let wrong = |why: String| ToolboxError::Client { needed_by: spec.name.clone(), why };
        let url =
            Url::parse(&table.url).map_err(|why| wrong(format!("`{}` is no address: {why}", table.url)))?;
        let client = client(&url).map_err(|why| wrong(causes(why)))?;
        let bearer = bearer(table.bearer_env.as_deref(), &spec.name, environment)?;
        let (method, in_query) = match table.method {
            Method::Get => (reqwest::Method::GET, true),
            Method::Delete => (reqwest::Method::DELETE, true),
            Method::Post => (reqwest::Method::POST, false),
            Method::Put => (reqwest::Method::PUT, false),
            Method::Patch => (reqwest::Method::PATCH, false),
        };
        Ok(Self { spec, client, method, in_query, url, bearer })
    }

    async fn exchange(&self, permit: &Permit) -> Result<String, Fault> {
        let mut url = self.url.clone();
        if self.in_query {
            add_query(&mut url, permit.arguments())?;
        }
        let mut request =
            self.client.request(self.method.clone(), url).header("idempotency-key", permit.idempotency_key());
        if let Some(parent) = permit.traceparent() {
            request = request.header("traceparent", parent);
        }
        if let Some(spoken) = permit.spoken() {
            // Words of a person in a header: no character of them may end it.
            let said: String =
                spoken.said.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
            request =
                request.header("loopdeck-reply", spoken.word()).header("loopdeck-said", said.into_bytes());
        }
        if !self.in_query {
            request = request.header(CONTENT_TYPE, "application/json").body(permit.arguments().to_owned());
        }
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, authorization(bearer)?);
        }
        let answer = request.send().await.map_err(|why| self.unreachable(why))?;
        let (status, headers) = (answer.status().as_u16(), words(answer.headers()));
        let body = self.body(answer).await?;
        match status {
            200..=299 => Ok(body),
            _ => Err(Fault {
                retry_after_ms: retry_after_ms(&headers),
                ..Fault::new(class(status), message(&self.host(), status, &headers, &body))
            }),
        }
    }

    async fn body(&self, mut answer: Response) -> Result<String, Fault> {
        let mut kept = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|why| self.unreachable(why))? {
            let room = MAX_BODY_BYTES - kept.len();
            kept.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                let head = String::from_utf8_lossy(&kept);
                return Ok(format!(
                    "{head}\n[the answer is longer than {MAX_BODY_BYTES} bytes; the rest was dropped]"
                ));
            }
        }
        match String::from_utf8(kept) {
            Ok(text) => Ok(text),
            Err(why) => {
                Ok(format!("[the answer is {} bytes of something that is no text]", why.as_bytes().len()))
            }
        }
    }

    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn unreachable(&self, why: reqwest::Error) -> Fault {
        let class = match &why {
            why if why.is_timeout() => FaultClass::Timeout,
            why if why.is_builder() => FaultClass::Permanent,
            _ => FaultClass::Transient,
        };
        Fault::new(class, format!("no whole answer from {}: {}", self.host(), causes(why)))
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn may_ask(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(self.exchange(permit))
    }
}

/// A client that stays with the origin of this address.
pub(super) fn client(url: &Url) -> Result<Client, reqwest::Error> {
    let builder = Client::builder()
        .redirect(redirect::Policy::custom(|attempt| match is_followed(&attempt) {
            true => attempt.follow(),
            false => attempt.stop(),
        }))
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("loopdeck/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) { builder.no_proxy().build() } else { builder.build() }
}

/// Only within the origin, and only where the request goes along whole: 301 to 303 would lose a body.
fn is_followed(attempt: &redirect::Attempt<'_>) -> bool {
    matches!(attempt.status().as_u16(), 307 | 308)
        && attempt.previous().len() <= MAX_REDIRECTS
        && attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin())
}

/// The key that a table names by its variable.
pub(super) fn bearer(
    variable: Option<&str>,
    needed_by: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<SecretString>, ToolboxError> {
    let Some(variable) = variable else { return Ok(None) };
    match environment(variable).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Some(SecretString::from(key))),
        None => {
            Err(ToolboxError::Variable { variable: variable.to_owned(), needed_by: needed_by.to_owned() })
        }
    }
}

fn authorization(bearer: &SecretString) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", bearer.expose_secret()))
        .map_err(|_| Fault::new(FaultClass::Auth, "the bearer token has a character that HTTP forbids"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Appends the arguments to the query: text as it is, lists as repeated names, anything else as JSON.
fn add_query(url: &mut Url, arguments: &str) -> Result<(), Fault> {
    let wrong =
        |why: String| Fault::new(FaultClass::Permanent, format!("the arguments cannot be a query: {why}"));
    let arguments: Value = serde_json::from_str(arguments).map_err(|why| wrong(why.to_string()))?;
    let Value::Object(arguments) = arguments else { return Err(wrong("they are no object".to_owned())) };
    if arguments.is_empty() {
        return Ok(());
    }
    let mut query = url.query_pairs_mut();
    for (name, value) in &arguments {
        match value {
            Value::Null => {}
            Value::Array(values) => values.iter().for_each(|value| {
                query.append_pair(name, &plain(value));
            }),
            value => {
                query.append_pair(name, &plain(value));
            }
        }
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const fn class(status: u16) -> FaultClass {
    match status {
        401 | 403 | 407 => FaultClass::Auth,
        408 | 425 | 429 | 500..=599 => FaultClass::Transient,
        _ => FaultClass::Permanent,
    }
}

fn message(host: &str, status: u16, headers: &BTreeMap<String, String>, body: &str) -> String {
    if (300..400).contains(&status) {
        let to = headers.get("location").map_or("", String::as_str);
        return format!("{host} answered {status}: a redirect to `{to}`, which is not followed");
    }
    let said: String = body.trim().chars().take(MAX_MESSAGE_CHARS).collect();
    if said.is_empty() {
        format!("{host} answered {status}")
    } else {
        format!("{host} answered {status}: {said}")
    }
}

fn words(headers: &HeaderMap) -> BTreeMap<String, String> {
    ["retry-after", "retry-after-ms", "date", "location"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), headers.get(name)?.to_str().ok()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests;
