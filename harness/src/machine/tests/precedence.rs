//! Of several reasons that hold at once the strongest is told: every pair of them, made to hold in one step.
//!
//! Left out are pairs that cannot hold at once. An answer that ends the run by itself leaves no next turn, so it meets
//! neither a limit nor a tool. While a call waits for a person the turn is not over, so nothing but what its siblings
//! came to can hold beside it. And an answer that is not the expected one does not count beside one that is.

use super::person::question;
use super::*;
use StopReason::*;
use trace::fact::Wants;

/// How a call ends that makes a reason hold.
type End = (ToolStatus, Option<FailureStage>, Option<FaultClass>);

const WORKS: End = (ToolStatus::Ok, None, None);
const FAILS: End = (ToolStatus::Error, Some(FailureStage::Execution), None);

/// When in the step it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// A person's word, any time.
    Anytime,
    /// With the answer.
    Heard,
    /// With the result of a call.
    Result,
    /// As long as a call waits.
    Waiting,
    /// When the turn's results are in.
    Over,
}

/// A reason and what makes it hold on the second turn of a run.
#[derive(Debug, Clone, Copy)]
struct Cause {
    reason: StopReason,
    when: When,
    /// The table of agent.toml and its line.
    setting: Option<(&'static str, &'static str)>,
    /// Calls of the answer, each with how it ends; the loop ends its own itself.
    calls: &'static [(&'static str, &'static str, End)],
}

const fn cause(reason: StopReason, when: When) -> Cause {
    Cause { reason, when, setting: None, calls: &[] }
}

