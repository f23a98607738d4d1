//! The rules of Anthropic Messages.

use super::{ids, pairing, tool};
use serde_json::Value;
use std::collections::BTreeSet;

/// Adds what is wrong with the body.
pub(super) fn check(body: &Value, found: &mut Vec<String>) {
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        found.push("`max_tokens` is not a positive number".to_owned());
    }
    if body.get("system").is_some_and(|system| !is_said(system)) {
        found.push("`system` is not a text, or empty".to_owned());
    }
    let mut seen = BTreeSet::new();
    for (at, one) in body["tools"].as_array().into_iter().flatten().enumerate() {
        tool(at, &one["name"], &one["input_schema"], &mut seen, found);
    }
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.first().is_some_and(|first| first["role"] != "user") {
        found.push("messages[0]: the first message is not the user's".to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        one(at, message, found);
        let results = messages.get(at + 1).into_iter().flat_map(|next| blocks(next, "tool_result"));
        let results = ids(results.map(|block| &block["tool_use_id"]));
        let calls = ids(blocks(message, "tool_use").map(|block| &block["id"]));
        pairing(&format!("messages[{at}]"), &calls, &results, found);
    }
    if let Some(first) = messages.first().filter(|first| blocks(first, "tool_result").next().is_some()) {
        found.push(format!("messages[0]: a tool result without a call before it: {first}"));
    }
}

/// Whether a system prompt is a text, or blocks of text.
fn is_said(system: &Value) -> bool {
    let has_text = |block: &Value| block["text"].as_str().is_some_and(|text| !text.is_empty());
    match system {
        Value::Array(blocks) => !blocks.is_empty() && blocks.iter().all(has_text),
        other => other.as_str().is_some_and(|text| !text.is_empty()),
    }
}

fn blocks<'a>(message: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    message["content"].as_array().into_iter().flatten().filter(move |block| block["type"] == kind)
}

fn one(at: usize, message: &Value, found: &mut Vec<String>) {
    let role = message["role"].as_str().unwrap_or_default();
    if role != "user" && role != "assistant" {
        found.push(format!("messages[{at}]: the role {} is unknown", message["role"]));
    }
    match &message["content"] {
        Value::String(text) if !text.trim().is_empty() => {}
        Value::Array(list) if !list.is_empty() => {
            list.iter().for_each(|block| content(at, role, block, found));
            let first_other = list.iter().position(|block| block["type"] != "tool_result");
            let last_result = list.iter().rposition(|block| block["type"] == "tool_result");
            if let (Some(other), Some(result)) = (first_other, last_result)
                && other < result
            {
                found.push(format!("messages[{at}]: tool results are not the first blocks"));
            }
        }
        _ => found.push(format!("messages[{at}]: its content is empty")),
    }
}

fn content(at: usize, role: &str, block: &Value, found: &mut Vec<String>) {
    let wrong = match block["type"].as_str() {
        Some("text") => {
            block["text"].as_str().is_none_or(|text| text.trim().is_empty()).then_some("empty text")
        }
        Some("tool_use") => {
            let is_whole = role == "assistant" && block["id"].is_string() && block["name"].is_string();
            (!is_whole || !block["input"].is_object()).then_some("a malformed tool call")
        }
        Some("tool_result") => {
            let is_whole =
                role == "user" && block["tool_use_id"].is_string() && block["is_error"].is_boolean();
            (!is_whole || !block["content"].is_string()).then_some("a malformed tool result")
        }
        Some(_) => None,
        None => Some("a block without a type"),
    };
    if let Some(wrong) = wrong {
        found.push(format!("messages[{at}]: {wrong}: {block}"));
    }
}
