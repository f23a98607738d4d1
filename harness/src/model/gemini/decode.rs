//! A whole Gemini answer, read.
//!
//! Place in the flow: bytes -> [`response`] -> [`Response`]. A streamed answer is the same object in pieces, so
//! both are [`Gathered`] by the same code.

use super::encode::stands_beside;
use super::{NAME, finish, malformed, minted_id, usage};
use crate::model::{DecodeError, Delta, fault};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use trace::message::{Finish, Part, Response, ToolCall};

/// Decodes the body of an answer that was not streamed; a list of pieces is what a stream without `alt=sse` gives.
///
/// # Errors
/// Where the body is no JSON, holds no candidate, or is an error that came with a success status.
pub fn response(body: &[u8]) -> Result<Response, DecodeError> {
    let wrong = |error: serde_json::Error| malformed(error.to_string());
    let pieces: Vec<&RawValue> = match body.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(body).map_err(wrong)?,
        _ => vec![serde_json::from_slice(body).map_err(wrong)?],
    };
    let mut gathered = Gathered::default();
    for piece in pieces {
        gathered.take_in(piece.get(), &mut Vec::new())?;
    }
    gathered.response().ok_or_else(|| malformed("it has neither a finishReason nor a blockReason"))
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(rename = "responseId")]
    response_id: Option<String>,
    #[serde(rename = "modelVersion")]
    model_version: Option<String>,
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default, rename = "promptFeedback")]
    prompt_feedback: Value,
    #[serde(default, rename = "usageMetadata")]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Candidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(default, rename = "finishReason")]
    finish_reason: Value,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

/// A call's arguments as they were written, so that they keep their bytes.
#[derive(Deserialize)]
struct Called<'a> {
    #[serde(borrow, rename = "functionCall")]
    call: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

/// An answer that is being put together from its pieces.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    id: Option<String>,
    model: Option<String>,
    parts: Vec<Part>,
    calls: usize,
    word: Option<String>,
    /// Whether the prompt was refused before a word was written.
    blocked: bool,
    usage: Value,
}

impl Gathered {
    /// Adds a piece, and what became visible with it.
    pub(super) fn take_in(&mut self, piece: &str, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        let piece: Piece<'_> = serde_json::from_str(piece).map_err(|error| malformed(error.to_string()))?;
        if !piece.error.is_null() {
            return Err(DecodeError::Provider(fault::of_error_object(&piece.error)));
        }
        self.id = piece.response_id.or(self.id.take());
        self.model = piece.model_version.or(self.model.take());
        if piece.usage.is_object() {
            self.usage = piece.usage;
        }
        if let Some(reason) = word(&piece.prompt_feedback["blockReason"]) {
            (self.word, self.blocked) = (Some(reason), true);
        }
        for candidate in piece.candidates.into_iter().flatten().filter(|one| one.index == 0) {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.part(part, deltas)?;
            }
            self.word = word(&candidate.finish_reason).or(self.word.take());
        }
        Ok(())
    }

    /// The answer; `None` where nothing has said that it is whole.
    pub(super) fn response(self) -> Option<Response> {
        let word = self.word?;
        Some(Response {
            response_id: self.id,
            response_model: self.model,
            parts: self.parts,
            finish: if self.blocked { Finish::Refusal } else { finish(Some(&word), self.calls > 0) },
            finish_raw: Some(word),
            usage: usage(&self.usage),
        })
    }

    fn part(&mut self, raw: &RawValue, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        let in_part = |error: serde_json::Error| malformed(format!("in a part: {error}"));
        let mut members: Map<String, Value> = serde_json::from_str(raw.get()).map_err(in_part)?;
        let text = members.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        if members.get("thought") == Some(&Value::Bool(true)) {
            push_visible(deltas, &text, Delta::Reasoning);
            self.thought(text, members);
        } else if let Some(call) = members.remove("functionCall") {
            let name = call["name"].as_str().unwrap_or_default().to_owned();
            let called: Called<'_> = serde_json::from_str(raw.get()).map_err(in_part)?;
            let args = called.call.and_then(|call| call.args).map_or("{}", RawValue::get);
            deltas.push(Delta::ToolCall { name: name.clone() });
            self.beside(members);
            let call_id = call["id"].as_str().map_or_else(|| minted_id(self.calls), str::to_owned);
            self.calls += 1;
            self.parts.push(Part::ToolCall(ToolCall {
                call_id,
                tool_name: name,
                arguments: args.to_owned(),
            }));
        } else if members.get("text").is_some_and(Value::is_string) && !(text.is_empty() && members.len() > 1)
        {
            push_visible(deltas, &text, Delta::Text);
            members.remove("text");
            self.text(text, members);
        } else {
            self.opaque(members);
        }
        Ok(())
    }

    /// Text continues the text before it, unless one of them is signed: a signature is of its part alone.
    fn text(&mut self, text: String, beside: Map<String, Value>) {
        let signed =
            matches!(self.parts.iter().rev().nth(1), Some(Part::Opaque { raw, .. }) if stands_beside(raw));
        match self.parts.last_mut() {
            Some(Part::Text { text: before }) if beside.is_empty() && !signed => before.push_str(&text),
            _ if text.is_empty() => {}
            _ => {
                self.beside(beside);
                self.parts.push(Part::Text { text });
            }
        }
    }

    /// Thoughts are joined likewise; they go back as they came, with all their members.
    fn thought(&mut self, text: String, members: Map<String, Value>) {
        let is_plain = |members: &Map<String, Value>| members.len() == 2 && members.contains_key("text");
        if let Some(Part::Reasoning { text: before, raw: Some(Value::Object(raw)) }) = self.parts.last_mut()
            && is_plain(raw)
            && is_plain(&members)
        {
            before.push_str(&text);
            raw.insert("text".to_owned(), Value::String(before.clone()));
            return;
        }
        self.parts.push(Part::Reasoning { text, raw: Some(Value::Object(members)) });
    }

    fn beside(&mut self, members: Map<String, Value>) {
        if !members.is_empty() {
            self.opaque(members);
        }
    }

    fn opaque(&mut self, members: Map<String, Value>) {
        self.parts.push(Part::Opaque { wire: NAME.to_owned(), raw: Value::Object(members) });
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn push_visible(deltas: &mut Vec<Delta>, text: &str, delta: fn(String) -> Delta) {
    if !text.is_empty() {
        deltas.push(delta(text.to_owned()));
    }
}
