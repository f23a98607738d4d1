//! What is told to whom and when, with a clock that the test turns.

use super::*;
use crate::alert::Problem;
use trace::id::RunId;
use trace::ops::AlertState;
use trace::outcome::Evidence;

const HOUR: i64 = 3600 * SECOND_NS;
const REPEAT: i64 = 4 * HOUR;

fn alert(rule: &str, state: AlertState, fired_at_ns: i64) -> Alert {
    let problem = Problem {
        rule: rule.into(),
        agent: Some("booker".into()),
        tool_name: Some("search".into()),
        args_hash: None,
    };
    let evidence = Evidence {
        rule: rule.into(),
        detail: "`search` was called 6 times in one run; more than 5 is unusual".into(),
        threshold: Some(5.0),
        observed: Some(6.0),
        spans: Vec::new(),
        tokens_wasted: Some(120),
        next_safe_action: Some("compare the arguments".into()),
        resumable: true,
    };
    let resolved_at = (state == AlertState::Resolved).then_some(fired_at_ns + HOUR);
    Alert::remembered(
        problem,
        state,
        Some(evidence),
        vec![RunId::new("r1")],
        [fired_at_ns, fired_at_ns],
        resolved_at,
    )
}

fn count(alerts: &[Alert], told: &Told, now_ns: i64) -> usize {
    due(alerts, told, "w", REPEAT, now_ns).len()
}

#[test]
fn a_page_goes_out_when_something_begins_ends_begins_again_or_goes_on_for_long() {
    let mut told = Told::default();
    let firing = [alert("tool_overuse", AlertState::Firing, HOUR)];
    assert_eq!(count(&firing, &told, HOUR), 1);
    told.note("w", &firing, HOUR);
    assert_eq!(count(&firing, &told, 2 * HOUR), 0, "told once is enough");
    assert_eq!(count(&firing, &told, 5 * HOUR), 1, "still firing after the repeat interval");
    let resolved = [alert("tool_overuse", AlertState::Resolved, HOUR)];
    assert_eq!(count(&resolved, &told, 2 * HOUR), 1);
    told.note("w", &resolved, 2 * HOUR);
    assert_eq!(count(&resolved, &told, 9 * HOUR), 0);
    assert_eq!(count(&[alert("tool_overuse", AlertState::Firing, 9 * HOUR)], &told, 9 * HOUR), 1);
    assert_eq!(due(&firing, &told, "another", REPEAT, HOUR).len(), 1, "each webhook is told for itself");
}

#[test]
fn what_was_over_before_anybody_heard_is_still_told_unless_it_is_old() {
    let resolved = [alert("tool_overuse", AlertState::Resolved, HOUR)];
    assert_eq!(count(&resolved, &Told::default(), 2 * HOUR + 1), 1);
    assert_eq!(count(&resolved, &Told::default(), 9 * HOUR), 0);
}

#[test]
fn alerts_of_one_rule_and_agent_are_told_together() {
    let mut other = alert("tool_overuse", AlertState::Firing, HOUR);
    other.problem.tool_name = Some("book".into());
    let alerts = [
        alert("tool_overuse", AlertState::Firing, HOUR),
        other,
        alert("max_turns", AlertState::Firing, HOUR),
    ];
    let groups = due(&alerts, &Told::default(), "w", REPEAT, HOUR);
    let sizes: Vec<_> = groups.iter().map(|(group, members)| (group.rule.as_str(), members.len())).collect();
    assert_eq!(sizes, [("max_turns", 1), ("tool_overuse", 2)]);
}

#[test]
fn a_silence_holds_for_what_it_names() {
    let one = alert("max_turns", AlertState::Firing, HOUR);
    for (rule, agent, silenced) in [
        (None, None, true),
        (Some("max_turns"), None, true),
        (Some("max_turns"), Some("booker"), true),
        (Some("error_rate"), None, false),
        (None, Some("other"), false),
    ] {
        let silence = Silence { rule: rule.map(str::to_owned), agent: agent.map(str::to_owned) };
        assert_eq!(is_silenced(&one, &[silence]), silenced, "{rule:?} {agent:?}");
    }
}

#[test]
fn what_was_told_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = trace::home::Home::open(folder.path().to_owned()).unwrap();
    let mut told = Told::read(&home);
    told.note(&webhook_key("http://x/secret"), &[alert("max_turns", AlertState::Firing, 1)], 2);
    told.write(&home).unwrap();
    assert_eq!(Told::read(&home), told);
    assert!(!std::fs::read_to_string(home.root().join("delivered.json")).unwrap().contains("secret"));
}

#[test]
fn failures_are_waited_out_longer_each_time_up_to_five_minutes() {
    let mut backoff = Backoff::default();
    let pauses: Vec<i64> = (0..12)
        .map(|_| {
            backoff.fail(0);
            backoff.not_before_ns / SECOND_NS
        })
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

#[test]
fn the_body_is_what_alertmanager_would_send() {
    let group = Group { rule: "tool_overuse".into(), agent: Some("booker".into()) };
    let body = webhook::body(
        "pager",
        &group,
        &[alert("tool_overuse", AlertState::Firing, HOUR)],
        "http://127.0.0.1:7878",
    );
    insta::assert_json_snapshot!(body, @r#"
    {
      "alerts": [
        {
          "annotations": {
            "latest_run": "r1",
            "next_safe_action": "compare the arguments",
            "runs": "1",
            "summary": "`search` was called 6 times in one run; more than 5 is unusual",
            "tokens_wasted": "120"
          },
          "endsAt": "0001-01-01T00:00:00Z",
          "fingerprint": "276e07c2c9e00fcd",
          "generatorURL": "http://127.0.0.1:7878/runs/r1",
          "labels": {
            "agent": "booker",
            "alertname": "tool_overuse",
            "tool_name": "search"
          },
          "startsAt": "1970-01-01T01:00:00.000Z",
          "status": "firing"
        }
      ],
      "commonAnnotations": {
        "latest_run": "r1",
        "next_safe_action": "compare the arguments",
        "runs": "1",
        "summary": "`search` was called 6 times in one run; more than 5 is unusual",
        "tokens_wasted": "120"
      },
      "commonLabels": {
        "agent": "booker",
        "alertname": "tool_overuse",
        "tool_name": "search"
      },
      "externalURL": "http://127.0.0.1:7878",
      "groupKey": "{}:{agent=\"booker\", alertname=\"tool_overuse\"}",
      "groupLabels": {
        "agent": "booker",
        "alertname": "tool_overuse"
      },
      "receiver": "pager",
      "status": "firing",
      "truncatedAlerts": 0,
      "version": "4"
    }
    "#);
}
