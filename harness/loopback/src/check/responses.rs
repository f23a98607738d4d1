//! The rules of OpenAI Responses.

use super::{ids, pairing, tool};
use crate::request::is_models;
use serde_json::Value;
use std::collections::BTreeSet;

/// Adds what is wrong with the body.
pub(super) fn check(body: &Value, found: &mut Vec<String>) {
    if !body["store"].is_boolean() {
        found.push("`store` is not said: the provider would keep everything".to_owned());
    }
    if body["store"] == false && body.get("previous_response_id").is_some() {
        found.push("`previous_response_id` where nothing is stored".to_owned());
    }
    let mut seen = BTreeSet::new();
    for (at, one) in body["tools"].as_array().into_iter().flatten().enumerate() {
        if one["type"] == "function" {
            tool(at, &one["name"], &one["parameters"], &mut seen, found);
        }
    }
    let input = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_stored = body["store"] == true;
    input.iter().enumerate().for_each(|(at, item)| one(at, item, is_stored, found));
    pairs(input, found);
}

/// The calls of one answer have their outputs right behind it.
fn pairs(input: &[Value], found: &mut Vec<String>) {
    let is_output = |item: &Value| item["type"] == "function_call_output";
    let mut at = 0;
    while at < input.len() {
        let answer = input[at..].iter().take_while(|item| is_models(item)).count();
        let outputs = input[at + answer..].iter().take_while(|item| is_output(item)).count();
        let calls = input[at..at + answer].iter().filter(|item| item["type"] == "function_call");
        let calls = ids(calls.map(|item| &item["call_id"]));
        let results = ids(input[at + answer..at + answer + outputs].iter().map(|item| &item["call_id"]));
        pairing(&format!("input[{at}]"), &calls, &results, found);
        at += (answer + outputs).max(1);
    }
}

fn one(at: usize, item: &Value, is_stored: bool, found: &mut Vec<String>) {
    let text = |name: &str| item[name].as_str().is_some_and(|text| !text.is_empty());
    let wrong = match (item["type"].as_str(), item["role"].as_str()) {
        (None | Some("message"), Some("user" | "assistant" | "system" | "developer")) => {
            is_empty(&item["content"]).then_some("its content is empty")
        }
        (None | Some("message"), _) => Some("neither a type nor a known role"),
        (Some("function_call"), _) => {
            let is_whole = text("call_id") && text("name") && item["arguments"].is_string();
            (!is_whole).then_some("a malformed function call")
        }
        (Some("function_call_output"), _) => {
            (!text("call_id") || !item["output"].is_string()).then_some("a malformed output")
        }
        (Some("reasoning"), _) => (!is_stored && !text("encrypted_content"))
            .then_some("reasoning that is stored nowhere and not encrypted"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        found.push(format!("input[{at}]: {wrong}: {item}"));
    }
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        _ => true,
    }
}
