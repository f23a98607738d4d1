//! The rules of Gemini.

use super::tool;
use serde_json::Value;
use std::collections::BTreeSet;

/// Adds what is wrong with the body.
pub(super) fn check(body: &Value, found: &mut Vec<String>) {
    for name in ["model", "stream"] {
        if body.get(name).is_some() {
            found.push(format!("`{name}` is no member of this wire's body"));
        }
    }
    let mut seen = BTreeSet::new();
    let declared = body["tools"].as_array().into_iter().flatten();
    let declared = declared.flat_map(|one| one["functionDeclarations"].as_array().into_iter().flatten());
    for (at, one) in declared.enumerate() {
        tool(at, &one["name"], &one["parametersJsonSchema"], &mut seen, found);
    }
    let contents = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    if contents.first().is_some_and(|first| first["role"] != "user") {
        found.push("contents[0]: the first content is not the user's".to_owned());
    }
    for (at, content) in contents.iter().enumerate() {
        one(at, content, found);
        let calls = members(content, "functionCall");
        let results = contents.get(at + 1).map(|next| members(next, "functionResponse")).unwrap_or_default();
        pairing(at, &calls, &results, found);
    }
    if contents.first().is_some_and(|first| !members(first, "functionResponse").is_empty()) {
        found.push("contents[0]: a function response without a call before it".to_owned());
    }
}

fn parts(content: &Value) -> &[Value] {
    content["parts"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members<'a>(content: &'a Value, name: &str) -> Vec<&'a Value> {
    parts(content).iter().filter_map(|part| part.get(name)).collect()
}

/// Responses pair with calls by place: as many, of the same names, and with the same ids or none.
fn pairing(at: usize, calls: &[&Value], results: &[&Value], found: &mut Vec<String>) {
    let key = |one: &Value| (one["name"].clone(), one["id"].clone());
    let (called, answered): (Vec<_>, Vec<_>) =
        (calls.iter().map(|one| key(one)).collect(), results.iter().map(|one| key(one)).collect());
    if called != answered {
        found.push(format!(
            "contents[{at}]: the responses after it are for {answered:?}, its calls are {called:?}"
        ));
    }
}

fn one(at: usize, content: &Value, found: &mut Vec<String>) {
    let role = content["role"].as_str().unwrap_or_default();
    if role != "user" && role != "model" {
        found.push(format!("contents[{at}]: the role {} is unknown", content["role"]));
    }
    if parts(content).is_empty() {
        found.push(format!("contents[{at}]: it has no parts"));
    }
    for part in parts(content) {
        let wrong = match (part.get("functionCall"), part.get("functionResponse")) {
            (Some(call), _) => (role != "model" || !call["name"].is_string() || !call["args"].is_object())
                .then_some("a malformed function call"),
            (None, Some(answer)) => {
                (role != "user" || !answer["name"].is_string() || !answer["response"].is_object())
                    .then_some("a malformed function response")
            }
            _ => part.as_object().is_none_or(serde_json::Map::is_empty).then_some("an empty part"),
        };
        if let Some(wrong) = wrong {
            found.push(format!("contents[{at}]: {wrong}: {part}"));
        }
    }
}
