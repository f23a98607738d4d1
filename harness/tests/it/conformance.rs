//! One suite over all wires: what the loop relies on, it can rely on whatever the provider.
//!
//! Place in the flow: answers are spoken by each wire's server side, decoded, and sent back as the next request's
//! fragments; one test runs the whole loop against the provider on loopback, which checks every request.

use harness::agent::{Agent, Studio, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use harness::model::scripted::speak;
use harness::model::{CallSpec, DecodeError, NAMES, ToolOffer, wire};
use loopback::{Loopback, Play, RequestSeen};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trace::message::{Finish, Part, Response, ToolCall, Usage, joined_text, tool_calls};
use trace::outcome::{FaultClass, RunStatus};
use trace::redact::Redactor;

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn call(call_id: &str, tool_name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.to_owned(),
        tool_name: tool_name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn answer(parts: Vec<Part>) -> Response {
    let finish = match tool_calls(&parts).next() {
        Some(_) => Finish::ToolUse,
        None => Finish::EndTurn,
    };
    Response {
        response_id: None,
        response_model: None,
        parts,
        finish,
        finish_raw: None,
        usage: Usage::default(),
    }
}

/// The bytes of an answer.
fn spoken(name: &str, response: &Response, stream: bool) -> Vec<u8> {
    speak(name, response, stream).expect("every wire is spoken").pieces.concat().into_bytes()
}

fn read(name: &str, stream: bool, body: &[u8]) -> Result<Response, DecodeError> {
    let wire = wire(name).expect("known");
    if !stream {
        return wire.decode(body);
    }
    let mut decoder = wire.stream();
    decoder.push(body)?;
    decoder.finish()
}

/// An answer after it went over the wire, whole and streamed; both must be the same.
fn over(name: &str, response: &Response) -> Response {
    let whole = read(name, false, &spoken(name, response, false)).expect("decodes");
    assert_eq!(read(name, true, &spoken(name, response, true)).expect("decodes"), whole, "{name}");
    whole
}

/// What goes back to the provider of an answer.
fn echo(name: &str, response: &Response) -> Vec<Value> {
    let fragments = wire(name).expect("known").fragments(&response.message());
    fragments.iter().map(|fragment| serde_json::from_str(fragment).expect("JSON")).collect()
}

/// Whether a value stands anywhere inside others.
fn holds(inside: &[Value], wanted: &Value) -> bool {
    inside.iter().any(|value| {
        value == wanted
            || match value {
                Value::Array(list) => holds(list, wanted),
                Value::Object(members) => holds(&members.values().cloned().collect::<Vec<_>>(), wanted),
                _ => false,
            }
    })
}

fn calls(response: &Response) -> Vec<ToolCall> {
    tool_calls(&response.parts).cloned().collect()
}

#[test]
fn text_calls_and_their_order_come_through() {
    let stories = [
        vec![text("Grüße aus 東京 🚀")],
        vec![call("a", "add", "{\"x\":1}")],
        vec![call("a", "add", "{\"x\":1}"), call("b", "add", "{\"x\":2}"), call("c", "now", "{}")],
        vec![text("First "), call("a", "add", "{}"), text("and then"), call("b", "add", "{}")],
    ];
    for name in NAMES {
        for parts in &stories {
            let sent = answer(parts.clone());
            let heard = over(name, &sent);
            assert_eq!(
                (joined_text(&heard.parts), calls(&heard)),
                (joined_text(parts), calls(&sent)),
                "{name}"
            );
            assert_eq!(heard.finish, sent.finish, "{name}");
            // Chat Completions has one text before all calls; the other wires keep what stands between them.
            if name != "chat" {
                assert_eq!(&heard.parts, parts, "{name}");
            }
        }
    }
}

#[test]
fn a_call_without_arguments_has_an_empty_object() {
    let table = [
        (
            "chat",
            json!({"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [
            {"id": "a", "function": {"name": "now", "arguments": ""}}]}}]}),
        ),
        (
            "responses",
            json!({"status": "completed", "output": [
            {"type": "function_call", "call_id": "a", "name": "now", "arguments": ""}]}),
        ),
        (
            "messages",
            json!({"stop_reason": "tool_use", "content": [
            {"type": "tool_use", "id": "a", "name": "now"}]}),
        ),
        (
            "gemini",
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [
            {"functionCall": {"id": "a", "name": "now"}}]}}]}),
        ),
    ];
    for (name, body) in table {
        let heard = read(name, false, body.to_string().as_bytes()).expect("decodes");
        assert_eq!((heard.parts, heard.finish), (vec![call("a", "now", "{}")], Finish::ToolUse), "{name}");
    }
}

