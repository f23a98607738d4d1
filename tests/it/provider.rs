//! The provider on loopback itself: it refuses what a real one would, on every wire, over a real socket; and the
//! loop gets along with one that is slow, silent, half there or careless with the truth.

use crate::kit::{Deed, InProcess, Kit, asks, fault, response, said};
use harness::model::http::{Endpoint, Http};
use harness::model::scripted::{ScriptTurn, speak};
use harness::model::{NAMES, Transport, WireRequest, wire};
use loopback::{Cuts, Loopback, Play};
use serde_json::{Value, json};
use std::time::Duration;
use trace::message::{Finish, Response, Usage};
use trace::outcome::{FaultClass, StopReason};

/// What is wrong, and the messages of a request that has it wrong, for one wire.
fn wrong(wire: &str) -> Vec<(&'static str, Value)> {
    match wire {
        "chat" => {
            let user = json!({"role": "user", "content": "hi"});
            let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
            let asks = json!({"role": "assistant", "content": null, "tool_calls": [call("a")]});
            let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": ""});
            vec![
                ("nothing", json!([])),
                ("a call without a result", json!([user, asks])),
                ("a result under another id", json!([user, asks, result("b")])),
                ("two results for a call", json!([user, asks, result("a"), result("a")])),
                ("a result without a call", json!([user, result("a")])),
                ("a result too late", json!([user, asks, user, result("a")])),
                ("a role that is none", json!([user, {"role": "robot", "content": "x"}])),
                ("empty content", json!([{"role": "user", "content": ""}])),
            ]
        }
        "messages" => {
            let user = json!({"role": "user", "content": "hi"});
            let asks = json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "f", "input": {}}]});
            let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "", "is_error": false});
            let answers = |blocks: Value| json!({"role": "user", "content": blocks});
            vec![
                ("nothing", json!([])),
                ("a call without a result", json!([user, asks])),
                ("a result under another id", json!([user, asks, answers(json!([result("b")]))])),
                ("two results for a call", json!([user, asks, answers(json!([result("a"), result("a")]))])),
                ("a result without a call", json!([user, answers(json!([result("a")]))])),
                ("a result too late", json!([user, asks, user, answers(json!([result("a")]))])),
                ("a role that is none", json!([user, {"role": "robot", "content": "x"}])),
                ("empty content", json!([{"role": "user", "content": []}])),
                ("the model first", json!([{"role": "assistant", "content": "hi"}, user])),
            ]
        }
        "responses" => {
            let user = json!({"role": "user", "content": "hi"});
            let call = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"});
            let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": ""});
            vec![
                ("nothing", json!([])),
                ("a call without a result", json!([user, call])),
                ("a result under another id", json!([user, call, output("b")])),
                ("two results for a call", json!([user, call, output("a"), output("a")])),
                ("a result without a call", json!([user, output("a")])),
                ("a result too late", json!([user, call, user, output("a")])),
                ("a role that is none", json!([user, {"role": "robot", "content": "x"}])),
                ("empty content", json!([{"role": "user", "content": ""}])),
            ]
        }
        _ => {
            let said = |role: &str, part: Value| json!({"role": role, "parts": [part]});
            let user = said("user", json!({"text": "hi"}));
            let call = said("model", json!({"functionCall": {"name": "f", "id": "a", "args": {}}}));
            let answer =
                |id: &str| said("user", json!({"functionResponse": {"name": "f", "id": id, "response": {}}}));
            vec![
                ("nothing", json!([])),
                ("a call without a result", json!([user, call])),
                ("a result under another id", json!([user, call, answer("b")])),
                ("a result without a call", json!([user, answer("a")])),
                ("a result too late", json!([user, call, user, answer("a")])),
                ("a role that is none", json!([user, said("robot", json!({"text": "x"}))])),
                ("empty content", json!([{"role": "user", "parts": []}])),
                ("the model first", json!([said("model", json!({"text": "hi"})), user])),
            ]
        }
    }
}

