//! Requests that a provider would refuse are refused, and the loop's own are not.

use crate::request::RequestSeen;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn violations(wire: &'static str, body: &Value) -> Vec<String> {
    let (endpoint, json) = ("/v1beta/models/m:generateContent".to_owned(), body.clone());
    super::violations(&RequestSeen {
        wire,
        endpoint,
        headers: BTreeMap::new(),
        body: Vec::new(),
        json,
        nth: 0,
    })
}

fn chat(messages: &Value) -> Vec<String> {
    violations("chat", &json!({"model": "m", "messages": messages}))
}

fn messages(messages: &Value) -> Vec<String> {
    violations("messages", &json!({"model": "m", "max_tokens": 9, "messages": messages}))
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "", "is_error": false})
}

fn only(found: &[String], words: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(words), "{found:?}");
}

#[test]
fn a_paired_chat_conversation_passes_even_with_ids_that_come_again() {
    let user = json!({"role": "user", "content": "hi"});
    let asks = json!({"role": "assistant", "content": null, "tool_calls": [call("0"), call("0"), call("1")]});
    let asks_again = json!({"role": "assistant", "content": "once more", "tool_calls": [call("0")]});
    let turns = json!([user, asks, result("1"), result("0"), result("0"), asks_again, result("0")]);
    assert_eq!(chat(&turns), Vec::<String>::new());
}

#[test]
fn unpaired_chat_calls_and_results_are_violations() {
    let user = json!({"role": "user", "content": "hi"});
    let asks = json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]});
    only(&chat(&json!([user, asks, result("a")])), "[a x1], its calls are [a x1, b x1]");
    only(&chat(&json!([user, asks, result("a"), result("a")])), "[a x2], its calls are [a x1, b x1]");
    only(&chat(&json!([user, asks, result("a"), user, result("b")]))[..1], "[a x1], its calls are");
    only(&chat(&json!([user, result("a")])), "messages[1]: a tool result without a call before it");
}

#[test]
fn malformed_chat_messages_are_violations() {
    let user = json!({"role": "user", "content": "hi"});
    let table = [
        (json!([{"role": "user", "content": ""}]), "its content is empty"),
        (json!([user, {"role": "system", "content": "x"}]), "not the first"),
        (json!([user, {"role": "assistant", "content": null}]), "neither content nor tool_calls"),
        (json!([user, {"role": "robot", "content": "x"}]), "the role \"robot\" is unknown"),
        (json!([]), "`messages` is missing or empty"),
    ];
    for (messages, words) in table {
        only(&chat(&messages), words);
    }
    let object = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}});
    only(&chat(&json!([user, {"role": "assistant", "tool_calls": [object]}, result("a")])), "malformed");
}

#[test]
fn a_paired_messages_conversation_passes() {
    let turns = json!([
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "so"}, tool_use("a"), tool_use("a")]},
        {"role": "user", "content": [tool_result("a"), tool_result("a"), {"type": "text", "text": "go on"}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}, {"type": "text", "text": "done"}]},
    ]);
    assert_eq!(messages(&turns), Vec::<String>::new());
}

#[test]
fn unpaired_and_malformed_messages_are_violations() {
    let user = json!({"role": "user", "content": "hi"});
    let asks = json!({"role": "assistant", "content": [tool_use("a")]});
    let table = [
        (json!([user, asks]), "are for [], its calls are [a x1]"),
        (json!([user, asks, {"role": "user", "content": [tool_result("b")]}]), "are for [b x1], its calls"),
        (json!([user, {"role": "user", "content": [tool_result("b")]}]), "are for [b x1], its calls are []"),
        (
            json!([asks, {"role": "user", "content": [tool_result("a")]}]),
            "the first message is not the user's",
        ),
        (
            json!([user, asks, {"role": "user", "content": [{"type": "text", "text": "x"}, tool_result("a")]}]),
            "not the first blocks",
        ),
        (json!([user, {"role": "assistant", "content": []}]), "its content is empty"),
        (json!([user, {"role": "assistant", "content": [{"type": "text", "text": " "}]}]), "empty text"),
        (json!([{"role": "user", "content": [tool_result("a")]}]), "without a call before it"),
    ];
    for (turns, words) in table {
        only(&messages(&turns), words);
    }
}

