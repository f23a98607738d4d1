//! Gemini's own wire: `generateContent` and `streamGenerateContent`.
//!
//! Place in the flow: the driver encodes with [`Gemini`], a transport carries the bytes, [`Gemini`] decodes them.
//! [`encode`] writes contents, [`decode`] reads whole answers, [`stream`] streamed ones, [`speak`] is the server's
//! side for scripts and tests.
//!
//! Two things are peculiar. Calls may come without an id: they get one from their place in the answer
//! ([`minted_id`]), which is never sent. And a signature may stand beside the text or call it belongs to: it is
//! kept as an opaque part of its own right before that part, and goes back beside it.

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
pub const NAME: &str = "gemini";

/// How ids begin that this program gives to calls without one.
const MINTED: &str = "place-";

/// The wire of Gemini.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini;

impl Wire for Gemini {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The model stands in the path; tuned models and those of Vertex bring their own folder.
    fn endpoint(&self, model: &str, stream: bool) -> String {
        let folder = if model.contains('/') { "" } else { "models/" };
        let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("/{folder}{model}:{method}")
    }

    fn list(&self) -> &'static str {
        "contents"
    }

    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if let Some(key) = key {
            headers.push(("x-goog-api-key".to_owned(), key.expose_secret().to_owned()));
        }
        headers
    }

    /// The system prompt is a member of the frame; model and streaming are told by the endpoint alone.
    fn frame(&self, spec: &CallSpec) -> Frame {
        let mut members = Map::new();
        if !spec.system.is_empty() {
            members.insert("systemInstruction".to_owned(), json!({"parts": [{"text": spec.system}]}));
        }
        if !spec.tools.is_empty() {
            let tools: Value = spec.tools.iter().map(encode::tool).collect();
            members.insert("tools".to_owned(), json!([{"functionDeclarations": tools}]));
        }
        let generation = generation(spec);
        if !generation.is_empty() {
            members.insert("generationConfig".to_owned(), Value::Object(generation));
        }
        frame::overlay(&mut members, &spec.extra);
        frame::cut_open(self.list(), members)
    }

    fn fragments(&self, message: &Message) -> Vec<String> {
        encode::fragment(message).into_iter().collect()
    }

    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError> {
        decode::response(body)
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::<stream::GeminiStream>::default()
    }

    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        fault::of_answer(status, headers, body)
    }
}

fn generation(spec: &CallSpec) -> Map<String, Value> {
    let mut members = Map::new();
    if let Some(tokens) = spec.max_output_tokens {
        members.insert("maxOutputTokens".to_owned(), json!(tokens));
    }
    if let Some(temperature) = spec.temperature {
        members.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(schema) = &spec.output_schema {
        members.insert("responseMimeType".to_owned(), json!("application/json"));
        members.insert("responseJsonSchema".to_owned(), schema.clone());
    }
    members
}

/// The id of a call that came without one: its place among the calls of its answer.
#[must_use]
pub fn minted_id(place: usize) -> String {
    format!("{MINTED}{place}")
}

/// The id as the provider gave it; `None` where it gave none.
#[must_use]
pub fn given_id(call_id: &str) -> Option<&str> {
    let is_minted = call_id.strip_prefix(MINTED).is_some_and(|rest| rest.parse::<usize>().is_ok());
    (!is_minted && !call_id.is_empty()).then_some(call_id)
}

/// The one vocabulary's word for a `finishReason`.
#[must_use]
pub fn finish(word: Option<&str>, has_calls: bool) -> Finish {
    match word {
        // Asked for enums as numbers, the provider writes numbers.
        Some("STOP" | "1") if has_calls => Finish::ToolUse,
        Some("STOP" | "1") => Finish::EndTurn,
        Some("MAX_TOKENS" | "2") => Finish::Length,
        Some(
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "JAILBREAK",
        ) => Finish::Refusal,
        other => Finish::Other(other.unwrap_or_default().to_owned()),
    }
}

/// The members of `usageMetadata` that count; unknown stays unknown.
///
/// Thoughts are counted beside the candidates, and what the provider's own tools read beside the prompt. Where no
/// candidate was counted, the total tells what was written.
#[must_use]
pub fn usage(usage: &Value) -> Usage {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let reasoning_tokens = count("thoughtsTokenCount");
    let of_tools = count("toolUsePromptTokenCount").unwrap_or(0);
    let input_tokens = count("promptTokenCount").map(|tokens| tokens.saturating_add(of_tools));
    let beside = reasoning_tokens.unwrap_or(0);
    let output_tokens = count("candidatesTokenCount")
        .map(|tokens| tokens.saturating_add(beside))
        .or_else(|| count("totalTokenCount")?.checked_sub(input_tokens?));
    Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: None,
        reasoning_tokens,
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
