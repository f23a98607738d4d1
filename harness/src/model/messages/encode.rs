//! Messages of a conversation as Anthropic Messages wants them.
//!
//! Place in the flow: called by [`super::Messages`] for each new message of a request; the texts become
//! fragments. All results of a turn are one message of the user.

use super::NAME;
use crate::model::ToolOffer;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use trace::message::{Message, Part, Role, ToolCall};

/// The body's `system`: a text, or a block of text where the prompt cache is to keep it.
#[must_use]
pub fn system(prompt: &str, cache: bool) -> Value {
    if !cache {
        return json!(prompt);
    }
    json!([{"type": "text", "text": prompt, "cache_control": cache_mark()}])
}

/// The body's `tools`. The last one's mark makes the prompt cache keep them all.
#[must_use]
pub fn tools(offers: &[ToolOffer], cache: bool) -> Value {
    let mut tools: Vec<Value> = offers
        .iter()
        .map(|offer| {
            json!({"name": offer.name, "description": offer.description, "input_schema": offer.input_schema})
        })
        .collect();
    if let Some(last) = tools.last_mut().filter(|_| cache) {
        last["cache_control"] = cache_mark();
    }
    Value::Array(tools)
}

/// Only the frame is marked: a mark on the newest message would have to move, and fragments never change.
fn cache_mark() -> Value {
    json!({"type": "ephemeral"})
}

/// The message as a JSON value; none where nothing of it belongs among the messages.
#[must_use]
pub fn fragment(message: &Message) -> Option<String> {
    let role = match message.role {
        Role::System => return None,
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let content: Vec<Block<'_>> = message.parts.iter().filter_map(block).collect();
    if content.is_empty() {
        return None;
    }
    serde_json::to_string(&Said { role, content }).ok()
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'a str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Plain(Value),
    Kept(&'a Value),
    ToolUse { r#type: &'static str, id: &'a str, name: &'a str, input: Box<RawValue> },
}

fn block(part: &Part) -> Option<Block<'_>> {
    match part {
        // The wire refuses a text block without a visible character.
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(Block::Plain(json!({"type": "text", "text": text}))),
        Part::Reasoning { raw: Some(raw), .. } if is_thinking(raw) => Some(Block::Kept(raw)),
        Part::Opaque { wire, raw } if wire == NAME => Some(Block::Kept(raw)),
        Part::Reasoning { .. } | Part::Opaque { .. } => None,
        Part::ToolCall(call) => Some(Block::ToolUse {
            r#type: "tool_use",
            id: &call.call_id,
            name: &call.tool_name,
            input: input(call)?,
        }),
        Part::ToolResult(result) => Some(Block::Plain(json!({
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.content,
            "is_error": result.is_error,
        }))),
    }
}

/// Without the provider's signature the wire refuses a thinking block; only what came from it goes back.
fn is_thinking(raw: &Value) -> bool {
    matches!(raw["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// The arguments, byte for byte where they are an object; the wire takes nothing else, so broken text is wrapped.
fn input(call: &ToolCall) -> Option<Box<RawValue>> {
    let text = call.arguments.trim();
    let object = text.starts_with('{').then(|| RawValue::from_string(text.to_owned()).ok()).flatten();
    object.or_else(|| to_raw_value(&json!({"invalid_arguments": call.arguments})).ok())
}
