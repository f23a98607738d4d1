//! The wire of Chat Completions, as requests go out and answers come in.

use super::*;
use crate::model::ToolOffer;
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::Map;
use trace::message::{Part, Role, ToolCall, ToolResult, Usage};
use trace::outcome::FaultClass;

fn spec() -> CallSpec {
    CallSpec {
        model: "gpt-4o".to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![ToolOffer {
            name: "add".to_owned(),
            description: "Adds.".to_owned(),
            input_schema: json!({"type": "object"}),
        }],
        max_output_tokens: Some(64),
        temperature: Some(0.5),
        stream: true,
        cache: true,
        store: false,
        output_schema: None,
        extra: Map::from_iter([("seed".to_owned(), json!(7)), ("messages".to_owned(), json!("no"))]),
    }
}

fn call(call_id: &str, tool_name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.to_owned(),
        tool_name: tool_name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn result(call_id: &str, content: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: call_id.to_owned(),
        tool_name: "add".to_owned(),
        content: content.to_owned(),
        is_error: false,
    })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn streamed(lines: &[&str]) -> Result<Response, DecodeError> {
    let mut decoder = Chat.stream();
    for line in lines {
        decoder.push(format!("data: {line}\n\n").as_bytes())?;
    }
    decoder.finish()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

const END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn a_request_is_the_frame_around_its_fragments() {
    let conversation = [
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "1+2 \"and\" 3+4?"),
        Message {
            role: Role::Assistant,
            parts: vec![text("Adding."), call("a", "add", "{\"x\": 1"), call("b", "add", "{}")],
        },
        Message { role: Role::Tool, parts: vec![result("a", "3"), result("b", "")] },
    ];
    let fragments: Vec<String> = conversation.iter().flat_map(|message| Chat.fragments(message)).collect();
    let body = Chat.frame(&spec()).body(&fragments);
    let whole: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert_eq!(whole["messages"].as_array().map(Vec::len), Some(5));
    assert_snapshot!(String::from_utf8_lossy(&body).replace(",{\"", ",\n{\""), @r#"
    {"max_completion_tokens":64,"model":"gpt-4o","seed":7,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"tools":[{"function":{"description":"Adds.","name":"add","parameters":{"type":"object"}},"type":"function"}],"messages":[{"content":"Be brief.","role":"system"},
    {"content":"1+2 \"and\" 3+4?","role":"user"},
    {"content":"Adding.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"x\": 1","name":"add"},"id":"a","type":"function"},
    {"function":{"arguments":"{}","name":"add"},"id":"b","type":"function"}]},
    {"content":"3","role":"tool","tool_call_id":"a"},
    {"content":"","role":"tool","tool_call_id":"b"}]}
    "#);
}

#[test]
fn the_frame_is_json_around_no_message_at_all_and_names_no_stream_where_none_is_wanted() {
    let mut plain = spec();
    plain.stream = false;
    plain.extra.insert("max_tokens".to_owned(), json!(9));
    let body: Value = serde_json::from_slice(&Chat.frame(&plain).body(&[] as &[&str])).expect("json");
    assert_eq!(body["messages"], json!([]));
    assert!(body.get("stream").is_none() && body.get("stream_options").is_none());
    assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&json!(9), None));
}

#[test]
fn an_assistant_message_without_words_and_calls_is_no_fragment() {
    let silent = Message { role: Role::Assistant, parts: vec![] };
    assert_eq!(Chat.fragments(&silent), Vec::<String>::new());
}

