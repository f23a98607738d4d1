//! The rules of Chat Completions.

use super::{ids, pairing, tool};
use serde_json::Value;
use std::collections::BTreeSet;

/// Adds what is wrong with the body.
pub(super) fn check(body: &Value, found: &mut Vec<String>) {
    if body.get("stream_options").is_some() && body["stream"] != true {
        found.push("`stream_options` without `stream`".to_owned());
    }
    let mut seen = BTreeSet::new();
    for (at, one) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if one["type"] != "function" {
            found.push(format!("tools[{at}]: its type is not `function`"));
        }
        tool(at, &one["function"]["name"], &one["function"]["parameters"], &mut seen, found);
    }
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, message) in messages.iter().enumerate() {
        one(at, message, found);
        if message["role"] == "tool" {
            let before = messages[..at].iter().rfind(|one| one["role"] != "tool");
            if before.is_none_or(|one| one["tool_calls"].as_array().is_none_or(Vec::is_empty)) {
                found.push(format!("messages[{at}]: a tool result without a call before it"));
            }
        } else {
            let results = messages[at + 1..].iter().take_while(|one| one["role"] == "tool");
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let (calls, results) =
                (ids(calls.map(|call| &call["id"])), ids(results.map(|one| &one["tool_call_id"])));
            if !calls.is_empty() {
                pairing(&format!("messages[{at}]"), &calls, &results, found);
            }
        }
    }
}

fn one(at: usize, message: &Value, found: &mut Vec<String>) {
    let content = &message["content"];
    match message["role"].as_str() {
        Some("system") if at > 0 => {
            found.push(format!("messages[{at}]: a system message that is not the first"));
        }
        Some("system" | "user") if is_empty(content) => {
            found.push(format!("messages[{at}]: its content is empty"));
        }
        Some("tool") if !content.is_string() => {
            found.push(format!("messages[{at}]: a result's content is not a string"));
        }
        Some("assistant") => assistant(at, message, found),
        Some("system" | "user" | "tool") => {}
        _ => found.push(format!("messages[{at}]: the role {} is unknown", message["role"])),
    }
}

fn assistant(at: usize, message: &Value, found: &mut Vec<String>) {
    let calls = message["tool_calls"].as_array();
    if calls.is_none() && is_empty(&message["content"]) {
        found.push(format!("messages[{at}]: neither content nor tool_calls"));
    }
    if calls.is_some_and(Vec::is_empty) {
        found.push(format!("messages[{at}]: `tool_calls` is empty"));
    }
    for call in calls.into_iter().flatten() {
        let function = &call["function"];
        let is_whole = call["id"].is_string() && call["type"] == "function" && function["name"].is_string();
        if !is_whole || !function["arguments"].is_string() {
            found.push(format!("messages[{at}]: a tool call is malformed: {call}"));
        }
    }
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        _ => true,
    }
}
