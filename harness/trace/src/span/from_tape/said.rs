//! What was said, as the registry's message attributes hold it.
//!
//! Place in the flow: a tape's messages -> **JSON text** -> attributes of a model call's span.

use crate::message::{Message, Part};
use serde_json::{Value, json};

/// Messages as the JSON text that the registry's message attributes hold.
/// Source: semantic-conventions-genai, gen-ai-input-messages.json and gen-ai-output-messages.json.
pub(super) fn messages_json(messages: &[Message], finish: Option<&str>) -> String {
    let list: Vec<Value> = messages
        .iter()
        .map(|message| {
            let parts: Vec<Value> = message.parts.iter().map(part_json).collect();
            let mut object = json!({ "role": message.role.as_str(), "parts": parts });
            if let (Some(finish), Some(map)) = (finish, object.as_object_mut()) {
                map.insert("finish_reason".to_owned(), json!(finish));
            }
            object
        })
        .collect();
    Value::Array(list).to_string()
}

fn part_json(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({ "type": "text", "content": text }),
        Part::Reasoning { text, .. } => json!({ "type": "reasoning", "content": text }),
        Part::ToolCall(call) => {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            json!({ "type": "tool_call", "id": call.call_id, "name": call.tool_name, "arguments": arguments })
        }
        Part::ToolResult(result) => {
            json!({ "type": "tool_call_response", "id": result.call_id, "response": result.content })
        }
        Part::Opaque { raw, .. } => raw.clone(),
    }
}
