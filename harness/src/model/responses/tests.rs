//! The wire of OpenAI Responses, as requests go out and answers come in.

use super::*;
use crate::model::{Delta, ToolOffer};
use insta::assert_snapshot;
use proptest::prelude::*;
use trace::message::{Part, Role, ToolCall, ToolResult};
use trace::outcome::FaultClass;

fn spec() -> CallSpec {
    CallSpec {
        model: "gpt-5".to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![ToolOffer {
            name: "add".to_owned(),
            description: "Adds.".to_owned(),
            input_schema: json!({"type": "object"}),
        }],
        max_output_tokens: Some(64),
        stream: true,
        ..CallSpec::default()
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
    let (call_id, tool_name, content) = (call_id.to_owned(), "add".to_owned(), content.to_owned());
    Part::ToolResult(ToolResult { call_id, tool_name, content, is_error: false })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn opaque(raw: Value) -> Part {
    Part::Opaque { wire: NAME.to_owned(), raw }
}

fn streamed(events: &[Value]) -> Result<Response, DecodeError> {
    let mut decoder = Responses.stream();
    for event in events {
        decoder.push(format!("data: {event}\n\n").as_bytes())?;
    }
    decoder.finish()
}

fn encrypted() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x="})
}

#[test]
fn a_request_is_the_frame_around_its_items() {
    let thought = Part::Reasoning { text: "hm".to_owned(), raw: Some(encrypted()) };
    let conversation = [
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "1+2 \"and\" 3+4?"),
        Message {
            role: Role::Assistant,
            parts: vec![
                thought,
                text("Add"),
                text("ing."),
                call("a", "add", "{\"x\": 1"),
                call("b", "add", "{}"),
            ],
        },
        Message { role: Role::Tool, parts: vec![result("a", "3"), result("b", "")] },
    ];
    let fragments: Vec<String> =
        conversation.iter().flat_map(|message| Responses.fragments(message)).collect();
    let body = Responses.frame(&spec()).body(&fragments);
    let whole: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert_eq!(whole["input"].as_array().map(Vec::len), Some(7));
    assert_snapshot!(String::from_utf8_lossy(&body).replace(",{\"", ",\n{\""), @r#"
    {"instructions":"Be brief.","max_output_tokens":64,"model":"gpt-5","store":false,"stream":true,"tools":[{"description":"Adds.","name":"add","parameters":{"type":"object"},"strict":false,"type":"function"}],"input":[{"content":"1+2 \"and\" 3+4?","role":"user"},
    {"encrypted_content":"x=","id":"rs_1","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"},
    {"content":"Adding.","role":"assistant"},
    {"arguments":"{\"x\": 1","call_id":"a","name":"add","type":"function_call"},
    {"arguments":"{}","call_id":"b","name":"add","type":"function_call"},
    {"call_id":"a","output":"3","type":"function_call_output"},
    {"call_id":"b","output":"","type":"function_call_output"}]}
    "#);
}

#[test]
fn images_of_a_person_stand_beside_the_text_as_they_were_given() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="});
    let said = Message { role: Role::User, parts: vec![text("What is it?"), opaque(image.clone())] };
    let item: Value = serde_json::from_str(&Responses.fragments(&said)[0]).expect("JSON");
    assert_eq!(item["content"], json!([{"type": "input_text", "text": "What is it?"}, image]));
}

#[test]
fn reasoning_is_asked_for_encrypted_where_the_configuration_speaks_of_reasoning() {
    let body = |spec: &CallSpec| -> Value {
        serde_json::from_slice(&Responses.frame(spec).body(&[] as &[&str])).expect("JSON")
    };
    let mut reasoning = spec();
    reasoning.extra.insert("reasoning".to_owned(), json!({"effort": "low"}));
    assert_eq!(body(&reasoning)["include"], json!(["reasoning.encrypted_content"]));
    assert!(body(&spec()).get("include").is_none());
    reasoning.extra.insert("include".to_owned(), json!([]));
    assert_eq!(body(&reasoning)["include"], json!([]));
}

