//! How runs end: the same stories on both wires, by a script in this process and by a provider on loopback.

use crate::kit::{Deed, InProcess, Kit, Recorded, asks, fault, response, said, status};
use harness::config::{PolicyRule, Verdict};
use harness::model::scripted::ScriptTurn;
use trace::fact::Fact;
use trace::message::Finish;
use trace::outcome::{FailureStage, FaultClass, StopReason, ToolStatus};

/// Runs a story four ways; each must end the same.
async fn told(kit: &Kit) -> Vec<Recorded> {
    let mut runs = Vec::new();
    for (wire, stream) in [("chat", true), ("chat", false), ("messages", true), ("messages", false)] {
        let kit = kit.clone().with(|config| {
            wire.clone_into(&mut config.model.wire);
            config.model.stream = stream;
        });
        runs.push(match stream {
            true => kit.run_on_loopback().await,
            false => kit.run().await,
        });
    }
    runs
}

fn lookup() -> std::sync::Arc<InProcess> {
    InProcess::reading("lookup", Deed::Say("{\"found\":1}"))
}

/// The model asks for another lookup each time.
fn endless(turns: usize) -> Vec<ScriptTurn> {
    (0..turns).map(|n| asks(&[(&format!("call-{n}"), "lookup", &format!("{{\"n\":{n}}}"))])).collect()
}

#[tokio::test]
async fn a_run_that_looks_something_up_completes_with_the_answer() {
    let kit = Kit::new([asks(&[("a", "lookup", "{}")]), said("There is one.")]).tool(&lookup());
    for run in told(&kit).await {
        assert_eq!(run.outcome.stop_reason, StopReason::Completed);
        assert_eq!(run.outcome.answer.as_deref(), Some("There is one."));
        assert_eq!((run.outcome.turns, run.outcome.tool_calls, run.requests), (2, 1, 2));
        assert_eq!(run.results()[0].status, ToolStatus::Ok);
        assert_eq!(run.outcome.usage.total(), Some(240));
    }
}

#[tokio::test]
async fn a_run_of_at_most_n_turns_asks_the_model_exactly_n_times() {
    for turns in [1_usize, 3] {
        let limit = u32::try_from(turns).unwrap();
        let kit = Kit::new(endless(turns + 2)).tool(&lookup()).with(|c| c.budget.max_model_turns = limit);
        for run in told(&kit).await {
            assert_eq!(run.outcome.stop_reason, StopReason::MaxTurns);
            assert_eq!(run.outcome.trigger, "max_model_turns");
            assert_eq!((run.outcome.turns, run.requests), (limit, turns));
            assert_eq!(run.results().len(), turns, "the last turn's calls still have their results");
        }
    }
}

#[tokio::test]
async fn each_budget_that_is_used_up_names_itself_with_limit_and_use() {
    type Change = fn(&mut harness::config::AgentConfig);
    let rows: [(&str, Change, f64, f64, usize); 6] = [
        ("max_input_tokens", |c| c.budget.max_input_tokens = Some(150), 150.0, 200.0, 2),
        ("max_output_tokens", |c| c.budget.max_output_tokens = Some(20), 20.0, 20.0, 1),
        ("max_total_tokens", |c| c.budget.max_total_tokens = Some(200), 200.0, 240.0, 2),
        (
            "max_total_cost",
            |c| {
                c.model.price = Some(harness::config::Price {
                    input: 10.0,
                    output: 50.0,
                    cache_read: None,
                    cache_write: None,
                });
                c.budget.max_total_cost = Some(0.003);
            },
            0.003,
            0.004,
            2,
        ),
        ("max_tool_calls", |c| c.budget.max_tool_calls = 2, 2.0, 3.0, 3),
        ("max_total_tokens", |c| c.budget.max_total_tokens = Some(0), 0.0, 0.0, 0),
    ];
    for (name, change, limit, used, requests) in rows {
        let kit = Kit::new(endless(6)).tool(&lookup()).with(change);
        for run in told(&kit).await {
            let outcome = &run.outcome;
            assert_eq!((outcome.stop_reason, outcome.trigger.as_str()), (StopReason::BudgetExceeded, name));
            assert_eq!(outcome.evidence.threshold, Some(limit), "{name}");
            assert!(
                (outcome.evidence.observed.unwrap() - used).abs() < 1e-9,
                "{name}: {:?}",
                outcome.evidence
            );
            assert_eq!(run.requests, requests, "{name}");
            assert!(outcome.evidence.next_safe_action.is_some());
        }
    }
}