#[tokio::test]
async fn a_wrong_request_is_refused_on_every_wire_over_the_socket() {
    let provider = Loopback::start(|_| said("taken")).await.unwrap();
    let mut refused = 0;
    for name in NAMES {
        let wire = wire(name).unwrap();
        let http = Http::new(&Endpoint::new(provider.base_url()), &*wire, None).unwrap();
        let hello = json!([{"role": "user", "content": "hi", "parts": [{"text": "hi"}]}]);
        for (what, messages) in wrong(name).into_iter().chain([("", hello)]) {
            let mut body = match name {
                "gemini" => json!({}),
                "responses" => json!({"model": "m", "store": false}),
                _ => json!({"model": "m", "max_tokens": 9}),
            };
            body[wire.list()] = messages;
            let request = WireRequest {
                endpoint: wire.endpoint("m", false),
                body: body.to_string().into_bytes(),
                stream: false,
            };
            let reply = http.send(&request, &mut |_| {}).await.unwrap();
            if what.is_empty() {
                assert_eq!(reply.status, 200, "{name}: {:?}", provider.violations());
                continue;
            }
            refused += 1;
            assert_eq!(reply.status, 400, "{name}: {what}");
            let class = wire.fault(reply.status, &reply.headers, &reply.body).class;
            assert_eq!(class, FaultClass::Permanent, "{name}: {what}: in the words of the wire");
            let told = format!("request {}:", provider.requests().len());
            assert!(
                provider.violations().iter().any(|one| one.starts_with(&told)),
                "{name}: {what}: not remembered"
            );
        }
    }
    assert_eq!(refused, 33);
}

fn paying(wire: &str, turns: Vec<ScriptTurn>) -> Kit {
    Kit::new(turns)
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| wire.clone_into(&mut config.model.wire))
}

/// Byte by byte; silent for longer than a provider may be; broken off in the middle: the work is done once.
#[tokio::test]
async fn a_slow_a_silent_and_a_broken_provider_are_borne_on_every_wire() {
    let runs = NAMES.into_iter().map(|wire| async move {
        let call = || asks(&[("a", "pay", "{\"n\":1}")]);
        let plays = vec![
            Play::from(call()).stall_after(40),
            Play::from(call()).break_after(60),
            Play::from(call()).cut(Cuts::Every(1)).pause(Duration::from_micros(200)),
            Play::from(said("Paid.")).cut(Cuts::Every(7)),
        ];
        let kit = paying(wire, Vec::new()).with(|config| config.model.timeout_seconds = 1);
        let run = kit.run_against(plays).await;
        assert_eq!((run.outcome.stop_reason, kit.tools[0].entered()), (StopReason::Completed, 1), "{wire}");
        assert_eq!((run.requests, run.pauses()), (4, vec![2000, 2000]), "{wire}");
    });
    futures::future::join_all(runs).await;
}

/// Ids that come again in each turn, tokens that are not told or told as null, words that are not true.
#[tokio::test]
async fn a_careless_provider_is_borne_on_every_wire() {
    for wire in NAMES {
        let call = |n: &'static str, finish| {
            let silent =
                Response { usage: Usage::default(), ..response("", &[("call_0", "pay", n)], finish) };
            ScriptTurn::Answer(silent)
        };
        let turns =
            vec![call("{\"n\":1}", Finish::ToolUse), call("{\"n\":2}", Finish::EndTurn), said("Paid.")];
        let kit = paying(wire, turns);
        let run = kit.run_on_loopback().await;
        assert_eq!((run.outcome.stop_reason, kit.tools[0].entered()), (StopReason::Completed, 2), "{wire}");
        assert_eq!(run.outcome.usage.input_tokens, Some(100), "{wire}: what one answer told, and no more");

        let null = null_usage(wire);
        let run = paying(wire, vec![null]).with(|config| config.model.stream = false).run_on_loopback().await;
        assert_eq!(
            (run.outcome.stop_reason, run.outcome.usage),
            (StopReason::Completed, Usage::default()),
            "{wire}"
        );
    }
    // A fault that no status tells: nobody there at all.
    let run = Kit::new([fault(FaultClass::Permanent)]).run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::ModelError);
}

/// An answer whose usage is null.
fn null_usage(wire: &str) -> ScriptTurn {
    let spoken = speak(wire, &response("Well.", &[], Finish::EndTurn), false).unwrap();
    let mut body: Value = serde_json::from_str(&spoken.pieces.concat()).unwrap();
    let member = if wire == "gemini" { "usageMetadata" } else { "usage" };
    assert!(body[member].is_object(), "{body}");
    body[member] = Value::Null;
    ScriptTurn::Raw { status: 200, headers: [].into(), body: body.to_string() }
}
