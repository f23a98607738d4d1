//! The wire of Anthropic Messages, as requests go out and answers come in.

use super::*;
use crate::model::ToolOffer;
use insta::assert_snapshot;
use proptest::prelude::*;
use trace::message::{Part, Role, ToolCall, ToolResult};
use trace::outcome::FaultClass;

fn spec() -> CallSpec {
    CallSpec {
        model: "claude".to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![ToolOffer {
            name: "add".to_owned(),
            description: "Adds.".to_owned(),
            input_schema: json!({"type": "object"}),
        }],
        max_output_tokens: None,
        temperature: None,
        stream: true,
        cache: false,
        store: false,
        output_schema: None,
        extra: Map::from_iter([("top_k".to_owned(), json!(7))]),
    }
}

fn call(call_id: &str, tool_name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.to_owned(),
        tool_name: tool_name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn result(call_id: &str, content: &str, is_error: bool) -> Part {
    let (call_id, tool_name, content) = (call_id.to_owned(), "add".to_owned(), content.to_owned());
    Part::ToolResult(ToolResult { call_id, tool_name, content, is_error })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn streamed(events: &[Value]) -> Result<Response, DecodeError> {
    let mut decoder = Messages.stream();
    for event in events {
        decoder.push(format!("data: {event}\n\n").as_bytes())?;
    }
    decoder.finish()
}

#[expect(clippy::needless_pass_by_value, reason = "the callers read as the JSON they build")]
fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

#[expect(clippy::needless_pass_by_value, reason = "the callers read as the JSON they build")]
fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

#[test]
fn a_request_is_the_frame_around_its_fragments_and_results_of_a_turn_are_one_message() {
    let conversation = [
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "1+2 and 3+4?"),
        Message {
            role: Role::Assistant,
            parts: vec![
                text("Adding."),
                call("a", "add", "{\"x\":  1}"),
                text("And"),
                call("b", "add", "{\"x\": 3"),
            ],
        },
        Message { role: Role::Tool, parts: vec![result("a", "3", false), result("b", "cut off", true)] },
    ];
    let fragments: Vec<String> =
        conversation.iter().flat_map(|message| Messages.fragments(message)).collect();
    assert_eq!(fragments.len(), 3);
    let body = Messages.frame(&spec()).body(&fragments);
    let _: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert_snapshot!(String::from_utf8_lossy(&body).replace(",{\"", ",\n{\""), @r#"
    {"max_tokens":4096,"model":"claude","stream":true,"system":"Be brief.","tools":[{"description":"Adds.","input_schema":{"type":"object"},"name":"add"}],"top_k":7,"messages":[{"role":"user","content":[{"text":"1+2 and 3+4?","type":"text"}]},
    {"role":"assistant","content":[{"text":"Adding.","type":"text"},
    {"type":"tool_use","id":"a","name":"add","input":{"x":  1}},
    {"text":"And","type":"text"},
    {"type":"tool_use","id":"b","name":"add","input":{"invalid_arguments":"{\"x\": 3"}}]},
    {"role":"user","content":[{"content":"3","is_error":false,"tool_use_id":"a","type":"tool_result"},
    {"content":"cut off","is_error":true,"tool_use_id":"b","type":"tool_result"}]}]}
    "#);
}

#[test]
fn thinking_and_unknown_blocks_go_back_as_they_came_in_their_order() {
    let blocks = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"a": 1}]},
        {"type": "text", "text": "Found."},
        {"type": "tool_use", "id": "t", "name": "add", "input": {}},
    ]);
    let answer = json!({"id": "m", "model": "c", "content": blocks, "stop_reason": "tool_use"});
    let response = Messages.decode(answer.to_string().as_bytes()).expect("decodes");
    let echoed: Value = serde_json::from_str(&Messages.fragments(&response.message())[0]).expect("json");
    assert_eq!(echoed["content"], blocks);
    assert_eq!(response.usage, Usage::default());
}

