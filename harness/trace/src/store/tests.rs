//! The index as a whole: logs in, views out, whatever the order, the senders and the accidents.

mod accidents;
mod asking;
mod real;
mod tape;

use super::*;
use crate::inbox::{Body, Entry, Inbox};
use crate::ops::{AlertChange, AlertState, Op, Ops, Silence};
use crate::question;
use crate::row::tests::span;
use crate::span::Span;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().join("home")).unwrap();
    (folder, home)
}

fn otlp(spans: Vec<Span>) -> Entry {
    Entry { at_ns: 1, body: Body::Otlp { spans } }
}

/// A foreign trace: an agent that calls the model twice and a tool three times, one of them again.
fn trace(number: u8) -> Vec<Span> {
    let args = "{\"city\":\"Oslo\"}";
    let said = |n: usize| -> Vec<Value> {
        (0..n)
            .map(|i| json!({"role": "user", "parts": [{"type": "text", "content": format!("m{i}")}]}))
            .collect()
    };
    let answer = json!([{"role": "assistant", "parts": [{"type": "text", "content": "m1"}]}]);
    let shapes = [
        (json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "booker"}), 0, 100),
        (
            json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "gen_ai.response.id": "a",
            "gen_ai.input.messages": said(1), "gen_ai.output.messages": answer}),
            1,
            5,
        ),
        (
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.arguments": args}),
            6,
            7,
        ),
        (
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.arguments": args}),
            8,
            9,
        ),
        (
            json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3,
            "gen_ai.response.id": "b", "gen_ai.response.finish_reasons": ["stop"], "gen_ai.input.messages": said(3)}),
            10,
            20,
        ),
        (
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "book", "error.type": "KeyError"}),
            21,
            22,
        ),
    ];
    (1..)
        .zip(shapes)
        .map(|(id, (attributes, start, end))| {
            let mut one = span("agents", &attributes);
            one.trace_id = crate::id::TraceId::new([number; 16]);
            one.span_id = crate::id::SpanId::new([number, id, 1, 2, 3, 4, 5, 6]);
            one.parent_span_id = (id > 1).then(|| crate::id::SpanId::new([number, 1, 1, 2, 3, 4, 5, 6]));
            one.started_at_ns =
                Some(1_700_000_000_000_000_000 + i64::from(number) * 1_000_000_000 + start * 1_000_000);
            one.ended_at_ns =
                Some(1_700_000_000_000_000_000 + i64::from(number) * 1_000_000_000 + end * 1_000_000);
            one
        })
        .collect()
}

fn rows(store: &Store, sql: &str) -> Value {
    json!(store.query(sql, &[], 100).unwrap().rows)
}

#[test]
fn a_foreign_trace_becomes_a_run_with_turns_calls_and_messages() {
    let (_folder, home) = home();
    Inbox::new(&home).append(&otlp(trace(7))).unwrap();
    let store = Store::open(&home).unwrap();
    let indexed = store.catch_up().unwrap();
    assert_eq!((indexed.spans, indexed.duplicates), (6, 0));
    let run = rows(
        &store,
        "select agent, status, stop_reason, turns, tool_calls, tool_errors, repeated_calls, input_tokens, output_tokens, duration_ms, started_at from runs",
    );
    assert_eq!(
        run,
        json!([["booker", "completed", "completed", 2, 3, 1, 1, 30, 3, 100.0, "2023-11-14T22:13:27Z"]])
    );
    let turns =
        rows(&store, "select turn, tool_names, tool_statuses, status, input_tokens from turns order by turn");
    assert_eq!(
        turns,
        json!([[1, ["weather", "weather"], ["ok", "ok"], "ok", 10], [2, ["book"], ["error"], "error", 20]])
    );
    let calls = rows(&store, "select turn, call_index, tool_name from tool_calls order by 1, 2");
    assert_eq!(calls, json!([[1, 0, "weather"], [1, 1, "weather"], [2, 0, "book"]]));
    let messages = rows(&store, "select position, role, content, turn from messages order by 1, 2");
    assert_eq!(
        messages,
        json!([[0, "user", "m0", 1], [1, "assistant", "m1", 1], [1, "user", "m1", 2], [2, "user", "m2", 2]]),
        "what both calls say is there once"
    );
    let activity = question::activities(&store.ask(&question::run_activity(None)).unwrap()).unwrap();
    assert_eq!(activity[0].calls.len(), 3);
    assert_eq!(activity[0].calls[0].args_hash, activity[0].calls[1].args_hash);
    assert_eq!(activity[0].seen().tokens, Some(33));
}

