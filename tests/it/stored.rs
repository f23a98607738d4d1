//! A provider that stores its answers is sent only what is new; the tape keeps the whole, and so does the loop.

use crate::kit::{Deed, InProcess, Kit, asks, requests, said};
use harness::config::AgentConfig;
use harness::model::NAMES;
use harness::model::scripted::ScriptTurn;
use serde_json::{Value, json};
use std::path::Path;
use trace::outcome::StopReason;

fn storing(turns: Vec<ScriptTurn>) -> Kit {
    Kit::new(turns).tool(&InProcess::reading("look", Deed::Say("seen"))).with(|config| {
        "responses".clone_into(&mut config.model.wire);
        config.model.store = true;
    })
}

fn looks() -> Vec<ScriptTurn> {
    vec![asks(&[("a", "look", "{\"n\":1}")]), asks(&[("b", "look", "{\"n\":2}")]), said("Seen twice.")]
}

/// The bodies as sent.
fn bodies(run: &crate::kit::Recorded) -> Vec<Value> {
    requests(&run.tape).iter().map(|one| serde_json::from_slice(&one.body).unwrap()).collect()
}

fn output(call_id: &str) -> Value {
    json!([{"type": "function_call_output", "call_id": call_id, "output": "seen"}])
}

#[tokio::test]
async fn a_stored_conversation_goes_on_from_the_id_of_its_last_answer() {
    let run = storing(looks()).run_on_loopback().await;
    assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::Completed, 3));
    let bodies = bodies(&run);
    assert_eq!((&bodies[0]["store"], bodies[0].get("previous_response_id")), (&json!(true), None));
    for (at, call) in [(1, "a"), (2, "b")] {
        assert_eq!(bodies[at]["previous_response_id"], json!(format!("resp_{at}")));
        assert_eq!(bodies[at]["input"], output(call), "only what is new");
        assert_eq!(bodies[at]["instructions"], bodies[0]["instructions"], "these are not stored");
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_provider_has_forgotten_it_is_told_everything_again() {
    let error =
        r#"{"error":{"code":"previous_response_not_found","message":"Previous response not found."}}"#;
    let forgot = ScriptTurn::Raw { status: 400, headers: [].into(), body: error.to_owned() };
    let mut turns = looks();
    turns.insert(2, forgot);
    let run = storing(turns).run().await;
    assert_eq!((run.outcome.stop_reason, run.pauses()), (StopReason::Completed, vec![1000]));
    let bodies = bodies(&run);
    assert_eq!(bodies[2]["input"], output("b"));
    assert_eq!(bodies[3].get("previous_response_id"), None);
    assert_eq!(
        bodies[3]["input"].as_array().unwrap().len(),
        7,
        "task, and text, call and output of two turns"
    );
}

#[tokio::test]
async fn a_run_that_is_resumed_says_everything_again() {
    let run = storing(looks()).stopped_and_resumed().await;
    assert_eq!(run.outcome.stop_reason, StopReason::Completed);
    let ids: Vec<bool> = bodies(&run).iter().map(|body| body.get("previous_response_id").is_some()).collect();
    assert_eq!(ids, [false, false, true], "the second request is the first of another process");
}

#[test]
fn only_the_wire_that_can_store_takes_the_setting() {
    for wire in NAMES {
        let text = format!("[model]\nname = \"m\"\nwire = \"{wire}\"\nstore = true\n");
        let parsed = AgentConfig::parse(&text, Path::new("agent.toml"));
        match wire {
            "responses" => assert!(parsed.unwrap().model.store),
            _ => assert_eq!(
                parsed.unwrap_err().to_string(),
                "agent.toml: `model.store`: is only for the wire `responses`; leave it out"
            ),
        }
    }
}