#[test]
fn reasoning_without_a_signature_and_blocks_of_another_wire_are_not_sent() {
    let foreign = Message {
        role: Role::Assistant,
        parts: vec![
            Part::Reasoning { text: "x".to_owned(), raw: Some(json!({"reasoning_content": "x"})) },
            Part::Opaque { wire: "chat".to_owned(), raw: json!({"type": "image_url"}) },
            text(" "),
        ],
    };
    assert_eq!(Messages.fragments(&foreign), Vec::<String>::new());
}

#[test]
fn arguments_keep_their_bytes() {
    let body = br#"{"content":[{"type":"tool_use","id":"t","name":"f","input":{"z": 1.0,  "a":1e2}}],"stop_reason":"tool_use"}"#;
    let response = Messages.decode(body).expect("decodes");
    assert_eq!(response.parts, [call("t", "f", "{\"z\": 1.0,  \"a\":1e2}")]);
    assert!(Messages.fragments(&response.message())[0].contains("{\"z\": 1.0,  \"a\":1e2}"));
}

#[test]
fn input_counts_cached_tokens_and_later_counts_hold() {
    let response = streamed(&[
        json!({"type": "message_start", "message": {"id": "m", "model": "c", "usage":
            {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9, "input_tokens": 20}}),
        json!({"type": "message_stop"}),
    ])
    .expect("decodes");
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (Some(27), Some(9)));
    assert_eq!((response.usage.cache_read_tokens, response.usage.cache_write_tokens), (Some(5), Some(2)));
    assert_eq!(response.finish, Finish::EndTurn);
}

#[test]
fn interleaved_blocks_are_gathered_by_index_and_empty_input_is_an_empty_object() {
    let response = streamed(&[
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "a"})),
        start(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        start(2, json!({"type": "tool_use", "id": "u", "name": "g", "input": {}})),
        start(3, json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"x\""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "b"})),
        delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        delta(1, json!({"type": "input_json_delta", "partial_json": ":1}"})),
        json!({"type": "a_new_event", "x": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
        json!({"type": "message_stop"}),
    ])
    .expect("decodes");
    let thought = json!({"type": "thinking", "thinking": "ab", "signature": "sig"});
    let server = json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": 1}});
    assert_eq!(
        response.parts,
        [
            Part::Reasoning { text: "ab".to_owned(), raw: Some(thought) },
            call("t", "f", "{\"x\":1}"),
            call("u", "g", "{}"),
            Part::Opaque { wire: "messages".to_owned(), raw: server },
        ]
    );
}

#[test]
fn every_stop_reason_has_its_word() {
    let table = [
        (Some("end_turn"), Finish::EndTurn),
        (Some("tool_use"), Finish::ToolUse),
        (Some("max_tokens"), Finish::Length),
        (Some("refusal"), Finish::Refusal),
        (Some("pause_turn"), Finish::PauseTurn),
        (Some("model_context_window_exceeded"), Finish::ContextFull),
        (Some("stop_sequence"), Finish::StopSequence),
        (Some("compaction"), Finish::Other("compaction".to_owned())),
        (None, Finish::Other(String::new())),
    ];
    for (word, expected) in table {
        assert_eq!(finish(word), expected, "{word:?}");
    }
}

#[test]
fn a_stream_without_message_stop_is_incomplete_and_nothing_of_it_is_run() {
    let events = [
        start(0, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
    ];
    assert!(matches!(streamed(&events), Err(DecodeError::Incomplete { .. })));
    assert!(matches!(streamed(&[]), Err(DecodeError::Incomplete { .. })));
}

#[test]
fn an_error_event_is_the_providers_with_its_class() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    for result in
        [streamed(std::slice::from_ref(&overloaded)), Messages.decode(overloaded.to_string().as_bytes())]
    {
        let Err(DecodeError::Provider(fault)) = result else { panic!("{result:?}") };
        assert_eq!(fault.class, FaultClass::Transient);
        assert!(fault.message.contains("Overloaded"), "{}", fault.message);
    }
}