#[test]
fn eight_senders_at_once_twice_and_after_a_restart_give_the_same_rows() {
    let (_folder, home) = home();
    let all: Vec<Vec<Span>> = (1..=20).map(trace).collect();
    let send = || {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (home, all) = (&home, &all);
                scope.spawn(move || {
                    let inbox = Inbox::new(home);
                    all.iter().for_each(|spans| drop(inbox.append(&otlp(spans.clone())).unwrap()));
                });
            }
        });
    };
    send();
    let store = Store::open(&home).unwrap();
    assert_eq!(store.catch_up().unwrap().spans, 120);
    let once = store.checksum().unwrap();
    send();
    assert_eq!(store.catch_up().unwrap().spans, 0);
    assert_eq!(store.checksum().unwrap(), once);
    drop(store);
    let store = Store::open(&home).unwrap();
    assert_eq!(store.catch_up().unwrap(), Indexed::default(), "nothing is read again");
    assert_eq!(store.checksum().unwrap(), once);
    drop(store);
    let (store, indexed) = Store::rebuild(&home).unwrap();
    assert_eq!((indexed.spans, store.checksum().unwrap()), (120, once));
}

#[test]
fn an_sdk_that_tells_a_call_again_is_not_counted_again() {
    let (_folder, home) = home();
    let mut spans = trace(3);
    for (id, parent) in [(101, Some(spans[1].span_id)), (102, None)] {
        let mut echo = spans[1].clone();
        echo.scope = "com.anthropic.sdk.python".to_owned();
        echo.span_id = crate::id::SpanId::new([3, id, 0, 0, 0, 0, 0, 9]);
        echo.parent_span_id = parent.or(echo.parent_span_id);
        spans.push(echo);
    }
    // A failed call has no response id: its echo is known by the time it lies in.
    let mut failed = spans[1].clone();
    failed.scope = "com.anthropic.sdk.python".to_owned();
    failed.span_id = crate::id::SpanId::new([3, 103, 0, 0, 0, 0, 0, 9]);
    failed.attributes.remove("gen_ai.response.id");
    spans.push(failed);
    Inbox::new(&home).append(&otlp(spans)).unwrap();
    let store = Store::open(&home).unwrap();
    store.catch_up().unwrap();
    assert_eq!(rows(&store, "select turns, input_tokens from runs"), json!([[2, 30]]));
    assert_eq!(rows(&store, "select count(*) from spans"), json!([[9]]), "every span is kept");
}

#[test]
fn alerts_fire_resolve_and_fire_again_as_the_ops_log_says() {
    let (_folder, home) = home();
    let ops = Ops::new(&home);
    let change = |state, at_ns: i64| {
        Op::AlertChange(Box::new(AlertChange {
            alert_id: "a1".to_owned(),
            rule: "max_turns".to_owned(),
            kind: "run".to_owned(),
            state,
            agent: Some("booker".to_owned()),
            tool_name: None,
            args_hash: None,
            value: Some(10.0),
            threshold: Some(10.0),
            runs: vec![crate::id::RunId::new("r1")],
            evidence: None,
            at_ns: at_ns * 1_000_000_000,
        }))
    };
    let store = Store::open(&home).unwrap();
    let seen = |told: &[(AlertState, i64)]| {
        told.iter().for_each(|(state, at)| drop(ops.append(&change(*state, *at)).unwrap()));
        store.catch_up().unwrap();
        rows(&store, "select state, fired_at, resolved_at, runs from alerts")
    };
    use AlertState::{Firing, Resolved};
    assert_eq!(seen(&[(Firing, 1), (Firing, 2)]), json!([["firing", "1970-01-01T00:00:01Z", null, ["r1"]]]));
    assert_eq!(
        seen(&[(Resolved, 3)]),
        json!([["resolved", "1970-01-01T00:00:01Z", "1970-01-01T00:00:03Z", ["r1"]]])
    );
    assert_eq!(seen(&[(Firing, 9)]), json!([["firing", "1970-01-01T00:00:09Z", null, ["r1"]]]));
    assert_eq!(store.ask(&question::firing_alerts()).unwrap().rows.len(), 1);
    let silence = Silence {
        silence_id: "s".to_owned(),
        rule: None,
        agent: None,
        until_ns: 5_000_000_000,
        by: "ann".to_owned(),
        reason: None,
        at_ns: 1,
    };
    ops.append(&Op::Silence(silence)).unwrap();
    store.catch_up().unwrap();
    assert_eq!(store.ask(&question::active_silences(4_000_000_000)).unwrap().rows.len(), 1);
    assert_eq!(store.ask(&question::active_silences(6_000_000_000)).unwrap().rows.len(), 0);
}