#[test]
fn reasoning_that_is_not_encrypted_and_parts_of_other_wires_are_not_sent() {
    let mut open = encrypted();
    open.as_object_mut().expect("an object").remove("encrypted_content");
    let foreign = Message {
        role: Role::Assistant,
        parts: vec![
            Part::Reasoning { text: "hm".to_owned(), raw: Some(open) },
            Part::Reasoning { text: "x".to_owned(), raw: Some(json!({"type": "thinking", "thinking": "x"})) },
            Part::Opaque { wire: "messages".to_owned(), raw: json!({"type": "server_tool_use"}) },
            text("hi"),
        ],
    };
    assert_eq!(Responses.fragments(&foreign), [r#"{"content":"hi","role":"assistant"}"#]);
}

#[test]
fn a_whole_answer_gives_its_words_calls_tokens_and_unknown_items_in_order() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let body = json!({
        "id": "resp_1", "model": "gpt-5-2026", "status": "completed", "error": null, "incomplete_details": null,
        "output": [
            encrypted(), search,
            {"type": "message", "content": [
                {"type": "output_text", "text": "Let me see", "annotations": []}, {"type": "output_text", "text": ""},
                {"type": "novel", "x": 1}]},
            {"type": "function_call", "id": "fc_1", "call_id": "a\u{0}ü", "name": "add", "arguments": "{\"x\":  1}"},
            {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "now", "arguments": ""},
        ],
        "usage": {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2}},
    });
    let response = Responses.decode(body.to_string().as_bytes()).expect("decodes");
    let novel = json!({"type": "message", "role": "assistant", "content": [{"type": "novel", "x": 1}]});
    assert_eq!(
        response.parts,
        [
            Part::Reasoning { text: "hm".to_owned(), raw: Some(encrypted()) },
            opaque(search),
            text("Let me see"),
            opaque(novel),
            call("a\u{0}ü", "add", "{\"x\":  1}"),
            call("b", "now", "{}"),
        ]
    );
    assert_eq!((&response.finish, response.finish_raw.as_deref()), (&Finish::ToolUse, Some("completed")));
    let counted = Usage {
        input_tokens: Some(10),
        output_tokens: Some(5),
        cache_read_tokens: Some(4),
        cache_write_tokens: None,
        reasoning_tokens: Some(2),
    };
    assert_eq!(response.usage, counted);
}

#[test]
fn every_status_and_reason_has_its_word() {
    let table = [
        (Some("completed"), false, false, Finish::EndTurn),
        (Some("complete"), false, false, Finish::EndTurn),
        (Some("completed"), true, false, Finish::ToolUse),
        (Some("completed"), false, true, Finish::Refusal),
        (Some("max_output_tokens"), true, false, Finish::Length),
        (Some("content_filter"), false, false, Finish::Refusal),
        (Some("queued"), false, false, Finish::Other("queued".to_owned())),
        (None, false, false, Finish::Other(String::new())),
    ];
    for (word, has_calls, refused, expected) in table {
        assert_eq!(finish(word, has_calls, refused), expected, "{word:?}");
    }
}

#[test]
fn items_are_taken_from_their_events_where_the_last_one_leaves_them_out() {
    let item = json!({"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"});
    let said = json!({"type": "message", "content": [{"type": "output_text", "text": "so"}]});
    let response = streamed(&[
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": said}),
        json!({"type": "response.a_novelty", "x": 1}),
        json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}),
    ])
    .expect("decodes");
    assert_eq!(response.parts, [text("so"), call("a", "add", "{}")]);
    assert_eq!(response.finish, Finish::ToolUse);
}

#[test]
fn watchers_see_text_thoughts_and_calls_as_they_come() {
    let mut decoder = Responses.stream();
    let mut seen = Vec::new();
    for event in [
        json!({"type": "response.reasoning_summary_text.delta", "delta": "hm"}),
        json!({"type": "response.output_text.delta", "delta": "so"}),
        json!({"type": "response.output_item.added", "item": {"type": "function_call", "name": "add"}}),
    ] {
        seen.extend(decoder.push(format!("data: {event}\n\n").as_bytes()).expect("reads"));
    }
    let call = Delta::ToolCall { name: "add".to_owned() };
    assert_eq!(seen, [Delta::Reasoning("hm".to_owned()), Delta::Text("so".to_owned()), call]);
}