#[tokio::test]
async fn the_same_call_with_the_same_result_three_times_stops_the_run() {
    let turns = (0..9).map(|_| asks(&[("again", "lookup", "{\"n\":1}")]));
    let kit = Kit::new(turns).tool(&lookup());
    for run in told(&kit).await {
        assert_eq!(run.outcome.stop_reason, StopReason::RepeatedCalls);
        assert_eq!((run.requests, run.outcome.evidence.spans.len()), (3, 3));
    }
}

#[tokio::test]
async fn a_call_that_cannot_run_gets_its_error_and_the_model_may_go_on() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let rows = [
        ("no such tool", "steal", "{}", FailureStage::UnknownTool, "there is no tool `steal`"),
        ("no such argument", "pay", "{\"amount\":3}", FailureStage::Validation, "amount"),
        ("an argument of another type", "pay", "{\"n\":\"x\"}", FailureStage::Validation, "/n"),
    ];
    for (name, tool, arguments, stage, told_why) in rows {
        let kit = Kit::new([asks(&[("a", tool, arguments)]), said("Sorry.")]).tool(&pay);
        for run in told(&kit).await {
            let results = run.results();
            assert_eq!(
                (results[0].status, results[0].failure_stage),
                (ToolStatus::Error, Some(stage)),
                "{name}"
            );
            assert!(results[0].content.contains(told_why), "{name}: {}", results[0].content);
            assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{name}");
            assert_eq!(run.count("tool_started"), 0, "{name}");
        }
    }
    assert_eq!(pay.entered(), 0);
}

#[tokio::test]
async fn arguments_that_are_no_json_get_their_error() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    // Only the Chat wire carries arguments as text, so only there can they be broken.
    let kit = Kit::new([asks(&[("a", "pay", "{\"n\":")]), said("Sorry.")]).tool(&pay);
    for run in [kit.run().await, kit.run_on_loopback().await] {
        assert_eq!(run.results()[0].failure_stage, Some(FailureStage::Validation));
        assert!(run.results()[0].content.contains("not JSON"));
        assert_eq!(pay.entered(), 0);
    }
}

#[tokio::test]
async fn no_call_of_an_answer_that_was_cut_off_is_run() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let cut =
        || ScriptTurn::Answer(response("", &[("a", "pay", "{}"), ("b", "pay", "{\"n\":1}")], Finish::Length));
    for run in told(&Kit::new([cut(), said("Shorter.")]).tool(&pay)).await {
        assert_eq!((run.outcome.stop_reason, run.results().len()), (StopReason::Completed, 2));
    }
    for run in told(&Kit::new([cut(), cut(), said("never asked")]).tool(&pay)).await {
        assert_eq!((run.outcome.stop_reason, run.results().len()), (StopReason::OutputTruncated, 4));
        assert_eq!(run.requests, 2);
    }
    assert_eq!(pay.entered(), 0);
}

#[tokio::test]
async fn a_failing_or_panicking_tool_has_one_result_and_its_neighbours_run() {
    for (deed, word) in [(Deed::Fail(FaultClass::Permanent), "it does not work"), (Deed::Panic, "panicked")] {
        let broken = InProcess::writing("broken", deed);
        let calls = [("a", "lookup", "{}"), ("a", "broken", "{}"), ("b", "lookup", "{\"n\":2}")];
        let kit = Kit::new([asks(&calls), said("One failed.")]).tool(&broken).tool(&lookup());
        let runs = [kit.run().await, kit.run().await];
        for run in &runs {
            let statuses: Vec<ToolStatus> = run.results().iter().map(|result| result.status).collect();
            assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Error, ToolStatus::Ok]);
            assert!(run.results()[1].content.contains(word), "{}", run.results()[1].content);
        }
        assert_eq!(broken.entered(), 2, "once a run");
    }
}

