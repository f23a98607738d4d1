//! Alerts over time, told with a clock that the test turns.

use super::*;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;

fn problem(rule: &str) -> Problem {
    Problem {
        rule: rule.into(),
        agent: Some("booker".into()),
        tool_name: Some("search".into()),
        args_hash: None,
    }
}

fn evidence(observed: f64) -> Evidence {
    Evidence {
        rule: "r".into(),
        detail: String::new(),
        threshold: Some(5.0),
        observed: Some(observed),
        spans: Vec::new(),
        tokens_wasted: None,
        next_safe_action: None,
        resumable: true,
    }
}

fn run(number: u64) -> RunId {
    RunId::from_draw(number)
}

fn states(changes: &[AlertChange]) -> Vec<&'static str> {
    changes.iter().map(|change| change.state.as_str()).collect()
}

#[test]
fn two_hundred_runs_on_one_broken_tool_are_one_alert() {
    let mut board = Board::default();
    let mut changes = Vec::new();
    for number in 0..200 {
        changes.extend(board.see(problem("tool_overuse"), &run(number), evidence(6.0), SECOND));
    }
    assert_eq!(states(&changes), ["firing"]);
    assert_eq!(board.alerts().next().unwrap().runs.len(), 200);
    let news = board.settle(HOUR, 11 * SECOND);
    assert_eq!(news[0].runs.len(), 200, "the log learns of the runs with the next news");
    assert_eq!(board.settle(HOUR, 22 * SECOND), [], "and only once");
}

#[test]
fn an_alert_resolves_when_no_new_run_shows_it_and_fires_again_with_the_next() {
    let mut board = Board::default();
    assert!(board.see(problem("max_turns"), &run(1), evidence(6.0), 0).is_some());
    assert_eq!(board.settle(HOUR, HOUR - 1), []);
    assert_eq!(states(&board.settle(HOUR, HOUR)), ["resolved"]);
    assert_eq!(board.settle(HOUR, 2 * HOUR), []);
    assert_eq!(
        board.see(problem("max_turns"), &run(1), evidence(6.0), 2 * HOUR),
        None,
        "an old run is no news"
    );
    let again = board.see(problem("max_turns"), &run(2), evidence(6.0), 2 * HOUR).unwrap();
    assert_eq!((again.state, again.runs), (AlertState::Firing, vec![run(2)]));
}

#[test]
fn a_run_that_gets_worse_keeps_its_alert_alive_and_one_that_stands_still_does_not() {
    let mut board = Board::default();
    board.see(problem("repeated_call"), &run(1), evidence(3.0), 0);
    board.see(problem("repeated_call"), &run(1), evidence(9.0), HOUR / 2);
    assert_eq!(states(&board.settle(HOUR, HOUR)), ["firing"], "news");
    board.see(problem("repeated_call"), &run(1), evidence(9.0), HOUR);
    assert_eq!(states(&board.settle(HOUR, HOUR + HOUR / 2)), ["resolved"]);
}

#[test]
fn a_rate_fires_once_and_resolves_when_it_falls_back_whatever_the_time() {
    let mut board = Board::default();
    let rate = problem("error_rate");
    assert_eq!(states(&board.measure(vec![(rate.clone(), evidence(30.0))], 0)), ["firing"]);
    assert!(board.is_firing(&rate));
    assert_eq!(board.measure(vec![(rate.clone(), evidence(31.0))], 2 * HOUR), []);
    assert_eq!(board.settle(HOUR, 4 * HOUR), [], "a rate is not forgotten by time");
    assert_eq!(states(&board.measure(Vec::new(), 5 * HOUR)), ["resolved"]);
    assert!(!board.is_firing(&rate));
}

#[test]
fn alerts_that_differ_in_any_part_of_their_identity_have_ids_of_their_own() {
    let base = problem("max_turns");
    let others = [
        Problem { rule: "tool_overuse".into(), ..base.clone() },
        Problem { agent: None, ..base.clone() },
        Problem { agent: Some("search".into()), tool_name: Some("booker".into()), ..base.clone() },
        Problem { args_hash: Some(String::new()), ..base.clone() },
    ];
    for other in others {
        assert_ne!(other.alert_id(), base.alert_id());
    }
    assert_eq!(base.alert_id(), problem("max_turns").alert_id());
}