#[test]
fn blocks_that_nobody_here_understands_go_back_as_they_came() {
    let novel = json!({"type": "novel", "novel": [1, {"deep": "ü"}]});
    for name in NAMES {
        let opaque = Part::Opaque { wire: name.to_owned(), raw: novel.clone() };
        let heard = over(name, &answer(vec![opaque.clone(), text("so")]));
        assert_eq!(heard.parts, [opaque, text("so")], "{name}");
        assert!(holds(&echo(name, &heard), &novel), "{name}");
        for other in NAMES.into_iter().filter(|other| *other != name) {
            assert!(!holds(&echo(other, &heard), &novel), "{name} on {other}");
        }
    }
}

#[test]
fn reasoning_goes_back_to_the_wire_it_came_from_and_to_no_other() {
    let table = [
        ("chat", json!({"reasoning_content": "hm"})),
        (
            "responses",
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"}),
        ),
        ("messages", json!({"type": "thinking", "thinking": "hm", "signature": "e"})),
        ("gemini", json!({"text": "hm", "thought": true, "thoughtSignature": "e"})),
    ];
    for (name, raw) in table {
        let thought = Part::Reasoning { text: "hm".to_owned(), raw: Some(raw.clone()) };
        let heard = over(name, &answer(vec![thought.clone(), call("a", "add", "{}")]));
        assert_eq!(heard.parts, [thought, call("a", "add", "{}")], "{name}");
        for other in NAMES {
            // Chat Completions carries it as a member of the message, the others as a block or an item.
            let sent = echo(other, &heard);
            let is_back = holds(&sent, &raw) || (other == "chat" && sent[0]["reasoning_content"] == "hm");
            assert_eq!(is_back, other == name, "{name} on {other}: {sent:?}");
        }
    }
}

#[test]
fn tokens_are_counted_alike_and_unknown_ones_stay_unknown() {
    let usage = Usage {
        input_tokens: Some(100),
        output_tokens: Some(20),
        cache_read_tokens: Some(60),
        cache_write_tokens: None,
        reasoning_tokens: None,
    };
    for name in NAMES {
        let heard = over(name, &Response { usage, ..answer(vec![text("so")]) });
        assert_eq!(heard.usage, usage, "{name}");
        assert_eq!(over(name, &answer(vec![text("so")])).usage, Usage::default(), "{name}");
        if name != "messages" {
            let usage = Usage { reasoning_tokens: Some(7), ..usage };
            assert_eq!(over(name, &Response { usage, ..answer(vec![text("so")]) }).usage, usage, "{name}");
        }
    }
}

#[test]
fn every_way_to_finish_has_one_word_on_every_wire() {
    for name in NAMES {
        for finish in [Finish::EndTurn, Finish::Length, Finish::Refusal, Finish::Other("novel".to_owned())] {
            let heard = over(name, &Response { finish: finish.clone(), ..answer(vec![text("so")]) });
            assert_eq!((heard.finish, heard.finish_raw.is_some()), (finish, true), "{name}");
        }
        let cut = Response { finish: Finish::Length, ..answer(vec![call("a", "add", "{\"x\":1}")]) };
        assert_eq!(over(name, &cut).finish, Finish::Length, "{name}: a call that was cut off is no tool use");
    }
}

