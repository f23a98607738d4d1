//! A run of our own, indexed while it goes on, when it pauses, when it ends and when its tape is sealed.

use super::{home, otlp, rows};
use crate::fact::{Fact, RunEnded, RunStarted};
use crate::id::{Hash, RunId, TraceId};
use crate::inbox::Inbox;
use crate::message::Usage;
use crate::outcome::{Evidence, Outcome, StopReason};
use crate::redact::Redactor;
use crate::span::from_tape;
use crate::store::Store;
use crate::tape::{Recorder as _, Tape, TapeWriter};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

fn started() -> Fact {
    let blob = Hash::of(b"{}");
    Fact::RunStarted(Box::new(RunStarted {
        run_id: RunId::from_draw(5),
        trace_id: TraceId::new([5; 16]),
        parent_span_id: None,
        parent_run_id: None,
        agent: "booker".to_owned(),
        service: None,
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        wire: "chat".to_owned(),
        task: "Book.".to_owned(),
        config: blob,
        tools: blob,
        prompt_hash: blob,
        prompt_name: None,
        prompt_version: None,
        limits: BTreeMap::from([("turns".to_owned(), 10.0)]),
        session_id: Some("s1".to_owned()),
        continues: None,
        history: None,
        earlier: Vec::new(),
        user_id: None,
        environment: None,
        release: None,
        task_id: None,
        trial: None,
        tags: vec!["x".to_owned()],
        replay_of: None,
        replay_mode: None,
    }))
}

fn ended(stop_reason: StopReason) -> Fact {
    let evidence = Evidence {
        rule: "end".to_owned(),
        detail: "said so".to_owned(),
        threshold: None,
        observed: None,
        spans: Vec::new(),
        tokens_wasted: None,
        next_safe_action: None,
        resumable: false,
    };
    let outcome = Outcome {
        status: stop_reason.status(),
        stop_reason,
        trigger: "end_turn".to_owned(),
        answer: Some("Done.".to_owned()),
        turns: 0,
        tool_calls: 0,
        usage: Usage::default(),
        cost_usd: None,
        duration_ms: 1,
        evidence,
        head: Hash::of(b""),
    };
    Fact::RunEnded(Box::new(RunEnded { outcome, heard: Vec::new() }))
}

#[test]
fn a_run_is_seen_running_then_as_its_tape_ends_and_nothing_received_replaces_it() {
    let (_folder, home) = home();
    let redactor = Arc::new(Redactor::new([1; 32]).unwrap());
    let run_id = RunId::from_draw(5);
    let mut tape = TapeWriter::create(&home.tapes(), &run_id, 1_000_000_000, redactor).unwrap();
    tape.blob(b"{}").unwrap();
    tape.record(1_000_000_000, &started()).unwrap();
    let store = Store::open(&home).unwrap();
    let seen = || {
        store.catch_up().unwrap();
        rows(
            &store,
            "select run_id, agent, status, stop_reason, max_turns, session_id, tags, source_dialect from runs",
        )
    };
    let row = |status: &str, reason: Option<&str>| {
        json!([["0000000000000005", "booker", status, reason, 10, "s1", ["x"], "loopdeck"]])
    };
    assert_eq!(seen(), row("running", None));

    tape.record(2_000_000_000, &ended(StopReason::MaxTurns)).unwrap();
    assert_eq!(seen(), row("stopped", Some("max_turns")));

    // The same span by OTLP, as an exporter or a liar would send it.
    let path = home.tapes().join(format!("{run_id}.tape"));
    let mut copy = from_tape(&Tape::read(&path).unwrap());
    copy[0].attributes.insert("loopdeck.stop.reason".to_owned(), "completed".into());
    Inbox::new(&home).append(&otlp(copy)).unwrap();
    assert_eq!(seen(), row("stopped", Some("max_turns")));

    tape.seal().unwrap();
    assert_eq!(seen(), row("stopped", Some("max_turns")));
    assert_eq!(rows(&store, "select count(*) from spans"), json!([[1]]));
    let found = store.ask(&crate::question::find_run("00000")).unwrap();
    assert_eq!(crate::question::one_run("00000", &found).unwrap(), run_id);
}
