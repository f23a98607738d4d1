//! Anthropic Messages.
//!
//! Place in the flow: the driver encodes with [`Messages`], a transport carries the bytes, [`Messages`] decodes
//! them. [`encode`] writes messages, [`decode`] reads whole answers, [`stream`] streamed ones, [`speak`] is the
//! server's side for scripts and tests.

pub mod decode;
pub mod encode;
pub mod speak;
pub mod stream;

use super::{CallSpec, DecodeError, Frame, StreamDecoder, Wire, fault, frame};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trace::fact::Fault;
use trace::message::{Finish, Message, Response, Usage};

/// The wire's name.
pub const NAME: &str = "messages";

/// The version of the interface that this wire speaks.
pub const VERSION: &str = "2023-06-01";

/// Output cap where the configuration gives none: the wire demands one, and every model allows this.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4096;

/// The wire of Anthropic Messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Messages;

impl Wire for Messages {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The version is part of the path: base URLs of this provider and its gateways end before it.
    fn endpoint(&self, _model: &str, _stream: bool) -> String {
        "/v1/messages".to_owned()
    }

    fn list(&self) -> &'static str {
        "messages"
    }

    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("anthropic-version".to_owned(), VERSION.to_owned()),
        ];
        if let Some(key) = key {
            headers.push(("x-api-key".to_owned(), key.expose_secret().to_owned()));
        }
        headers
    }

    /// The system prompt is a member of the frame and no message.
    fn frame(&self, spec: &CallSpec) -> Frame {
        let mut members = Map::new();
        members.insert("model".to_owned(), json!(spec.model));
        let tokens = spec.max_output_tokens.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS);
        members.insert("max_tokens".to_owned(), json!(tokens));
        if !spec.system.is_empty() {
            members.insert("system".to_owned(), encode::system(&spec.system, spec.cache));
        }
        if !spec.tools.is_empty() {
            members.insert("tools".to_owned(), encode::tools(&spec.tools, spec.cache));
        }
        if let Some(schema) = &spec.output_schema {
            let format = json!({"type": "json_schema", "schema": schema});
            members.insert("output_config".to_owned(), json!({"format": format}));
        }
        if let Some(temperature) = spec.temperature {
            members.insert("temperature".to_owned(), json!(temperature));
        }
        frame::around(self.list(), members, spec)
    }

    fn fragments(&self, message: &Message) -> Vec<String> {
        encode::fragment(message).into_iter().collect()
    }

    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError> {
        decode::response(body)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::<stream::MessagesStream>::default()
    }

    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        fault::of_answer(status, headers, body)
    }
}

/// The one vocabulary's word for a `stop_reason`.
#[must_use]
pub fn finish(reason: Option<&str>) -> Finish {
    match reason {
        Some("end_turn") => Finish::EndTurn,
        Some("tool_use") => Finish::ToolUse,
        Some("max_tokens") => Finish::Length,
        Some("refusal") => Finish::Refusal,
        Some("pause_turn") => Finish::PauseTurn,
        Some("model_context_window_exceeded") => Finish::ContextFull,
        Some("stop_sequence") => Finish::StopSequence,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

/// The members of `usage` that count; unknown stays unknown.
///
/// The wire counts input in three disjoint parts; their sum is the input.
#[must_use]
pub fn usage(usage: &Value) -> Usage {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let cache_read_tokens = count("cache_read_input_tokens");
    let cache_write_tokens = count("cache_creation_input_tokens");
    let cached = cache_read_tokens.unwrap_or(0).saturating_add(cache_write_tokens.unwrap_or(0));
    Usage {
        input_tokens: count("input_tokens").map(|fresh| fresh.saturating_add(cached)),
        output_tokens: count("output_tokens"),
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens: usage.pointer("/output_tokens_details/thinking_tokens").and_then(Value::as_u64),
    }
}

fn malformed(why: impl Into<String>) -> DecodeError {
    DecodeError::Malformed { wire: NAME, why: why.into() }
}

fn incomplete(why: impl Into<String>) -> DecodeError {
    DecodeError::Incomplete { wire: NAME, why: why.into() }
}

#[cfg(test)]
mod tests;
