//! Messages of a conversation as items of OpenAI Responses.
//!
//! Place in the flow: called by [`super::Responses`] for each new message of a request; the texts become
//! fragments. One message of ours may be several items.

use super::NAME;
use crate::model::ToolOffer;
use serde_json::{Value, json};
use trace::message::{Message, Part, Role, joined_text};

/// A tool in the body's `tools`.
///
/// `strict` is said to be false: the provider would otherwise rewrite the schema, and the loop checks arguments
/// against the schema as it is.
#[must_use]
pub fn tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "name": offer.name,
        "description": offer.description,
        "parameters": offer.input_schema,
        "strict": false,
    })
}

/// The message as items; none where nothing of it belongs among them.
#[must_use]
pub fn fragments(message: &Message) -> Vec<String> {
    let items = match message.role {
        Role::System => Vec::new(),
        Role::User => vec![json!({"role": "user", "content": user(&message.parts)})],
        Role::Assistant => assistant(&message.parts),
        Role::Tool => message.parts.iter().filter_map(result).collect(),
    };
    items.iter().map(Value::to_string).collect()
}

/// One string, or a list where there is more than text, such as images.
fn user(parts: &[Part]) -> Value {
    if !parts.iter().any(|part| matches!(part, Part::Opaque { wire, .. } if wire == NAME)) {
        return json!(joined_text(parts));
    }
    let content = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({"type": "input_text", "text": text})),
        Part::Opaque { wire, raw } if wire == NAME => Some(raw.clone()),
        _ => None,
    });
    content.collect()
}

/// Items in the order in which the model gave them; neighbouring texts are one item.
fn assistant(parts: &[Part]) -> Vec<Value> {
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    parts
        .chunk_by(|a, b| is_text(a) && is_text(b))
        .flat_map(|run| match run {
            [Part::Text { .. }, ..] => said(&joined_text(run)).into_iter().collect(),
            other => other.iter().filter_map(item).collect::<Vec<_>>(),
        })
        .collect()
}

fn said(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}))
}

fn item(part: &Part) -> Option<Value> {
    match part {
        // Without the id of its item a call stands alone; with it the provider would look for its neighbours.
        Part::ToolCall(call) => Some(json!({
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.tool_name,
            "arguments": call.arguments,
        })),
        // The provider keeps nothing: reasoning that did not come encrypted cannot be given back to it.
        Part::Reasoning { raw: Some(raw), .. } if raw["type"] == "reasoning" => {
            raw["encrypted_content"].is_string().then(|| raw.clone())
        }
        Part::Opaque { wire, raw } if wire == NAME => Some(raw.clone()),
        Part::Text { .. } | Part::Reasoning { .. } | Part::Opaque { .. } | Part::ToolResult(_) => None,
    }
}

fn result(part: &Part) -> Option<Value> {
    let Part::ToolResult(result) = part else { return None };
    Some(json!({"type": "function_call_output", "call_id": result.call_id, "output": result.content}))
}
