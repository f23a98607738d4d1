//! A whole Chat Completions answer, read.
//!
//! Place in the flow: bytes -> [`response`] -> [`Response`]. The stream decoder gathers a message of the same
//! shape and ends here too, so streamed and whole answers are read by the same code.

use super::{encode::REASONING_MEMBERS, finish, malformed, usage};
use crate::model::{DecodeError, fault};
use serde_json::{Map, Value};
use trace::message::{Part, Response, ToolCall};

/// Decodes the body of an answer that was not streamed.
///
/// # Errors
/// Where the body is no JSON, holds no choice, or is an error that came with a success status.
pub fn response(body: &[u8]) -> Result<Response, DecodeError> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    provider_error(&answer)?;
    let choice = answer.pointer("/choices/0").ok_or_else(|| malformed("it has no choices[0]"))?;
    let nothing = Map::new();
    // Azure leaves the message out where its filter stopped it; the finish reason then tells.
    let message = match choice["message"].as_object() {
        Some(message) => message,
        None if choice["finish_reason"].is_string() => &nothing,
        None => return Err(malformed("choices[0] has neither a message nor a finish_reason")),
    };
    Ok(assemble(&Gathered {
        id: answer["id"].as_str(),
        model: answer["model"].as_str(),
        message,
        finish_reason: choice["finish_reason"].as_str(),
        usage: &answer["usage"],
    }))
}

/// An answer's members, whole or gathered from a stream.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) message: &'a Map<String, Value>,
    pub(super) finish_reason: Option<&'a str>,
    pub(super) usage: &'a Value,
}

pub(super) fn assemble(answer: &Gathered<'_>) -> Response {
    let refusal = answer.message.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut parts: Vec<Part> = reasoning(answer.message).into_iter().collect();
    match answer.message.get("content") {
        Some(Value::String(text)) => push_text(&mut parts, text),
        Some(Value::Array(blocks)) => blocks.iter().for_each(|block| push_block(&mut parts, block)),
        _ => {}
    }
    push_text(&mut parts, refusal.unwrap_or_default());
    if let Some(Value::Array(calls)) = answer.message.get("tool_calls") {
        parts.extend(calls.iter().map(call));
    }
    Response {
        response_id: answer.id.map(str::to_owned),
        response_model: answer.model.map(str::to_owned),
        parts,
        finish: finish(answer.finish_reason, refusal.is_some()),
        finish_raw: answer.finish_reason.map(str::to_owned),
        usage: usage(answer.usage),
    }
}

/// An `error` member, which some servers send with status 200.
pub(super) fn provider_error(answer: &Value) -> Result<(), DecodeError> {
    match answer.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(error) => Err(DecodeError::Provider(fault::of_error_object(error))),
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text { text: text.to_owned() });
    }
}

/// A block of a content list: text, Mistral's thinking, or something kept for the echo.
fn push_block(parts: &mut Vec<Part>, block: &Value) {
    match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => push_text(parts, text),
        (Some("thinking"), _) => {
            parts.push(Part::Reasoning { text: thinking_text(block), raw: Some(block.clone()) });
        }
        _ => parts.push(Part::Opaque { wire: super::NAME.to_owned(), raw: block.clone() }),
    }
}

/// The readable part of a thinking block, whose content is again a list.
pub(super) fn thinking_text(block: &Value) -> String {
    block["thinking"].as_array().into_iter().flatten().filter_map(|one| one["text"].as_str()).collect()
}

fn reasoning(message: &Map<String, Value>) -> Option<Part> {
    let raw: Map<String, Value> = REASONING_MEMBERS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), message.get(*name)?.clone())))
        .filter(|(_, value)| !matches!(value, Value::Null) && value != "" && value != &Value::Array(vec![]))
        .collect();
    let text = raw.values().find_map(Value::as_str).unwrap_or_default().to_owned();
    (!raw.is_empty()).then_some(Part::Reasoning { text, raw: Some(Value::Object(raw)) })
}

fn call(call: &Value) -> Part {
    let Some(function) = call["function"].as_object() else {
        return Part::Opaque { wire: super::NAME.to_owned(), raw: call.clone() };
    };
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        // Some servers send the object itself.
        Some(other) => other.to_string(),
    };
    Part::ToolCall(ToolCall {
        call_id: call["id"].as_str().unwrap_or_default().to_owned(),
        tool_name: function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        arguments,
    })
}