#[test]
fn every_view_and_every_question_is_answered_on_a_fresh_schema() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    for (name, _) in schema::VIEWS {
        store.query(&format!("from {name}"), &[], 1).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    for (name, question) in question::all() {
        store.ask(&question).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    assert!(store.checksum().is_ok());
}

#[test]
fn no_sql_file_is_left_unused() {
    let listed = |folder: &str| -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(folder);
        let files = std::fs::read_dir(path).unwrap();
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(listed("view"), schema::VIEWS.iter().map(|(name, _)| (*name).to_owned()).collect());
    assert_eq!(listed("question"), question::all().iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn the_views_have_the_public_columns() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let columns = |view: &str| {
        let table = store.query(&format!("from {view}"), &[], 1).unwrap();
        table.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(", ")
    };
    for (view, public) in [
        (
            "runs",
            "run_id, trace_id, parent_run_id, agent, service, model, started_at, ended_at, duration_ms, status, stop_reason, stop_evidence, turns, max_turns, tool_calls, tool_errors, repeated_calls, input_tokens, output_tokens, cached_input_tokens, cost_usd, session_id, user_id, environment, release, prompt_name, prompt_version, prompt_hash, task_id, trial, tags, replay_of, replay_mode, source, source_dialect",
        ),
        (
            "turns",
            "run_id, turn, started_at, latency_ms, status, stop_reason, model, input_tokens, output_tokens, tool_names, arguments, tool_statuses",
        ),
        (
            "tool_calls",
            "run_id, turn, call_index, call_id, tool_name, arguments, args_hash, result, result_hash, status, error_class, failure_stage, permission, latency_ms, attempts, started_at",
        ),
        (
            "model_calls",
            "run_id, turn, provider, request_model, response_model, finish_reason, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd, latency_ms, ttft_ms, attempts, context_head, started_at",
        ),
        (
            "spans",
            "trace_id, span_id, parent_span_id, run_id, turn, name, kind, operation, started_at, ended_at, latency_ms, status, error_type, attributes, events, links, resource, scope, source_dialect",
        ),
        ("messages", "run_id, turn, position, role, content, blob"),
        ("scores", "run_id, suite, case_id, repeat, scorer, value, verdict, label, reason, eval_id, at"),
        (
            "alerts",
            "alert_id, rule, kind, state, agent, tool_name, args_hash, value, threshold, runs, evidence, fired_at, resolved_at",
        ),
    ] {
        assert!(columns(view).starts_with(public), "{view}: {}", columns(view));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_order_and_repetition_of_spans_gives_the_same_rows(
        order in proptest::collection::vec((0_usize..18, proptest::bool::ANY), 0..40),
        cuts in proptest::collection::vec(1_usize..9, 1..12),
    ) {
        let all: Vec<Span> = (1..=3).flat_map(trace).collect();
        let (_a, plain) = home();
        Inbox::new(&plain).append(&otlp(all.clone())).unwrap();
        let store = Store::open(&plain).unwrap();
        store.catch_up().unwrap();
        let wanted = store.checksum().unwrap();

        // Some spans come again, some also while they were open; at the end every one has come.
        let (_b, mixed) = home();
        let again = order.iter().map(|(index, open)| match open {
            true => Span { open: true, ended_at_ns: None, ..all[*index].clone() },
            false => all[*index].clone(),
        });
        let mut sent: Vec<Span> = again.chain(all.iter().rev().cloned()).collect();
        let inbox = Inbox::new(&mixed);
        let store = Store::open(&mixed).unwrap();
        for cut in cuts.iter().cycle() {
            let rest = sent.split_off((*cut).min(sent.len()));
            inbox.append(&otlp(std::mem::replace(&mut sent, rest))).unwrap();
            store.catch_up().unwrap();
            if sent.is_empty() { break }
        }
        prop_assert_eq!(store.checksum().unwrap(), wanted);
    }
}