#[test]
fn reasoning_goes_back_beside_tool_calls_only() {
    let thought = Part::Reasoning { text: "hm".to_owned(), raw: Some(json!({"reasoning_content": "hm"})) };
    let with_call = Message { role: Role::Assistant, parts: vec![thought.clone(), call("a", "add", "{}")] };
    let without = Message { role: Role::Assistant, parts: vec![thought, text("3")] };
    assert!(Chat.fragments(&with_call)[0].contains(r#""reasoning_content":"hm""#));
    assert!(!Chat.fragments(&without)[0].contains("reasoning"));
}

#[test]
fn blocks_of_another_wire_are_not_sent() {
    let foreign = Message {
        role: Role::Assistant,
        parts: vec![
            Part::Opaque { wire: "messages".to_owned(), raw: json!({"type": "server_tool_use"}) },
            Part::Reasoning { text: "x".to_owned(), raw: Some(json!({"type": "thinking", "thinking": "x"})) },
            text("hi"),
        ],
    };
    assert_eq!(Chat.fragments(&foreign), [r#"{"content":"hi","role":"assistant"}"#]);
}

#[test]
fn a_whole_answer_gives_its_words_calls_and_tokens() {
    let body = json!({
        "id": "c1", "model": "gpt-4o-2024", "brand_new_member": [1],
        "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": null, "message": {
            "role": "assistant", "content": "Let me see", "refusal": null,
            "tool_calls": [
                {"id": "a\u{0}\"ü", "type": "function", "function": {"name": "add", "arguments": "{\"x\":  1}"}},
                {"id": "b", "type": "function", "function": {"name": "now", "arguments": ""}},
                {"id": "c", "type": "function", "function": {"name": "obj", "arguments": {"k": 1}}},
            ]}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}},
    });
    let response = Chat.decode(body.to_string().as_bytes()).expect("decodes");
    assert_eq!(
        response.parts,
        [
            text("Let me see"),
            call("a\u{0}\"ü", "add", "{\"x\":  1}"),
            call("b", "now", "{}"),
            call("c", "obj", "{\"k\":1}")
        ]
    );
    assert_eq!((&response.finish, response.finish_raw.as_deref()), (&Finish::ToolUse, Some("tool_calls")));
    let usage = Usage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cache_read_tokens: Some(4),
        cache_write_tokens: None,
        reasoning_tokens: Some(2),
    };
    assert_eq!(response.usage, usage);
}

#[test]
fn every_finish_reason_has_its_word() {
    let table = [
        (Some("stop"), false, Finish::EndTurn),
        (Some("stop"), true, Finish::Refusal),
        (Some("tool_calls"), false, Finish::ToolUse),
        (Some("function_call"), false, Finish::ToolUse),
        (Some("length"), false, Finish::Length),
        (Some("content_filter"), false, Finish::Refusal),
        (Some("model_length"), false, Finish::ContextFull),
        (
            Some("insufficient_system_resource"),
            false,
            Finish::Other("insufficient_system_resource".to_owned()),
        ),
        (None, false, Finish::Other(String::new())),
    ];
    for (word, refused, expected) in table {
        assert_eq!(finish(word, refused), expected, "{word:?}");
    }
}

#[test]
fn pieces_of_calls_are_joined_by_index_however_they_interleave() {
    let response = streamed(&[
        &delta(r#"{"role":"assistant","content":null}"#),
        &delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":""}}]}"#),
        &delta(r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"sub","arguments":"{\"y\""}}]}"#),
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}"#),
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":null}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        "[DONE]",
    ])
    .expect("decodes");
    assert_eq!(response.parts, [call("a", "add", "{\"x\":1}"), call("b", "sub", "{\"y\":2}")]);
    assert_eq!(response.usage.total(), Some(7));
}

#[test]
fn servers_that_number_every_call_zero_or_none_at_all_are_understood() {
    let zero = [
        delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}]}"#),
        delta(r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"add","arguments":"{}"}}]}"#),
    ];
    let none = [
        delta(r#"{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{"}}]}"#),
        delta(r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#),
        delta(r#"{"tool_calls":[{"id":"b","function":{"name":"add","arguments":{}}}]}"#),
    ];
    for pieces in [&zero[..], &none[..]] {
        let mut lines: Vec<&str> = pieces.iter().map(String::as_str).collect();
        lines.push(END);
        let response = streamed(&lines).expect("decodes");
        assert_eq!(response.parts, [call("a", "add", "{}"), call("b", "add", "{}")]);
    }
}

#[test]
fn a_name_repeated_with_every_piece_is_one_name() {
    let piece = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{"}}]}"#);
    let last = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"}"}}]}"#);
    assert_eq!(streamed(&[&piece, &last, END]).expect("decodes").parts, [call("a", "add", "{}")]);
}

