//! Planners, goals and single shots: the same core under other configurations. Every run is replayed exactly.

use crate::kit::{Deed, InProcess, Kit, asks, said};
use harness::config::{AgentConfig, GoalTable};
use harness::machine::Run;
use std::path::Path;
use std::sync::Arc;
use trace::fact::Fact;
use trace::message::{Part, tool_calls};
use trace::outcome::{StopReason, ToolStatus};

fn planner(turns: &[&str]) -> Kit {
    Kit::new(turns.iter().map(|text| said(text)).collect::<Vec<_>>())
        .with(|config| config.loop_.planner = true)
}

#[tokio::test]
async fn a_model_without_tool_calls_acts_by_plans_on_every_wire() {
    for wire in harness::model::NAMES {
        let look = InProcess::reading("look", Deed::Say("seen"));
        let kit = planner(&[
            r#"{"tool":"look","arguments":{"n":1}}"#,
            "```json\n{\"tool\":\"final_answer\",\"prompt\":\"I saw it\"}\n```",
        ]);
        let run =
            kit.tool(&look).with(|config| wire.clone_into(&mut config.model.wire)).run_on_loopback().await;
        assert_eq!(run.outcome.answer.as_deref(), Some("I saw it"), "{wire}: {:?}", run.outcome);
        assert_eq!((run.outcome.stop_reason, look.entered()), (StopReason::Completed, 1), "{wire}");
        let Some(Fact::ModelAsked(asked)) = run.tape.lines().iter().map(|line| &line.fact).nth(1) else {
            panic!("asked")
        };
        let sent: String =
            asked.fragments.iter().chain([&asked.frame]).filter_map(|hash| run.tape.text(hash)).collect();
        assert!(sent.contains("Does look."), "{wire}: the tools are told: {sent}");
        assert!(!sent.contains("\"tools\""), "{wire}: and not offered: {sent}");
    }
}

