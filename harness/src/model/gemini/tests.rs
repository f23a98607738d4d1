//! The wire of Gemini, as requests go out and answers come in.

use super::*;
use crate::model::{Delta, ToolOffer};
use insta::assert_snapshot;
use proptest::prelude::*;
use trace::message::{Part, Role, ToolCall, ToolResult};
use trace::outcome::FaultClass;

fn spec() -> CallSpec {
    CallSpec {
        model: "gemini-3".to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![ToolOffer {
            name: "add".to_owned(),
            description: "Adds.".to_owned(),
            input_schema: json!({"type": "object"}),
        }],
        max_output_tokens: Some(64),
        stream: true,
        extra: Map::from_iter([("generationConfig".to_owned(), json!({"topK": 7}))]),
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

fn result(call_id: &str, content: &str, is_error: bool) -> Part {
    let (call_id, tool_name, content) = (call_id.to_owned(), "add".to_owned(), content.to_owned());
    Part::ToolResult(ToolResult { call_id, tool_name, content, is_error })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn opaque(raw: Value) -> Part {
    Part::Opaque { wire: NAME.to_owned(), raw }
}

fn signature(signature: &str) -> Part {
    opaque(json!({"thoughtSignature": signature}))
}

#[expect(clippy::needless_pass_by_value, reason = "the callers read as the JSON they build")]
fn piece(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

#[expect(clippy::needless_pass_by_value, reason = "the callers read as the JSON they build")]
fn last(parts: Value, word: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": word}]})
}

fn streamed(pieces: &[Value]) -> Result<Response, DecodeError> {
    let mut decoder = Gemini.stream();
    for piece in pieces {
        decoder.push(format!("data: {piece}\r\n\r\n").as_bytes())?;
    }
    decoder.finish()
}

fn echoed(response: &Response) -> Value {
    let fragments = Gemini.fragments(&response.message());
    serde_json::from_str::<Value>(&fragments[0]).expect("JSON")["parts"].clone()
}

#[test]
fn a_request_is_the_frame_around_its_contents_and_results_of_a_turn_are_one_content() {
    let conversation = [
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "1+2 and 3+4?"),
        Message {
            role: Role::Assistant,
            parts: vec![
                text("Adding."),
                signature("s1"),
                call(&minted_id(0), "add", "{\"x\":  1}"),
                call("given", "add", "{\"x\": 3"),
            ],
        },
        Message {
            role: Role::Tool,
            parts: vec![result(&minted_id(0), "3", false), result("given", "cut off", true)],
        },
    ];
    let fragments: Vec<String> = conversation.iter().flat_map(|message| Gemini.fragments(message)).collect();
    assert_eq!(fragments.len(), 3);
    let body = Gemini.frame(&spec()).body(&fragments);
    let _: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert_snapshot!(String::from_utf8_lossy(&body).replace(",{\"", ",\n{\""), @r#"
    {"generationConfig":{"maxOutputTokens":64,"topK":7},"systemInstruction":{"parts":[{"text":"Be brief."}]},"tools":[{"functionDeclarations":[{"description":"Adds.","name":"add","parametersJsonSchema":{"type":"object"}}]}],"contents":[{"role":"user","parts":[{"text":"1+2 and 3+4?"}]},
    {"role":"model","parts":[{"text":"Adding."},
    {"functionCall":{"name":"add","args":{"x":  1}},"thoughtSignature":"s1"},
    {"functionCall":{"id":"given","name":"add","args":{"invalid_arguments":"{\"x\": 3"}}}]},
    {"role":"user","parts":[{"functionResponse":{"name":"add","response":{"output":"3"}}},
    {"functionResponse":{"id":"given","name":"add","response":{"error":"cut off"}}}]}]}
    "#);
}

#[test]
fn model_and_streaming_are_told_by_the_endpoint() {
    assert_eq!(Gemini.endpoint("gemini-3", true), "/models/gemini-3:streamGenerateContent?alt=sse");
    assert_eq!(Gemini.endpoint("gemini-3", false), "/models/gemini-3:generateContent");
    assert_eq!(Gemini.endpoint("tunedModels/mine", false), "/tunedModels/mine:generateContent");
    let mut whole = spec();
    whole.stream = false;
    assert_eq!(Gemini.frame(&spec()), Gemini.frame(&whole));
    let headers = Gemini.headers(Some(&SecretString::from("k")));
    assert!(headers.contains(&("x-goog-api-key".to_owned(), "k".to_owned())));
}

#[test]
fn calls_without_an_id_get_one_from_their_place_and_it_is_not_sent() {
    let calls = json!([
        {"functionCall": {"name": "add", "args": {"x":  1.50}}},
        {"functionCall": {"name": "add", "args": {}, "id": "given"}},
        {"functionCall": {"name": "now"}},
    ]);
    let response = streamed(&[last(calls.clone(), "STOP")]).expect("decodes");
    let expected =
        [call("place-0", "add", "{\"x\":1.5}"), call("given", "add", "{}"), call("place-2", "now", "{}")];
    assert_eq!((response.parts.as_slice(), &response.finish), (expected.as_slice(), &Finish::ToolUse));
    let mut whole = calls;
    whole[2]["functionCall"]["args"] = json!({});
    assert_eq!(echoed(&response), whole);
    assert_eq!((given_id("place-7"), given_id("place-x"), given_id("")), (None, Some("place-x"), None));
}

#[test]
fn arguments_keep_their_bytes() {
    let body = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"b": 1.0,  "a":12345678901234567890123}}}]},"finishReason":"STOP"}]}"#;
    let response = Gemini.decode(body.as_bytes()).expect("decodes");
    let arguments = r#"{"b": 1.0,  "a":12345678901234567890123}"#;
    assert_eq!(response.parts, [call("place-0", "f", arguments)]);
    assert!(Gemini.fragments(&response.message())[0].contains(arguments));
}

