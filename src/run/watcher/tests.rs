//! What people see of a run, as a terminal shows it, and what programs read.

use super::super::sample::{answered, asked, started, tool_finished, tool_started};
use super::super::screen::tests::looked_at;
use super::*;
use indicatif::InMemoryTerm;

fn watched(columns: u16) -> (Watcher, InMemoryTerm) {
    let (screen, term) = looked_at(columns);
    let redactor = Arc::new(Redactor::new([7; 32]).unwrap());
    let progress = Progress::default();
    (Watcher { screen, events: false, redactor, progress, turn: 0, shown: String::new() }, term)
}

fn tell(watcher: &mut Watcher, facts: &[Fact]) {
    facts.iter().for_each(|fact| watcher.recorded(0, 0, fact));
}

fn write(watcher: &mut Watcher, pieces: &[&str]) {
    pieces.iter().for_each(|piece| watcher.delta(&Delta::Text((*piece).to_owned())));
}

#[test]
fn text_is_seen_as_it_arrives_with_the_bar_below_it() {
    let (mut watcher, term) = watched(80);
    tell(&mut watcher, &[started(&[("turns", 6.0), ("tokens", 20_000.0)]), asked(1)]);
    insta::assert_snapshot!(term.contents(), @r"
    run 00aa of order-desk on mini
    [###-------------] turn 1/6 | tokens unknown | 0 s | asks the model
    ");
    write(&mut watcher, &["Let me ", "see where"]);
    insta::assert_snapshot!(term.contents(), @r"
    run 00aa of order-desk on mini
    Let me see where
    [###-------------] turn 1/6 | tokens unknown | 0 s | writes
    ");
    write(
        &mut watcher,
        &[" it is.\nIt takes a whil", "e, since the warehouse answers slowly in the mornin", "g."],
    );
    insta::assert_snapshot!(term.contents(), @r"
    run 00aa of order-desk on mini
    Let me see where it is.
    It takes a while, since the warehouse answers slowly in the morning.
    [###-------------] turn 1/6 | tokens unknown | 0 s | writes
    ");
    tell(&mut watcher, &[answered(1, "Let me see ...", 1234, None), tool_started(1, 0, "look_up", "{}")]);
    insta::assert_snapshot!(term.contents(), @r"
    run 00aa of order-desk on mini
    Let me see where it is.
    It takes a while, since the warehouse answers slowly in the morning.
    [###-------------] turn 1/6 | 1,234/20,000 tokens | 0 s | runs look_up
    ");
}

#[test]
fn each_call_has_a_line_and_the_screen_is_left_clean() {
    let (mut watcher, term) = watched(100);
    let long = format!("{{\"note\":\"{}\"}}", "x".repeat(100));
    tell(
        &mut watcher,
        &[
            started(&[("turns", 6.0)]),
            asked(1),
            answered(1, "", 10, None),
            tool_finished(1, "look_up", "{\"id\":1}", ToolStatus::Ok, "there"),
            tool_finished(1, "refund", &long, ToolStatus::Denied, "not on\nSundays"),
            asked(2),
        ],
    );
    write(&mut watcher, &["It is ", "there."]);
    watcher.event(&Event::Retrying { turn: 2, ms: 1000, why: "the line is bad".to_owned() });
    tell(&mut watcher, &[asked(2), answered(2, "It is there.", 10, None)]);
    assert_eq!(watcher.close(), "It is there.");
    insta::assert_snapshot!(term.contents(), @r#"
    run 00aa of order-desk on mini
    turn 1: look_up {"id":1} ok 12 ms
    turn 1: refund {"note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… denied 12 m
    s: not on Sundays
    It is there.
    turn 2: trying again in 1000 ms: the line is bad
    It is there.
    "#);
}

#[test]
fn a_narrow_terminal_cuts_the_bar_and_wraps_the_text() {
    let (mut watcher, term) = watched(30);
    tell(&mut watcher, &[started(&[("turns", 6.0), ("tokens", 20_000.0)]), asked(1)]);
    write(&mut watcher, &["Orders are on their way, all of them, ", "since yesterday."]);
    insta::assert_snapshot!(term.contents(), @r"
    run 00aa of order-desk on mini
    Orders are on their way, all
    of them, since yesterday.
    [###-------------] turn 1/6 …
    ");
}

#[test]
fn programs_read_one_object_a_line_without_secrets() {
    let redactor = Redactor::new([7; 32]).unwrap();
    let secret = format!("{{\"key\":\"sk-{}\"}}", "a1B2".repeat(10));
    let facts = [
        started(&[("turns", 6.0)]),
        asked(1),
        answered(1, "text", 10, Some(0.5)),
        tool_started(1, 0, "pay", "{}"),
        tool_finished(1, "pay", &secret, ToolStatus::Error, &secret),
    ];
    let told: Vec<String> = facts
        .iter()
        .filter_map(|fact| event::of_fact(7, fact, &redactor))
        .map(|event| event.to_string())
        .collect();
    assert!(told.iter().all(|line| !line.contains("a1B2") && !line.contains('\n')), "{told:#?}");
    insta::assert_snapshot!(told[..4].join("\n"), @r#"
    {"agent":"order-desk","at_ns":7,"limits":{"turns":6.0},"model":"mini","run_id":"00aa","trace_id":"01010101010101010101010101010101","type":"run_started"}
    {"at_ns":7,"attempt":1,"turn":1,"type":"turn"}
    {"at_ns":7,"attempt":1,"cost_usd":0.5,"finish":"end_turn","latency_ms":42,"turn":1,"type":"answered","usage":{"input_tokens":10,"output_tokens":0}}
    {"arguments":"{}","at_ns":7,"call_id":"c","call_index":0,"tool_name":"pay","turn":1,"type":"tool_started"}
    "#);
}