/// Every reason that a machine can decide between the request and the end of its turn, in the order in which their calls
/// stand in the answer: a conclusion first, since nothing new begins once a stop is decided, and repeats last.
const CAUSES: [Cause; 18] = [
    Cause {
        setting: EXPECT,
        calls: &[("final_answer", r#"{"answer":"41"}"#, WORKS)],
        ..cause(ExpectedMismatch, When::Over)
    },
    Cause {
        setting: EXPECT,
        calls: &[("final_answer", r#"{"answer":"42"}"#, WORKS)],
        ..cause(Completed, When::Over)
    },
    Cause {
        setting: Some(("loop", "confidence_threshold = 80")),
        calls: &[("final_answer", r#"{"answer":"42","confidence":80}"#, WORKS)],
        ..cause(ConfidenceThreshold, When::Over)
    },
    Cause {
        calls: &[("cannot_complete", r#"{"reason":"no key"}"#, WORKS)],
        ..cause(CannotComplete, When::Over)
    },
    cause(Aborted, When::Anytime),
    cause(Refused, When::Heard),
    cause(ContextExhausted, When::Heard),
    cause(OutputTruncated, When::Heard),
    Cause {
        calls: &[("look", "1", (ToolStatus::Error, Some(FailureStage::Execution), Some(FaultClass::Auth)))],
        ..cause(AuthRequired, When::Result)
    },
    Cause {
        calls: &[("look", "2", (ToolStatus::Error, Some(FailureStage::Execution), Some(FaultClass::Fatal)))],
        ..cause(FatalToolError, When::Result)
    },
    Cause {
        setting: Some(("policy", "deny_is_terminal = true")),
        calls: &[("look", "3", (ToolStatus::Denied, Some(FailureStage::Permission), None))],
        ..cause(PermissionDenied, When::Result)
    },
    Cause { calls: &[("peek", "4", WORKS)], ..cause(AwaitingApproval, When::Waiting) },
    Cause { calls: &[("peek", "5", WORKS)], ..cause(AwaitingInput, When::Waiting) },
    Cause { setting: Some(("budget", "max_wall_time_seconds = 3")), ..cause(Timeout, When::Over) },
    Cause { setting: Some(("budget", "max_model_turns = 2")), ..cause(MaxTurns, When::Over) },
    Cause { setting: Some(("budget", "max_total_tokens = 30")), ..cause(BudgetExceeded, When::Over) },
    Cause {
        setting: Some(("budget", "max_errors = 0")),
        calls: &[("look", "6", FAILS)],
        ..cause(ErrorBudget, When::Over)
    },
    Cause {
        calls: &[("look", "7", WORKS), ("look", "7", WORKS), ("look", "7", WORKS)],
        ..cause(RepeatedCalls, When::Over)
    },
];

const EXPECT: Option<(&str, &str)> = Some(("expect", "value = \"42\"\nretries = 0"));

fn can_hold_at_once(one: &Cause, other: &Cause) -> bool {
    let either = |when: When, reason: StopReason| {
        (one.when == when && other.reason == reason) || (other.when == when && one.reason == reason)
    };
    let expected = [Completed, ConfidenceThreshold];
    let is_met =
        |one: &Cause, other: &Cause| one.reason == ExpectedMismatch && expected.contains(&other.reason);
    match (one.when, other.when) {
        (When::Heard, _) | (_, When::Heard) => either(When::Heard, Aborted),
        (When::Waiting, When::Result) | (When::Result, When::Waiting) => true,
        (When::Waiting, _) | (_, When::Waiting) => either(When::Waiting, Aborted),
        _ => !is_met(one, other) && !is_met(other, one),
    }
}

/// The settings of both, each table once.
fn settings(causes: &[&Cause]) -> String {
    let mut tables = BTreeMap::from([
        ("loop", vec!["finish = \"tool\""]),
        ("budget", vec!["max_parallel_tool_calls = 20"]),
    ]);
    for (table, line) in causes.iter().filter_map(|cause| cause.setting) {
        let lines = tables.entry(table).or_default();
        lines.push(line);
        lines.dedup();
    }
    tables.iter().map(|(table, lines)| format!("[{table}]\n{}\n", lines.join("\n"))).collect()
}

/// A turn in which both hold, and what is told then.
fn told_of(causes: &[&Cause]) -> Outcome {
    let mut told = Told::new(&settings(causes));
    told.answered("this was cut o", &[], Finish::Length);
    let mut calls: Vec<_> = causes.iter().flat_map(|cause| cause.calls).copied().collect();
    // Something that runs stands before the repeats, so that a stage is under way whatever the causes are.
    let own = calls.iter().take_while(|(name, ..)| crate::tool::reserved::NAMES.contains(name)).count();
    calls.insert(own, ("peek", "0", WORKS));
    let asked: Vec<(&str, &str)> = calls.iter().map(|(name, arguments, _)| (*name, *arguments)).collect();
    let heard = causes.iter().find(|cause| cause.when == When::Heard).map(|cause| match cause.reason {
        Refused => Finish::Refusal,
        ContextExhausted => Finish::ContextFull,
        _ => Finish::Length,
    });
    told.answered("", &asked, heard.clone().unwrap_or(Finish::ToolUse));
    for _ in 0..calls.len() {
        let Step::Refuse(own) = told.run.next() else { break };
        for one in own {
            told.finished_at(one.key, &one.call, one.status, one.stage, None, &one.message);
        }
    }
    if causes.iter().any(|cause| cause.reason == Aborted) {
        told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    }
    // A stage that was begun before the cancellation comes to its end; calls of an answer that ends the run never begin.
    let open = calls.iter().enumerate().skip(own).filter(|_| heard.is_none());
    for (index, (name, arguments, (status, stage, class))) in open {
        let key = CallKey { turn: 2, index: u32::try_from(index).unwrap() };
        let call = ToolCall {
            call_id: format!("c{index}"),
            tool_name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        };
        let wants = match (*name, *arguments) {
            ("peek", "4") => Some(Wants::Approval),
            ("peek", "5") => Some(Wants::Input),
            _ => None,
        };
        match wants {
            Some(wants) => told.feed(Fact::PersonAsked(Box::new(question(key, &call, wants)))),
            None => told.finished_at(key, &call, *status, *stage, *class, "it is so"),
        };
    }
    told.work(ToolStatus::Ok, "late");
    assert_eq!(told.refolded().next(), told.run.next());
    match told.run.next() {
        Step::Done(outcome) | Step::Person { outcome, .. } => *outcome,
        other => panic!("ends, not {other:?}"),
    }
}

#[test]
fn of_any_two_reasons_that_hold_in_one_step_the_stronger_is_told() {
    let mut pairs = 0;
    for (at, one) in CAUSES.iter().enumerate() {
        assert_eq!(told_of(&[one]).stop_reason, one.reason, "{} alone", one.reason);
        for other in CAUSES[at + 1..].iter().filter(|other| can_hold_at_once(one, other)) {
            let outcome = told_of(&[one, other]);
            let wanted = one.reason.strongest(other.reason);
            assert_eq!(outcome.stop_reason, wanted, "{} and {}", one.reason, other.reason);
            pairs += 1;
        }
    }
    assert!(pairs >= 80, "only {pairs} pairs were tried");
}

#[test]
fn a_rule_that_ends_the_run_is_told_before_a_limit_of_the_same_rank() {
    let mut told = Told::new("[budget]\nmax_tool_calls = 1\nmax_total_tokens = 15");
    told.answered("", &[("write", "1"), ("write", "2")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    assert_eq!(stop_of(&told), (BudgetExceeded, "max_tool_calls".to_owned()));
}