#[test]
fn signatures_go_back_beside_the_part_they_came_with() {
    let parts = json!([
        {"text": "thinking", "thought": true},
        {"text": "So", "thoughtSignature": "s1"},
        {"text": "and so"},
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s2"},
        {"functionCall": {"name": "g", "args": {}}},
        {"executableCode": {"code": "1"}, "thoughtSignature": "s3"},
        {"text": "", "thoughtSignature": "s4"},
        {"text": "end"},
        {"thoughtSignature": "s5"},
    ]);
    let response = Gemini.decode(last(parts.clone(), "STOP").to_string().as_bytes()).expect("decodes");
    assert_eq!(echoed(&response), parts);
    assert_eq!(response.message().joined_text(), "Soand soend");
    assert_eq!(streamed(&[last(parts, "STOP")]).expect("decodes"), response);
}

#[test]
fn pieces_of_text_and_of_thought_are_joined_unless_one_is_signed() {
    let thought = |text: &str| json!({"text": text, "thought": true});
    let response = streamed(&[
        piece(json!([thought("a")])),
        piece(json!([thought("b"), {"text": "so "}])),
        piece(json!([{"text": "it"}, {"text": " is", "thoughtSignature": "s"}])),
        last(json!([{"text": "."}]), "STOP"),
    ])
    .expect("decodes");
    let thought = Part::Reasoning { text: "ab".to_owned(), raw: Some(thought("ab")) };
    assert_eq!(response.parts, [thought, text("so it"), signature("s"), text(" is"), text(".")]);
}

#[test]
fn images_of_a_person_stand_beside_the_text_as_they_were_given() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let said = Message { role: Role::User, parts: vec![text("What is it?"), opaque(image.clone())] };
    let content: Value = serde_json::from_str(&Gemini.fragments(&said)[0]).expect("JSON");
    assert_eq!(content, json!({"role": "user", "parts": [{"text": "What is it?"}, image]}));
}

#[test]
fn watchers_see_text_thoughts_and_calls_as_they_come() {
    let mut decoder = Gemini.stream();
    let parts = json!([{"text": "hm", "thought": true}, {"text": "so"}, {"functionCall": {"name": "f"}}]);
    let seen = decoder.push(format!("data: {}\n\n", piece(parts)).as_bytes()).expect("reads");
    let call = Delta::ToolCall { name: "f".to_owned() };
    assert_eq!(seen, [Delta::Reasoning("hm".to_owned()), Delta::Text("so".to_owned()), call]);
}

#[test]
fn every_finish_reason_has_its_word() {
    let table = [
        ("STOP", false, Finish::EndTurn),
        ("1", false, Finish::EndTurn),
        ("STOP", true, Finish::ToolUse),
        ("MAX_TOKENS", true, Finish::Length),
        ("SAFETY", false, Finish::Refusal),
        ("RECITATION", false, Finish::Refusal),
        ("PROHIBITED_CONTENT", false, Finish::Refusal),
        ("MODEL_ARMOR", false, Finish::Refusal),
        ("MALFORMED_FUNCTION_CALL", false, Finish::Other("MALFORMED_FUNCTION_CALL".to_owned())),
    ];
    for (word, has_calls, expected) in table {
        assert_eq!(finish(Some(word), has_calls), expected, "{word}");
    }
    let blocked = json!({"promptFeedback": {"blockReason": "OTHER"}}).to_string();
    let response = Gemini.decode(blocked.as_bytes()).expect("decodes");
    assert_eq!((response.finish, response.finish_raw.as_deref()), (Finish::Refusal, Some("OTHER")));
}