#[tokio::test]
async fn what_is_no_plan_is_an_error_and_is_never_carried_out() {
    let look = InProcess::reading("look", Deed::Say("seen"));
    let prose = r#"I will call {"tool":"look","arguments":{}} now."#;
    let kit =
        planner(&[prose, "Done, I think.", r#"{"tool":"final_answer","prompt":"nothing"}"#]).tool(&look);
    let run = kit.run().await;
    assert_eq!((run.outcome.stop_reason, look.entered()), (StopReason::Completed, 0));
    assert_eq!((run.outcome.turns, run.outcome.tool_calls), (3, 1));

    let hopeless = planner(&[prose; 3]).tool(&look).with(|config| config.budget.max_errors = 2).run().await;
    assert_eq!((hopeless.outcome.stop_reason, look.entered()), (StopReason::ErrorBudget, 0));
    let evidence = hopeless.outcome.evidence;
    assert_eq!(
        (evidence.rule.as_str(), evidence.threshold, evidence.observed),
        ("max_errors", Some(2.0), Some(3.0))
    );
}

pub(crate) fn goal(every: u32) -> GoalTable {
    GoalTable {
        objective: "The shelf is full".to_owned(),
        done_condition: "look says so".to_owned(),
        validation: "call look".to_owned(),
        plan: vec!["look".to_owned(), "pay".to_owned()],
        stop_rules: vec!["the shop is closed".to_owned()],
        checkpoint_every: every,
    }
}

/// The run as its tape leaves it.
pub(crate) fn folded(tape: &trace::tape::Tape) -> Run {
    let started = tape.started().unwrap();
    let config: AgentConfig = serde_json::from_str(tape.text(&started.config).unwrap()).unwrap();
    let tools: Vec<harness::tool::ToolSpec> =
        serde_json::from_str(tape.text(&started.tools).unwrap()).unwrap();
    Run::fold(Arc::new(config), Arc::new(tools), tape.lines().iter().map(|line| (line.at_ns, &line.fact)))
}

#[tokio::test]
async fn a_goal_is_checked_every_few_turns_and_its_state_is_folded_from_the_tape() {
    let look = InProcess::reading("look", Deed::Say("half full"));
    let pay = InProcess::writing("pay", Deed::Fail(trace::outcome::FaultClass::Permanent));
    let turns = [
        asks(&[("a", "look", "{}")]),
        asks(&[("b", "pay", r#"{"n":1}"#)]),
        asks(&[("c", "pay", r#"{"n":2}"#)]),
        asks(&[("d", "pay", r#"{"n":3}"#)]),
        asks(&[("e", "final_answer", r#"{"answer":"full","confidence":79}"#)]),
        asks(&[("f", "final_answer", r#"{"answer":"full","confidence":80}"#)]),
    ];
    let kit = Kit::new(turns).tool(&look).tool(&pay).with(|config| config.goal = Some(goal(2)));
    let run = kit.run_on_loopback().await;
    assert_eq!(run.outcome.stop_reason, StopReason::ConfidenceThreshold);
    let run = folded(&run.tape);
    let goal = run.state().goal.as_ref().unwrap();
    let checks: Vec<_> = goal
        .checkpoints
        .iter()
        .map(|check| {
            (check.turn, check.is_valid, check.evidence.join(", "), check.is_within_budget, check.is_done)
        })
        .collect();
    assert_eq!(
        checks,
        [
            (2, true, "look at turn 1 call 0".to_owned(), true, false),
            (4, false, String::new(), true, false),
            (6, true, String::new(), true, true),
        ]
    );
    assert_eq!(goal.progress[1].calls, ["pay error"]);
    assert!(goal.budget["turns"] >= 10.0 && goal.goal.plan.len() == 2 && goal.goal.stop_rules.len() == 1);
    let text = serde_json::to_string(goal).unwrap();
    assert_eq!(&serde_json::from_str::<harness::machine::Goal>(&text).unwrap(), goal, "{text}");
    let told: Vec<String> = run.state().messages.iter().map(trace::message::Message::joined_text).collect();
    assert!(told[0].contains("Objective: The shelf is full\nDone when: look says so"), "{}", told[0]);
    let asked = told.iter().filter(|text| text.starts_with("Checkpoint.")).count();
    assert_eq!(asked, 2, "the model is asked at each check but the last");
}

#[test]
fn a_goal_without_objective_or_done_condition_is_refused() {
    let why = |goal: &str| {
        let text = format!("[model]\nname = \"m\"\n[goal]\n{goal}");
        AgentConfig::parse(&text, Path::new("agent.toml")).unwrap_err().to_string()
    };
    assert!(why("done_condition = \"x\"").contains("`goal.objective`: is missing"));
    assert!(why("objective = \"tidy up\"").contains("`goal.done_condition`: is missing"));
    assert!(
        why("objective = \"x\"\ndone_condition = \"y\"\ncheckpoint_every = 0")
            .contains("goal.checkpoint_every")
    );
}

#[tokio::test]
async fn a_single_shot_is_one_round_of_calls_and_its_end() {
    let look = InProcess::reading("look", Deed::Say("seen"));
    let one = |kit: Kit| kit.tool(&look).with(|config| config.budget.max_model_turns = 1);
    let answered = one(Kit::new([said("At once.")])).run().await;
    assert_eq!(answered.outcome.stop_reason, StopReason::Completed);
    let called = one(Kit::new([asks(&[("a", "look", "{}"), ("b", "look", r#"{"n":1}"#)])])).run().await;
    assert_eq!((called.outcome.stop_reason, called.outcome.turns), (StopReason::MaxTurns, 1));
    assert_eq!(called.results().iter().map(|result| result.status).collect::<Vec<_>>(), [ToolStatus::Ok; 2]);
}

#[tokio::test]
async fn a_plan_stands_in_the_conversation_as_the_call_it_is() {
    let look = InProcess::reading("look", Deed::Say("seen"));
    let kit = planner(&[r#"{"tool":"look"}"#, r#"{"tool":"final_answer","prompt":"x"}"#]).tool(&look);
    let run = folded(&kit.run().await.tape);
    let calls: Vec<String> = run
        .state()
        .messages
        .iter()
        .flat_map(|message| tool_calls(&message.parts).map(|call| call.tool_name.clone()).collect::<Vec<_>>())
        .collect();
    assert_eq!(calls, ["look", "final_answer"]);
    let has_text = run.state().messages.iter().skip(2).any(|message| {
        message.parts.iter().any(|part| matches!(part, Part::Text { text } if text.contains("\"tool\"")))
    });
    assert!(!has_text, "the words of the plan are not kept beside the call");
}
