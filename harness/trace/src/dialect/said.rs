//! A message as any of the dialects shapes it, in the parts of the registry.
//!
//! Shapes known: `{role, parts}` of the registry; `{role, content, tool_calls, tool_call_id}` of OpenAI; content
//! blocks of Anthropic; `{message: {...}}` with `contents` and `tool_calls` of OpenInference.

use crate::id::Hash;
use serde_json::{Map, Value, json};

/// One message of a conversation: who, and parts as `gen_ai.input.messages` has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Who speaks, in the sender's word.
    pub role: String,
    /// Parts: `text`, `reasoning`, `tool_call`, `tool_call_response`, or whatever else was sent.
    pub parts: Vec<Value>,
}

impl Said {
    /// The hash that names the message: equal for messages that say the same.
    #[must_use]
    pub fn blob(&self) -> Hash {
        Hash::of(crate::canonical::canonical(&json!([self.role, self.parts])).as_bytes())
    }

    /// The message in the form that spans carry.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"role": self.role, "parts": self.parts})
    }
}

/// The messages of a value: a list of them, one of them, or plain text from a user.
#[must_use]
pub fn conversation(value: &Value) -> Vec<Said> {
    match value {
        Value::Array(items) => items.iter().filter_map(message).collect(),
        Value::Object(map) if map.contains_key("messages") => conversation(&map["messages"]),
        other => message(other).into_iter().collect(),
    }
}

/// Instructions that a sender keeps apart from the conversation.
pub(super) fn system(value: &Value) -> Option<Said> {
    let parts = parts_of(value);
    (!parts.is_empty()).then(|| Said { role: "system".to_owned(), parts })
}

/// What a person reads of a message: its texts, calls as `name(arguments)`, results as they are.
#[must_use]
pub fn shown(parts: &[Value]) -> String {
    let mut lines = Vec::new();
    for part in parts {
        let field = |name: &str| part.get(name).map(plain).unwrap_or_default();
        match part.get("type").and_then(Value::as_str) {
            Some("text" | "reasoning") => lines.push(field("content")),
            Some("tool_call") => lines.push(format!("{}({})", field("name"), field("arguments"))),
            Some("tool_call_response") => {
                lines.push(field(if part.get("response").is_some() { "response" } else { "result" }));
            }
            _ => lines.push(part.to_string()),
        }
    }
    lines.join("\n")
}

fn message(value: &Value) -> Option<Said> {
    if let Value::String(text) = value {
        return Some(Said { role: "user".to_owned(), parts: vec![text_part(text)] });
    }
    let map = value.as_object()?;
    if let Some(inner) = map.get("message").filter(|inner| inner.is_object()) {
        return message(inner);
    }
    let role = map.get("role").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    if let Some(Value::Array(parts)) = map.get("parts") {
        return Some(Said { role, parts: parts.iter().map(registry_part).collect() });
    }
    Some(Said { parts: wire_parts(map, &role), role })
}

/// A part of the registry; some emitters leave out the type of a text.
fn registry_part(part: &Value) -> Value {
    match part.get("content") {
        Some(Value::String(text)) if part.get("type").is_none() => text_part(text),
        _ => part.clone(),
    }
}

fn wire_parts(map: &Map<String, Value>, role: &str) -> Vec<Value> {
    let mut parts: Vec<Value> =
        ["content", "contents"].iter().filter_map(|name| map.get(*name)).flat_map(parts_of).collect();
    if let Some(id) = map.get("tool_call_id").filter(|_| role == "tool") {
        let text = shown(&parts);
        return vec![json!({"type": "tool_call_response", "id": id, "response": text})];
    }
    if let Some(Value::Array(calls)) = map.get("tool_calls") {
        // OpenInference repeats a call among the contents: the list of calls is the one that counts.
        parts.retain(|part| part.get("type").and_then(Value::as_str) != Some("tool_call"));
        parts.extend(calls.iter().filter_map(call_part));
    }
    parts.extend(map.get("function_call").and_then(|call| call_part(&json!({ "function": call }))));
    parts
}

fn parts_of(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text_part(text)],
        Value::Array(blocks) => {
            blocks.iter().map(|block| block_part(block.get("message_content").unwrap_or(block))).collect()
        }
        other => vec![block_part(other)],
    }
}

/// A content block of OpenAI, Anthropic or OpenInference; what is none of them is kept as it came.
fn block_part(block: &Value) -> Value {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text" | "input_text" | "output_text") => {
            text("text").or_else(|| text("content")).map_or_else(|| block.clone(), text_part)
        }
        Some("tool_use") => match block.get("tool_call") {
            Some(call) => call_part(call).unwrap_or_else(|| block.clone()),
            None => {
                json!({"type": "tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")})
            }
        },
        Some("tool_result") => {
            let said = block.get("content").map(parts_of).unwrap_or_default();
            json!({"type": "tool_call_response", "id": block.get("tool_use_id"), "response": shown(&said)})
        }
        Some("thinking") => json!({"type": "reasoning", "content": text("thinking").unwrap_or_default()}),
        None if block.is_string() => text_part(block.as_str().unwrap_or_default()),
        _ => block.clone(),
    }
}

/// A tool call as OpenAI, OpenInference or the old OpenLLMetry writes it.
fn call_part(call: &Value) -> Option<Value> {
    let call = call.get("tool_call").unwrap_or(call);
    let function = call.get("function").unwrap_or(call);
    let name = function.get("name")?;
    Some(
        json!({"type": "tool_call", "id": call.get("id"), "name": name, "arguments": function.get("arguments")}),
    )
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_in_five_dialects_is_one_blob() {
        let call = json!({"name": "add", "arguments": "{\"a\":1}"});
        let shapes = [
            json!({"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "add", "arguments": "{\"a\":1}"}]}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}),
            json!({"message": {"role": "assistant", "tool_calls": [{"tool_call": {"id": "c1", "function": call}}]}}),
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "add", "arguments": "{\"a\":1}"}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": "{\"a\":1}"}]}),
        ];
        let blobs: Vec<_> = shapes.iter().map(|shape| conversation(shape)[0].blob()).collect();
        assert!(blobs.iter().all(|blob| *blob == blobs[0]), "{blobs:?}");
    }

    #[test]
    fn what_a_person_reads_of_a_message() {
        let said = conversation(&json!([
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "assistant", "content": "Done.", "tool_calls": [{"id": "c", "function": {"name": "end", "arguments": "{}"}}]},
            "hello",
            {"role": "user", "content": [{"type": "image", "url": "x"}]},
        ]));
        let read: Vec<_> = said.iter().map(|one| format!("{}: {}", one.role, shown(&one.parts))).collect();
        assert_eq!(
            read,
            [
                "tool: 42",
                "assistant: Done.\nend({})",
                "user: hello",
                "user: {\"type\":\"image\",\"url\":\"x\"}"
            ]
        );
    }
}
