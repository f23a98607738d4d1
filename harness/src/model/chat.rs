//! OpenAI Chat Completions, and the many servers that speak it.
//!
//! Place in the flow: the driver encodes with [`Chat`], a transport carries the bytes, [`Chat`] decodes them.
//! [`encode`] writes messages, [`decode`] reads whole answers, [`stream`] streamed ones, [`speak`] is the
//! server's side for scripts and tests.

pub mod decode;
pub mod encode;
pub mod speak;
pub mod stream;

use super::{CallSpec, DecodeError, Frame, StreamDecoder, Wire, fault, frame};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trace::fact::Fault;
use trace::message::{Finish, Message, Response};

/// The wire's name.
pub const NAME: &str = "chat";

/// The name that this provider wants for the schema of an answer.
pub(super) const SCHEMA_NAME: &str = "answer";

/// The wire of OpenAI Chat Completions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chat;

impl Wire for Chat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn endpoint(&self, _model: &str, _stream: bool) -> String {
        "/chat/completions".to_owned()
    }

    fn list(&self) -> &'static str {
        "messages"
    }

    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if let Some(key) = key {
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose_secret())));
        }
        headers
    }

    /// The system prompt is the first message and no part of the frame.
    fn frame(&self, spec: &CallSpec) -> Frame {
        let mut members = serde_json::Map::new();
        members.insert("model".to_owned(), json!(spec.model));
        if !spec.tools.is_empty() {
            members.insert("tools".to_owned(), spec.tools.iter().map(encode::tool).collect());
        }
        // Some compatible servers know only the older name; who needs it writes it into `extra`.
        if let Some(tokens) = spec.max_output_tokens.filter(|_| !spec.extra.contains_key("max_tokens")) {
            members.insert("max_completion_tokens".to_owned(), json!(tokens));
        }
        if let Some(temperature) = spec.temperature {
            members.insert("temperature".to_owned(), json!(temperature));
        }
        if spec.stream {
            members.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        if let Some(schema) = &spec.output_schema {
            let format = json!({"name": SCHEMA_NAME, "schema": schema, "strict": true});
            members
                .insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": format}));
        }
        frame::around(self.list(), members, spec)
    }

    fn fragments(&self, message: &Message) -> Vec<String> {
        encode::fragments(message)
    }

    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError> {
        decode::response(body)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::<stream::ChatStream>::default()
    }

    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        fault::of_answer(status, headers, body)
    }
}

/// The one vocabulary's word for a `finish_reason`; a refusal is told in a member of its own.
#[must_use]
pub fn finish(reason: Option<&str>, refused: bool) -> Finish {
    match reason {
        Some("stop") if refused => Finish::Refusal,
        Some("stop") => Finish::EndTurn,
        Some("tool_calls" | "function_call") => Finish::ToolUse,
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::Refusal,
        Some("model_length") => Finish::ContextFull,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

/// The members of `usage` that count; unknown stays unknown.
#[must_use]
pub fn usage(usage: &Value) -> trace::message::Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    trace::message::Usage {
        input_tokens: count("/prompt_tokens"),
        output_tokens: count("/completion_tokens"),
        cache_read_tokens: count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens")),
        cache_write_tokens: count("/prompt_tokens_details/cache_write_tokens"),
        reasoning_tokens: count("/completion_tokens_details/reasoning_tokens"),
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