#[test]
fn what_is_no_answer_says_why() {
    for body in ["", "<html>", "{}", "[]", r#"{"content":"text"}"#] {
        assert!(matches!(Messages.decode(body.as_bytes()), Err(DecodeError::Malformed { .. })), "{body}");
    }
    let orphan = streamed(&[delta(4, json!({"type": "text_delta", "text": "x"}))]);
    assert!(matches!(orphan, Err(DecodeError::Malformed { .. })));
}

prop_compose! {
    fn any_response()(
        thought in proptest::option::of(("\\PC{1,20}", "[a-z]{4}")),
        said in proptest::collection::vec("(?s).{1,60}", 0..3),
        calls in proptest::collection::vec(("[a-z0-9_]{1,12}", "[a-z_]{1,12}", "\\PC{0,30}"), 0..4),
        finish_raw in prop_oneof![Just("end_turn"), Just("tool_use"), Just("max_tokens"), Just("novel")],
        usage in proptest::option::of((0_u64..9999, 0_u64..9999, proptest::option::of(0_u64..99))),
    ) -> Response {
        let mut parts = Vec::new();
        parts.extend(thought.map(|(thinking, signature)| Part::Reasoning {
            raw: Some(json!({"type": "thinking", "thinking": thinking, "signature": signature})), text: thinking,
        }));
        parts.extend(said.iter().map(|said| text(said)));
        parts.push(Part::Opaque { wire: NAME.to_owned(), raw: json!({"type": "novel", "x": [1, "y"]}) });
        parts.extend(calls.iter().map(|(id, name, value)| call(id, name, &json!({"v": value}).to_string())));
        Response {
            response_id: Some("r".to_owned()),
            response_model: Some("m".to_owned()),
            parts,
            finish: finish(Some(finish_raw)),
            finish_raw: Some(finish_raw.to_owned()),
            usage: usage.map(|(fresh, output, cached)| Usage {
                input_tokens: Some(fresh + cached.unwrap_or(0)), output_tokens: Some(output),
                cache_read_tokens: cached, ..Usage::default()
            }).unwrap_or_default(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_spoken_is_decoded_to_the_same_response(response in any_response(), size in 1_usize..40) {
        let body = speak::body(&response).to_string();
        prop_assert_eq!(&Messages.decode(body.as_bytes()).expect("whole"), &response);
        let bytes = speak::events(&response).concat().into_bytes();
        let mut decoder = Messages.stream();
        for piece in bytes.chunks(size) {
            decoder.push(piece).expect("piece");
        }
        prop_assert_eq!(decoder.finish().expect("streamed"), response);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Messages.decode(&bytes);
        let mut decoder = Messages.stream();
        let _ = decoder.push(&bytes);
        let _ = decoder.finish();
    }

    #[test]
    fn every_message_is_valid_json_on_its_own(words in "(?s).{0,40}", id in "(?s).{0,10}", arguments in "(?s).{0,40}") {
        let messages = [
            Message::text(Role::User, format!("!{words}")),
            Message { role: Role::Assistant, parts: vec![text(&words), call(&id, "add", &arguments)] },
            Message { role: Role::Tool, parts: vec![result(&id, &words, true)] },
        ];
        let fragments: Vec<String> = messages.iter().flat_map(|message| Messages.fragments(message)).collect();
        let body: Value = serde_json::from_slice(&Messages.frame(&spec()).body(&fragments)).expect("json");
        let called = body["messages"][1]["content"].as_array().and_then(|blocks| blocks.last()).expect("a call");
        prop_assert!(called["input"].is_object());
        prop_assert_eq!(&called["id"], &json!(id));
        prop_assert_eq!(&body["messages"][2]["content"][0]["tool_use_id"], &json!(id));
        prop_assert_eq!(&body["messages"][2]["content"][0]["content"], &json!(words));
    }
}