#[tokio::test]
async fn a_fatal_failure_or_refused_credentials_of_a_tool_end_the_run() {
    for (class, reason) in
        [(FaultClass::Fatal, StopReason::FatalToolError), (FaultClass::Auth, StopReason::AuthRequired)]
    {
        let broken = InProcess::writing("broken", Deed::Fail(class));
        let pay = InProcess::writing("pay", Deed::Say("paid"));
        let calls = [("a", "broken", "{}"), ("b", "pay", "{}")];
        for run in told(&Kit::new([asks(&calls), said("never asked")]).tool(&broken).tool(&pay)).await {
            assert_eq!((run.outcome.stop_reason, run.requests), (reason, 1));
            assert_eq!(
                run.results()[1].status,
                ToolStatus::Cancelled,
                "what was not begun is not begun any more"
            );
        }
        assert_eq!(pay.entered(), 0);
    }
}

#[tokio::test]
async fn too_many_failures_end_the_run() {
    let broken = InProcess::writing("broken", Deed::Fail(FaultClass::Permanent));
    let turns = (0..9).map(|n| asks(&[("a", "broken", &format!("{{\"n\":{n}}}"))]));
    for run in told(&Kit::new(turns).tool(&broken).with(|c| c.budget.max_errors = 2)).await {
        assert_eq!(
            (run.outcome.stop_reason, run.outcome.trigger.as_str()),
            (StopReason::ErrorBudget, "max_errors")
        );
        assert_eq!(run.requests, 3);
    }
}

#[tokio::test]
async fn what_policy_denies_is_not_done_and_not_begun() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let rule =
        PolicyRule { tool: "pay".to_owned(), decision: Verdict::Deny, reason: "not on Sundays".to_owned() };
    let kit = Kit::new([asks(&[("a", "pay", "{}")]), said("I must not.")]).tool(&pay);
    let denied = kit.with(|config| config.policy.rules.push(rule));
    for run in told(&denied).await {
        let results = run.results();
        assert_eq!(
            (results[0].status, results[0].failure_stage),
            (ToolStatus::Denied, Some(FailureStage::Permission))
        );
        assert_eq!(results[0].permission.as_deref(), Some("deny:policy.rule[0]"));
        assert!(results[0].content.contains("not on Sundays"));
        assert_eq!((run.outcome.stop_reason, run.count("tool_started")), (StopReason::Completed, 0));
    }
    for run in told(&denied.with(|config| config.policy.deny_is_terminal = true)).await {
        assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::PermissionDenied, 1));
    }
    assert_eq!(pay.entered(), 0);
}

#[tokio::test]
async fn every_call_that_ran_had_its_decision_recorded_before() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let kit = Kit::new([asks(&[("a", "pay", "{}"), ("b", "lookup", "{}")]), said("Done.")])
        .tool(&pay)
        .tool(&lookup());
    for run in told(&kit).await {
        for result in run.results() {
            let started = run.tape.lines().iter().find_map(|line| match &line.fact {
                Fact::ToolStarted(fact) if fact.key == result.key => Some(fact),
                _ => None,
            });
            let started = started.unwrap();
            assert_eq!((started.permission.as_str(), started.synced), ("allow", started.tool_name == "pay"));
        }
    }
}

#[tokio::test]
async fn refused_credentials_stop_the_run_at_once() {
    for first in [status(401, None), status(403, None)] {
        for run in told(&Kit::new([first, said("never asked")])).await {
            assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::AuthRequired, 1));
            assert_eq!(run.count("waited"), 0);
        }
    }
    let run = Kit::new([fault(FaultClass::Auth), said("never asked")]).run().await;
    assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::AuthRequired, 1));
}

#[tokio::test]
async fn a_model_that_says_nothing_is_reminded_once_and_then_the_run_ends() {
    let mute = || ScriptTurn::Answer(response("", &[], Finish::EndTurn));
    for run in told(&Kit::new([mute(), said("Here it is.")])).await {
        assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::Completed, 2));
    }
    for run in told(&Kit::new([mute(), mute()])).await {
        assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::NoFinalAnswer, 2));
    }
}