#[test]
fn a_stream_without_its_last_event_is_incomplete_and_nothing_of_it_is_run() {
    let item = json!({"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    assert!(matches!(streamed(&[done]), Err(DecodeError::Incomplete { .. })));
    assert!(matches!(streamed(&[]), Err(DecodeError::Incomplete { .. })));
}

#[test]
fn failed_answers_and_error_events_are_the_providers() {
    let failed =
        json!({"status": "failed", "error": {"code": "server_error", "message": "hiccup"}, "output": []});
    let table = [
        (streamed(&[json!({"type": "response.failed", "response": failed})]), FaultClass::Transient),
        (Responses.decode(failed.to_string().as_bytes()), FaultClass::Transient),
        (
            streamed(&[json!({"type": "error", "code": "context_length_exceeded", "message": "hiccup"})]),
            FaultClass::Overflow,
        ),
        (streamed(&[json!({"error": {"code": 401, "message": "hiccup"}})]), FaultClass::Auth),
    ];
    for (result, class) in table {
        let Err(DecodeError::Provider(fault)) = result else { panic!("{result:?}") };
        assert_eq!(fault.class, class);
        assert!(fault.message.contains("hiccup"), "{}", fault.message);
    }
}

#[test]
fn what_is_no_answer_says_why() {
    for body in ["", "<html>", "{}", "[]", r#"{"output":"text"}"#] {
        assert!(matches!(Responses.decode(body.as_bytes()), Err(DecodeError::Malformed { .. })), "{body}");
    }
    let hollow = json!({"type": "response.completed"});
    assert!(matches!(streamed(&[hollow]), Err(DecodeError::Malformed { .. })));
}

prop_compose! {
    fn any_response()(
        thought in any::<bool>(),
        said in proptest::collection::vec("(?s).{1,60}", 0..3),
        calls in proptest::collection::vec(("[a-z0-9_]{1,12}", "[a-z_]{1,12}", "\\PC{0,30}"), 0..4),
        word in prop_oneof![Just("completed"), Just("max_output_tokens"), Just("content_filter"), Just("novel")],
        usage in proptest::option::of((0_u64..9999, 0_u64..9999, proptest::option::of(0_u64..99))),
    ) -> Response {
        let mut parts = Vec::new();
        if thought {
            parts.push(Part::Reasoning { text: "hm".to_owned(), raw: Some(encrypted()) });
        }
        parts.extend(said.iter().map(|said| text(said)));
        parts.push(opaque(json!({"type": "novel", "x": [1, "y"]})));
        parts.extend(calls.iter().map(|(id, name, value)| call(id, name, &json!({"v": value}).to_string())));
        Response {
            response_id: Some("r".to_owned()),
            response_model: Some("m".to_owned()),
            finish: finish(Some(word), !calls.is_empty(), false),
            parts,
            finish_raw: Some(word.to_owned()),
            usage: usage.map(|(input, output, cached)| Usage {
                input_tokens: Some(input), output_tokens: Some(output), cache_read_tokens: cached,
                ..Usage::default()
            }).unwrap_or_default(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_spoken_is_decoded_to_the_same_response(response in any_response(), size in 1_usize..40) {
        let body = speak::body(&response).to_string();
        prop_assert_eq!(&Responses.decode(body.as_bytes()).expect("whole"), &response);
        let bytes = speak::events(&response).concat().into_bytes();
        let mut decoder = Responses.stream();
        for piece in bytes.chunks(size) {
            decoder.push(piece).expect("piece");
        }
        prop_assert_eq!(decoder.finish().expect("streamed"), response);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Responses.decode(&bytes);
        let mut decoder = Responses.stream();
        let _ = decoder.push(&bytes);
        let _ = decoder.finish();
    }

    #[test]
    fn every_item_is_valid_json_on_its_own(words in "(?s).{1,40}", id in "(?s).{0,10}", arguments in "(?s).{0,40}") {
        let messages = [
            Message::text(Role::User, &words),
            Message { role: Role::Assistant, parts: vec![text(&words), call(&id, "add", &arguments)] },
            Message { role: Role::Tool, parts: vec![result(&id, &words)] },
        ];
        let fragments: Vec<String> = messages.iter().flat_map(|message| Responses.fragments(message)).collect();
        let body: Value = serde_json::from_slice(&Responses.frame(&spec()).body(&fragments)).expect("json");
        prop_assert_eq!(&body["input"][1]["content"], &json!(words));
        prop_assert_eq!(&body["input"][2]["arguments"], &json!(arguments));
        prop_assert_eq!((&body["input"][2]["call_id"], &body["input"][3]["call_id"]), (&json!(id), &json!(id)));
        prop_assert_eq!(&body["input"][3]["output"], &json!(words));
    }
}