#[test]
fn reasoning_refusals_and_lists_of_blocks_are_gathered() {
    let response = streamed(&[
        &delta(r#"{"reasoning_content":"thi"}"#),
        &delta(r#"{"reasoning_content":"nk","content":""}"#),
        &delta(r#"{"refusal":"I can"}"#),
        &delta(r#"{"refusal":"not"}"#),
        END,
    ])
    .expect("decodes");
    let thought =
        Part::Reasoning { text: "think".to_owned(), raw: Some(json!({"reasoning_content": "think"})) };
    assert_eq!(response.parts, [thought, text("I cannot")]);
    assert_eq!(response.finish, Finish::Refusal);

    let response = streamed(&[
        &delta(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}"#),
        &delta(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}"#),
        &delta(r#"{"content":"so "}"#),
        &delta(r#"{"content":"it is"}"#),
        END,
    ])
    .expect("decodes");
    let raw = json!({"type": "thinking", "thinking": [{"type": "text", "text": "ab"}]});
    assert_eq!(
        response.parts,
        [Part::Reasoning { text: "ab".to_owned(), raw: Some(raw.clone()) }, text("so it is")]
    );
    let echoed: Value = serde_json::from_str(&Chat.fragments(&response.message())[0]).expect("json");
    assert_eq!(echoed["content"], json!([raw, {"type": "text", "text": "so it is"}]));
}

#[test]
fn a_stream_that_ends_early_is_incomplete() {
    let call = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}]}"#);
    assert!(matches!(streamed(&[&call]), Err(DecodeError::Incomplete { .. })));
    assert!(matches!(streamed(&[]), Err(DecodeError::Incomplete { .. })));
    let mut cut = Chat.stream();
    cut.push(format!("data: {call}\n\ndata: {{\"choi").as_bytes()).expect("so far so good");
    assert!(matches!(cut.finish(), Err(DecodeError::Incomplete { .. })));
}

#[test]
fn a_stream_without_done_but_with_a_finish_reason_is_whole() {
    assert_eq!(streamed(&[END]).expect("decodes").finish, Finish::EndTurn);
}

#[test]
fn errors_inside_an_answer_are_the_providers() {
    let error = r#"{"error":{"message":"overloaded","code":503}}"#;
    let class = |result: Result<Response, DecodeError>| match result {
        Err(DecodeError::Provider(fault)) => fault.class,
        other => panic!("{other:?}"),
    };
    assert_eq!(class(streamed(&[error])), FaultClass::Transient);
    assert_eq!(class(Chat.decode(error.as_bytes())), FaultClass::Transient);
}

#[test]
fn what_is_no_answer_says_why() {
    for body in ["", "<html>", "{}", "[]", r#"{"choices":[]}"#, r#"{"choices":[{"message":null}]}"#] {
        assert!(matches!(Chat.decode(body.as_bytes()), Err(DecodeError::Malformed { .. })), "{body}");
    }
    assert!(matches!(streamed(&["{nonsense"]), Err(DecodeError::Malformed { .. })));
}

prop_compose! {
    fn any_response()(
        thought in proptest::option::of("\\PC{1,20}"),
        said in proptest::option::of("(?s).{1,60}"),
        calls in proptest::collection::vec(("[a-z0-9_]{1,12}", "[a-z_]{1,12}", "\\PC{0,30}"), 0..4),
        (finish_raw, reasoning) in prop_oneof![Just(("stop", None)), Just(("length", Some(3))), Just(("tool_calls", Some(0)))],
        usage in proptest::option::of((0_u64..9999, 0_u64..9999, proptest::option::of(0_u64..99))),
    ) -> Response {
        let mut parts = Vec::new();
        parts.extend(thought.map(|thought| Part::Reasoning {
            raw: Some(json!({"reasoning_content": thought})), text: thought,
        }));
        parts.extend(said.as_deref().map(text));
        // Ids may repeat between turns, not within one.
        parts.extend(calls.iter().enumerate().map(|(index, (id, name, value))| {
            call(&format!("{id}{index}"), name, &json!({"v": value}).to_string())
        }));
        Response {
            response_id: Some("r".to_owned()),
            response_model: Some("m".to_owned()),
            parts,
            finish: finish(Some(finish_raw), false),
            finish_raw: Some(finish_raw.to_owned()),
            usage: usage.map(|(input, output, cached)| Usage {
                input_tokens: Some(input), output_tokens: Some(output), cache_read_tokens: cached,
                cache_write_tokens: None, reasoning_tokens: reasoning,
            }).unwrap_or_default(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_spoken_is_decoded_to_the_same_response(response in any_response(), size in 1_usize..40) {
        let body = speak::body(&response).to_string();
        prop_assert_eq!(&Chat.decode(body.as_bytes()).expect("whole"), &response);
        let bytes = speak::events(&response).concat().into_bytes();
        let mut decoder = Chat.stream();
        for piece in bytes.chunks(size) {
            decoder.push(piece).expect("piece");
        }
        prop_assert_eq!(decoder.finish().expect("streamed"), response);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Chat.decode(&bytes);
        let mut decoder = Chat.stream();
        let _ = decoder.push(&bytes);
        let _ = decoder.finish();
    }

    #[test]
    fn every_message_is_valid_json_on_its_own(words in "(?s).{0,40}", id in "(?s).{0,10}", arguments in "(?s).{0,40}") {
        let messages = [
            Message::text(Role::System, &words),
            Message::text(Role::User, &words),
            Message { role: Role::Assistant, parts: vec![text(&words), call(&id, "add", &arguments)] },
            Message { role: Role::Tool, parts: vec![result(&id, &words)] },
        ];
        let fragments: Vec<String> = messages.iter().flat_map(|message| Chat.fragments(message)).collect();
        let body: Value = serde_json::from_slice(&Chat.frame(&spec()).body(&fragments)).expect("json");
        prop_assert_eq!(&body["messages"][2]["tool_calls"][0]["function"]["arguments"], &json!(arguments));
        prop_assert_eq!(&body["messages"][3]["tool_call_id"], &json!(id));
    }
}