#[test]
fn error_statuses_mean_the_same_on_every_wire() {
    use FaultClass::{Auth, Permanent, Transient};
    for name in NAMES {
        let wire = wire(name).expect("known");
        for (status, class) in [
            (400, Permanent),
            (401, Auth),
            (403, Auth),
            (404, Permanent),
            (408, Transient),
            (429, Transient),
            (500, Transient),
            (529, Transient),
        ] {
            let body = json!({"error": {"message": "because", "type": "novel"}}).to_string();
            let headers = BTreeMap::from([("retry-after".to_owned(), "2".to_owned())]);
            let fault = wire.fault(status, &headers, body.as_bytes());
            assert_eq!((fault.class, fault.retry_after_ms), (class, Some(2000)), "{name} {status}");
            assert!(
                fault.message.contains("because") && fault.message.contains(&status.to_string()),
                "{name}"
            );
        }
    }
}

#[test]
fn a_stream_cut_at_any_byte_is_incomplete_or_the_whole_answer_and_never_half_a_call() {
    let sent = answer(vec![
        text("Adding two numbers."),
        call("a", "add", "{\"x\":1,\"y\":\"ü\"}"),
        call("b", "add", "{}"),
    ]);
    for name in NAMES {
        let body = spoken(name, &sent, true);
        let (mut incomplete, mut whole) = (0, 0);
        for end in 0..body.len() {
            match read(name, true, &body[..end]) {
                Err(DecodeError::Incomplete { .. }) => incomplete += 1,
                Ok(heard) => {
                    assert_eq!(
                        (calls(&heard), heard.finish),
                        (calls(&sent), Finish::ToolUse),
                        "{name} at {end}"
                    );
                    whole += 1;
                }
                Err(other) => panic!("{name} at {end}: {other}"),
            }
        }
        println!("{name}: {incomplete} cuts incomplete, {whole} after the last word");
        assert!(incomplete > body.len() / 2, "{name}");
    }
}

#[test]
fn a_request_is_the_same_bytes_every_time_and_one_message_changes_no_other() {
    let tools = vec![ToolOffer {
        name: "add".to_owned(),
        description: "Adds.".to_owned(),
        input_schema: json!({"type": "object"}),
    }];
    let spec = CallSpec {
        model: "m".to_owned(),
        system: "Be brief.".to_owned(),
        tools,
        stream: true,
        ..CallSpec::default()
    };
    let first = answer(vec![text("so"), call("a", "add", "{\"b\":1,\"a\":2}")]);
    for name in NAMES {
        let wire = wire(name).expect("known");
        assert_eq!(wire.frame(&spec), wire.frame(&spec.clone()));
        let alone = wire.fragments(&first.message());
        let _ = wire.fragments(&answer(vec![call("a", "add", "{}")]).message());
        assert_eq!(wire.fragments(&first.message()), alone, "{name}");
        let body: Value = serde_json::from_slice(&wire.frame(&spec).body(&alone)).expect("JSON");
        assert_eq!(body[wire.list()].as_array().map(Vec::len), Some(alone.len()), "{name}");
    }
}