#[test]
fn thoughts_and_the_reading_of_hosted_tools_are_counted() {
    let table = [
        (
            json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 7, "totalTokenCount": 22}),
            (Some(10), Some(12), Some(7)),
        ),
        (
            json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 5}),
            (Some(13), Some(5), None),
        ),
        (
            json!({"promptTokenCount": 10, "thoughtsTokenCount": 7, "totalTokenCount": 17}),
            (Some(10), Some(7), Some(7)),
        ),
        (json!({"promptTokenCount": 10}), (Some(10), None, None)),
        (json!(null), (None, None, None)),
    ];
    for (told, expected) in table {
        let counted = usage(&told);
        assert_eq!(
            (counted.input_tokens, counted.output_tokens, counted.reasoning_tokens),
            expected,
            "{told}"
        );
    }
}

#[test]
fn a_stream_without_a_finish_reason_is_incomplete_and_nothing_of_it_is_run() {
    let call = piece(json!([{"functionCall": {"name": "f", "args": {}}}]));
    assert!(matches!(streamed(&[call]), Err(DecodeError::Incomplete { .. })));
    assert!(matches!(streamed(&[]), Err(DecodeError::Incomplete { .. })));
}

#[test]
fn errors_inside_an_answer_are_the_providers() {
    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    for result in [streamed(std::slice::from_ref(&error)), Gemini.decode(error.to_string().as_bytes())] {
        let Err(DecodeError::Provider(fault)) = result else { panic!("{result:?}") };
        assert_eq!(fault.class, FaultClass::Transient);
        assert!(fault.message.contains("overloaded"), "{}", fault.message);
    }
}

#[test]
fn what_is_no_answer_says_why() {
    for body in ["", "<html>", "{}", "[]", r#"{"candidates":[]}"#, r#"{"candidates":"x"}"#] {
        assert!(matches!(Gemini.decode(body.as_bytes()), Err(DecodeError::Malformed { .. })), "{body}");
    }
}

prop_compose! {
    fn any_response()(
        thought in proptest::option::of("\\PC{1,20}"),
        said in proptest::collection::vec("(?s).{1,60}", 0..3),
        calls in proptest::collection::vec((proptest::option::of("[a-z0-9_]{1,12}"), "[a-z_]{1,12}", "\\PC{0,30}"), 0..4),
        word in prop_oneof![Just("STOP"), Just("MAX_TOKENS"), Just("SAFETY"), Just("novel")],
        usage in proptest::option::of((0_u64..9999, 0_u64..9999, proptest::option::of(0_u64..99))),
    ) -> Response {
        let mut parts = Vec::new();
        parts.extend(thought.map(|thought| Part::Reasoning {
            raw: Some(json!({"text": thought, "thought": true})), text: thought,
        }));
        // Neighbouring texts are one; a signature parts them.
        for said in &said {
            parts.extend([signature("s"), text(said)]);
        }
        parts.push(opaque(json!({"novel": [1, "y"]})));
        parts.extend(calls.iter().enumerate().map(|(at, (id, name, value))| {
            call(&id.clone().unwrap_or_else(|| minted_id(at)), name, &json!({"v": value}).to_string())
        }));
        Response {
            response_id: Some("r".to_owned()),
            response_model: Some("m".to_owned()),
            finish: finish(Some(word), !calls.is_empty()),
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
        prop_assert_eq!(&Gemini.decode(body.as_bytes()).expect("whole"), &response);
        let bytes = speak::events(&response).concat().into_bytes();
        let mut decoder = Gemini.stream();
        for piece in bytes.chunks(size) {
            decoder.push(piece).expect("piece");
        }
        prop_assert_eq!(decoder.finish().expect("streamed"), response);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Gemini.decode(&bytes);
        let mut decoder = Gemini.stream();
        let _ = decoder.push(&bytes);
        let _ = decoder.finish();
    }

    #[test]
    fn every_content_is_valid_json_on_its_own(words in "(?s).{1,40}", id in "[^p](?s).{0,10}", arguments in "(?s).{0,40}") {
        let messages = [
            Message::text(Role::User, &words),
            Message { role: Role::Assistant, parts: vec![text(&words), call(&id, "add", &arguments)] },
            Message { role: Role::Tool, parts: vec![result(&id, &words, true)] },
        ];
        let fragments: Vec<String> = messages.iter().flat_map(|message| Gemini.fragments(message)).collect();
        let body: Value = serde_json::from_slice(&Gemini.frame(&spec()).body(&fragments)).expect("json");
        let called = &body["contents"][1]["parts"][1]["functionCall"];
        let answer = &body["contents"][2]["parts"][0]["functionResponse"];
        prop_assert!(called["args"].is_object());
        prop_assert_eq!((&called["id"], &answer["id"]), (&json!(id), &json!(id)));
        prop_assert_eq!(&answer["response"]["error"], &json!(words));
    }
}
