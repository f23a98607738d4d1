//! OpenAI Responses.
//!
//! Place in the flow: the driver encodes with [`Responses`], a transport carries the bytes, [`Responses`] decodes
//! them. [`encode`] writes items, [`decode`] reads whole answers, [`stream`] streamed ones, [`speak`] is the
//! server's side for scripts and tests. Unless told otherwise the provider keeps nothing (`store` is false): the loop
//! sends the whole conversation with every request, as on the other wires. With `store` a request goes on from the
//! answer before by its id. A tape holds all that a model was shown either way.

pub mod decode;
pub mod encode;
pub mod speak;
pub mod stream;

use super::{CallSpec, DecodeError, Frame, StreamDecoder, Wire, chat, fault, frame};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trace::fact::Fault;
use trace::message::{Finish, Message, Response, Usage};

/// The wire's name.
pub const NAME: &str = "responses";

/// The wire of OpenAI Responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Responses;

impl Wire for Responses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn endpoint(&self, _model: &str, _stream: bool) -> String {
        "/responses".to_owned()
    }

    fn list(&self) -> &'static str {
        "input"
    }

    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        chat::Chat.headers(key)
    }

    /// The system prompt is `instructions`, a member of the frame.
    fn frame(&self, spec: &CallSpec) -> Frame {
        let mut members = Map::new();
        members.insert("model".to_owned(), json!(spec.model));
        members.insert("store".to_owned(), json!(spec.store));
        if !spec.system.is_empty() {
            members.insert("instructions".to_owned(), json!(spec.system));
        }
        if !spec.tools.is_empty() {
            members.insert("tools".to_owned(), spec.tools.iter().map(encode::tool).collect());
        }
        if let Some(tokens) = spec.max_output_tokens {
            members.insert("max_output_tokens".to_owned(), json!(tokens));
        }
        if let Some(temperature) = spec.temperature {
            members.insert("temperature".to_owned(), json!(temperature));
        }
        if let Some(schema) = &spec.output_schema {
            let name = chat::SCHEMA_NAME;
            let format = json!({"type": "json_schema", "name": name, "schema": schema, "strict": true});
            members.insert("text".to_owned(), json!({"format": format}));
        }
        // What is not stored there comes back only encrypted. A model that does not reason refuses to be asked.
        if !spec.store && spec.extra.contains_key("reasoning") {
            members.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
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
        Box::<stream::ResponsesStream>::default()
    }

    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        fault::of_answer(status, headers, body)
    }
}

/// The one vocabulary's word for a status, or for the reason why an answer is incomplete.
///
/// The status says nothing of tools and refusals: the items do.
#[must_use]
pub fn finish(word: Option<&str>, has_calls: bool, refused: bool) -> Finish {
    match word {
        // A gateway writes the shorter word.
        Some("completed" | "complete") if has_calls => Finish::ToolUse,
        Some("completed" | "complete") if refused => Finish::Refusal,
        Some("completed" | "complete") => Finish::EndTurn,
        Some("max_output_tokens") => Finish::Length,
        Some("content_filter") => Finish::Refusal,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

/// The members of `usage` that count; unknown stays unknown.
#[must_use]
pub fn usage(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    Usage {
        input_tokens: count("/input_tokens"),
        output_tokens: count("/output_tokens"),
        cache_read_tokens: count("/input_tokens_details/cached_tokens"),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens"),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens"),
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
