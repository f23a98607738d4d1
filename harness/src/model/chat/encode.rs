//! Messages of a conversation as Chat Completions wants them.
//!
//! Place in the flow: called by [`super::Chat`] for each new message of a request; the texts become fragments.

use super::NAME;
use crate::model::ToolOffer;
use serde_json::{Map, Value, json};
use trace::message::{Message, Part, Role, ToolCall, ToolResult, joined_text, tool_calls};

/// Members in which compatible servers carry reasoning beside the content.
pub const REASONING_MEMBERS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// A tool in the body's `tools`.
#[must_use]
pub fn tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "function": {"name": offer.name, "description": offer.description, "parameters": offer.input_schema},
    })
}

/// The message as JSON values; none where nothing of it can be said on this wire.
#[must_use]
pub fn fragments(message: &Message) -> Vec<String> {
    match message.role {
        Role::System => plain("system", message),
        Role::User => plain("user", message),
        Role::Assistant => assistant(&message.parts).into_iter().collect(),
        Role::Tool => message.parts.iter().filter_map(result).collect(),
    }
}

fn plain(role: &str, message: &Message) -> Vec<String> {
    vec![json!({"role": role, "content": message.joined_text()}).to_string()]
}

fn result(part: &Part) -> Option<String> {
    let Part::ToolResult(ToolResult { call_id, content, .. }) = part else { return None };
    Some(json!({"role": "tool", "tool_call_id": call_id, "content": content}).to_string())
}

fn assistant(parts: &[Part]) -> Option<String> {
    let calls: Vec<Value> = tool_calls(parts).map(call).collect();
    let content = content(parts);
    if calls.is_empty() && content.is_null() {
        return None;
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
        // Servers that want reasoning back want it within a chain of tool calls; elsewhere some refuse it.
        message.extend(reasoning(parts));
    }
    Some(Value::Object(message).to_string())
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.tool_name, "arguments": call.arguments},
    })
}

/// One string, or a list where the answer held blocks that only a list can carry.
fn content(parts: &[Part]) -> Value {
    if parts.iter().any(|part| block(part).is_some()) {
        return parts.iter().filter_map(|part| block(part).or_else(|| text_block(part))).collect();
    }
    match joined_text(parts) {
        text if text.is_empty() => Value::Null,
        text => Value::String(text),
    }
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Opaque { wire, raw } if wire == NAME => Some(raw.clone()),
        // Only Mistral writes thinking as a block of the content, as a list; Anthropic's is a string.
        Part::Reasoning { raw: Some(raw), .. } if raw["thinking"].is_array() => Some(raw.clone()),
        _ => None,
    }
}

fn text_block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } if !text.is_empty() => Some(json!({"type": "text", "text": text})),
        _ => None,
    }
}

fn reasoning(parts: &[Part]) -> impl Iterator<Item = (String, Value)> + '_ {
    parts
        .iter()
        .filter_map(
            |part| if let Part::Reasoning { raw, .. } = part { raw.as_ref()?.as_object() } else { None },
        )
        .flatten()
        .filter(|(name, _)| REASONING_MEMBERS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
}