#[test]
fn the_frame_asks_for_structured_output_and_marks_the_cache_where_the_wire_can() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tool = |name: &str| ToolOffer {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    };
    let plain = CallSpec {
        model: "m".to_owned(),
        system: "s".to_owned(),
        tools: vec![tool("a"), tool("b")],
        ..CallSpec::default()
    };
    let asking = CallSpec { output_schema: Some(schema.clone()), cache: true, ..plain.clone() };
    let body = |name: &str, spec: &CallSpec| -> Value {
        let frame = wire(name).expect("known").frame(spec);
        serde_json::from_slice(&frame.body(&[] as &[&str])).expect("JSON")
    };
    let places = [
        ("chat", "/response_format/json_schema/schema"),
        ("responses", "/text/format/schema"),
        ("messages", "/output_config/format/schema"),
        ("gemini", "/generationConfig/responseJsonSchema"),
    ];
    for (name, place) in places {
        assert_eq!(body(name, &asking).pointer(place), Some(&schema), "{name}");
        assert_eq!(body(name, &plain).pointer(place), None, "{name}");
        assert_eq!(
            body(name, &asking).to_string().matches("ephemeral").count(),
            if name == "messages" { 2 } else { 0 }
        );
    }
    let marked = body("messages", &asking);
    let mark = json!({"type": "ephemeral"});
    assert_eq!((&marked["system"][0]["cache_control"], &marked["tools"][1]["cache_control"]), (&mark, &mark));
    // The configuration adds to what the wire writes, and takes nothing away.
    let more = Map::from_iter([("generationConfig".to_owned(), json!({"topK": 3}))]);
    let both = body("gemini", &CallSpec { extra: more, ..asking });
    assert_eq!(
        (&both["generationConfig"]["topK"], &both["generationConfig"]["responseJsonSchema"]),
        (&json!(3), &schema)
    );
}

/// What the scripted provider says: two calls at once with odd ids, one more, then the end.
fn script(seen: &RequestSeen) -> Play {
    let odd = if seen.wire == "gemini" { "place-0" } else { "call \"ü\"/1" };
    let parts = match seen.answers() {
        0 => vec![text("Looking. "), call(odd, "echo", "{\"n\":1}"), call("b", "echo", "{\"n\":2}")],
        1 => vec![call("b", "echo", "{\"n\":3}")],
        _ => vec![text("Done.")],
    };
    Play::answer(answer(parts))
}

fn config(name: &str, stream: bool, base_url: &str) -> AgentConfig {
    let config = json!({
        "agent": {"prompt": "Be brief."},
        "model": {"name": "m", "wire": name, "stream": stream, "base_url": base_url, "key_env": "", "cache": true},
        "tool": [{
            "name": "echo", "description": "Says what it was told.", "command": ["cat"],
            "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        }],
    });
    serde_json::from_value(config).expect("a configuration")
}

#[tokio::test]
async fn a_whole_run_pairs_every_call_with_its_result_on_every_wire() {
    let tapes = tempfile::tempdir().expect("a folder");
    let studio = Studio {
        tapes: tapes.path().to_owned(),
        redactor: Arc::new(Redactor::new([7; 32]).expect("patterns")),
    };
    for (name, stream) in NAMES.into_iter().flat_map(|name| [(name, true), (name, false)]) {
        let server = Loopback::start(script).await.expect("a port");
        let config = config(name, stream, &server.base_url());
        let agent =
            Agent::of_config(config, Path::new("agent.toml"), Path::new("."), &|_| None).expect("ready");
        let task = Task { text: "Say it.".to_owned(), ..Task::default() };
        let finished =
            agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await.expect("a tape");
        assert_eq!(server.violations(), Vec::<String>::new(), "{name}");
        assert_eq!(finished.outcome.status, RunStatus::Completed, "{name}: {:?}", finished.outcome);
        let requests = server.requests();
        assert_eq!((requests.len(), requests[0].stream(), requests[0].wire), (3, stream, name));
        let last = String::from_utf8(requests[2].body.clone()).expect("text");
        for echoed in ["{\\\"n\\\":1}", "{\\\"n\\\":2}", "{\\\"n\\\":3}"] {
            assert!(last.contains(echoed), "{name}: {last}");
        }
        assert!(!last.contains("place-0"), "{name}: an id that was not given was sent");
        // What was sent before is sent again, byte for byte, with the new behind it.
        let (head, tail) = (&requests[1].body[..requests[1].body.len() - 2], &requests[2].body);
        assert!(tail.starts_with(head), "{name}");
        server.stop().await;
    }
}