#[test]
fn tools_are_named_once_and_take_objects() {
    let tool = |name: &str, kind: &str| json!({"name": name, "input_schema": {"type": kind}});
    let body = json!({
        "model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool("ok", "object"), tool("ok", "object"), tool("not ok", "object"), tool("list", "array")],
    });
    let found = violations("messages", &body);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].contains("comes twice")
            && found[1].contains("`not ok`")
            && found[2].contains("of type object")
    );
}

fn responses(input: &Value) -> Vec<String> {
    violations("responses", &json!({"model": "m", "store": false, "input": input}))
}

fn item(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": ""})
}

#[test]
fn paired_items_pass_even_with_ids_that_come_again() {
    let user = json!({"role": "user", "content": "hi"});
    let thought = json!({"type": "reasoning", "summary": [], "encrypted_content": "e"});
    let said = json!({"role": "assistant", "content": "so"});
    let turns = json!([
        user,
        thought,
        item("0"),
        said,
        item("1"),
        output("1"),
        output("0"),
        item("0"),
        output("0"),
        said
    ]);
    assert_eq!(responses(&turns), Vec::<String>::new());
}

#[test]
fn unpaired_and_malformed_items_are_violations() {
    let user = json!({"role": "user", "content": "hi"});
    let table = [
        (json!([user, item("a")]), "input[1]: the results after it are for [], its calls are [a x1]"),
        (json!([user, item("a"), output("b")]), "are for [b x1], its calls are [a x1]"),
        (json!([user, output("a")]), "are for [a x1], its calls are []"),
        (json!([user, item("a"), user, output("a")]), "are for [], its calls are [a x1]"),
        (json!([{"role": "user", "content": ""}]), "its content is empty"),
        (json!([{"role": "robot", "content": "x"}]), "neither a type nor a known role"),
        (json!([user, {"type": "reasoning", "id": "rs_1"}]), "stored nowhere and not encrypted"),
        (json!([]), "`input` is missing or empty"),
    ];
    for (input, words) in table {
        let found = responses(&input);
        assert!(found.iter().any(|one| one.contains(words)), "{words}: {found:?}");
    }
    let kept = violations("responses", &json!({"model": "m", "input": [user]}));
    only(&kept, "`store` is not said");
}

fn gemini(contents: &Value) -> Vec<String> {
    violations("gemini", &json!({"contents": contents}))
}

fn said(role: &str, parts: &Value) -> Value {
    json!({"role": role, "parts": parts})
}

#[test]
fn calls_of_gemini_pair_by_place_and_name_with_or_without_an_id() {
    let user = said("user", &json!([{"text": "hi"}]));
    let asks = said(
        "model",
        &json!([
            {"text": "so"}, {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"},
            {"functionCall": {"name": "g", "args": {}, "id": "1"}},
        ]),
    );
    let f = json!({"functionResponse": {"name": "f", "response": {"output": "1"}}});
    let g = json!({"functionResponse": {"name": "g", "id": "1", "response": {"output": "2"}}});
    assert_eq!(gemini(&json!([user, asks, said("user", &json!([f, g]))])), Vec::<String>::new());
    for answers in [json!([g, f]), json!([f]), json!([{"text": "x"}])] {
        only(&gemini(&json!([user, asks, said("user", &answers)])), "contents[1]: the responses after it");
    }
    let table = [
        (json!([asks, said("user", &json!([f, g]))]), "the first content is not the user's"),
        (json!([user, said("model", &json!([]))]), "it has no parts"),
        (json!([user, said("robot", &json!([{"text": "x"}]))]), "the role \"robot\" is unknown"),
        (json!([said("user", &json!([f]))]), "without a call before it"),
        (
            json!([user, said("user", &json!([{"functionCall": {"name": "f", "args": {}}}]))]),
            "a malformed function call",
        ),
        (json!([user, said("model", &json!([{}]))]), "an empty part"),
    ];
    for (contents, words) in table {
        let found = gemini(&contents);
        assert!(found.iter().any(|one| one.contains(words)), "{words}: {found:?}");
    }
    let body = json!({"model": "m", "contents": [user]});
    only(&violations("gemini", &body), "`model` is no member");
}
