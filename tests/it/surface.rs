//! What programs that embed the loop see: a stage before the run, the state of a turn, and how runs stand.

use crate::kit::{Deed, InProcess, Kit, Recorded, asks, assert_exact, checked, said};
use harness::config::{Inject, OnFailure, PreparationTable};
use harness::surface::{Surface, TurnState, Variables};
use serde_json::json;
use std::sync::Arc;
use trace::outcome::{RunStatus, StopReason};
use trace::tape::Tape;

pub(crate) fn preparing(
    turns: Vec<harness::model::scripted::ScriptTurn>,
    inject: Inject,
    on_failure: OnFailure,
) -> Kit {
    Kit::new(turns).with(|config| {
        let table = json!({ "prompt": "Find out what is known.", "tools": ["look"], "budget": { "max_model_turns": 2 } });
        config.preparation =
            Some(PreparationTable { inject, on_failure, ..serde_json::from_value(table).unwrap() });
    })
}

/// The tapes of the run's folder but the run's own.
async fn others(run: &Recorded) -> Vec<Arc<Tape>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(run.path.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path != run.path && path.to_string_lossy().contains(".tape") {
            let tape = Arc::new(checked(&path));
            assert_exact(&tape).await;
            found.push(tape);
        }
    }
    found
}

#[tokio::test]
async fn a_preparation_is_a_run_of_its_own_whose_answer_the_run_is_told() {
    for (inject, in_prompt, in_task) in
        [(Inject::Task, false, true), (Inject::System, true, false), (Inject::Both, true, true)]
    {
        let look = InProcess::reading("look", Deed::Say("a shelf"));
        let pay = InProcess::writing("pay", Deed::Say("paid"));
        let turns = vec![
            asks(&[("a", "look", "{}")]),
            said("There is a shelf."),
            asks(&[("b", "pay", "{}")]),
            said("Done."),
        ];
        let run = preparing(turns, inject, OnFailure::Stop).tool(&look).tool(&pay).run().await;
        assert_eq!(run.outcome.answer.as_deref(), Some("Done."));
        let [prepared] = &others(&run).await[..] else { panic!("one preparation") };
        let (own, main) = (prepared.started().unwrap(), run.tape.started().unwrap());
        assert_eq!(own.parent_run_id.as_ref(), Some(&main.run_id));
        assert_eq!((own.agent.as_str(), own.limits["turns"]), ("story.preparation", 2.0));
        assert!(!prepared.text(&own.tools).unwrap().contains("\"pay\""), "it sees its own tools alone");
        let found = "What was found in preparation:\nThere is a shelf.";
        assert_eq!(main.task.contains(found), in_task, "{inject:?}: {}", main.task);
        let config: harness::config::AgentConfig =
            serde_json::from_str(run.tape.text(&main.config).unwrap()).unwrap();
        assert_eq!(config.agent.prompt.contains(found), in_prompt, "{inject:?}");
    }
}

#[tokio::test]
async fn a_failed_preparation_degrades_the_run_or_stops_it() {
    let looks = || vec![asks(&[("a", "look", "{}")]), asks(&[("b", "look", r#"{"n":1}"#)])];
    let look = InProcess::reading("look", Deed::Say("nothing"));
    let turns = looks().into_iter().chain([said("Done without.")]).collect();
    let degraded = preparing(turns, Inject::Both, OnFailure::Degrade).tool(&look).run().await;
    assert_eq!(degraded.outcome.answer.as_deref(), Some("Done without."));
    assert_eq!(degraded.tape.started().unwrap().task, "Tell me one.");
    let stopped = preparing(looks(), Inject::Both, OnFailure::Stop).tool(&look).run().await;
    assert_eq!((stopped.outcome.stop_reason, stopped.requests), (StopReason::MaxTurns, 2));
    assert_eq!(stopped.tape.started().unwrap().agent, "story.preparation", "its end is the run's");
}

#[tokio::test]
async fn the_state_of_a_turn_is_read_from_its_tape() {
    let look = InProcess::reading("look", Deed::Say("seen"));
    let turns = [
        asks(&[("a", "look", r#"{"n":1}"#), ("b", "none", "{}")]),
        asks(&[("c", "look", "{}")]),
        said("no"),
        said("yes"),
    ];
    let kit = Kit::new(turns).tool(&look).with(|config| {
        config.expect = Some(serde_json::from_value(json!({ "value": "yes" })).unwrap());
    });
    let run = kit.run().await;
    let state = TurnState::of_tape(&run.tape).unwrap();
    assert_eq!(
        serde_json::to_value(&state).unwrap(),
        json!({
            "prompt": "Tell me one.",
            "final_answer": "yes",
            "retries": 1,
            "used_tools": ["look", "none"],
            "steps": [
                { "turn": 1, "tool_name": "look", "arguments": "{\"n\":1}", "status": "ok", "reference": "$$r1" },
                { "turn": 1, "tool_name": "none", "arguments": "{}", "status": "error", "reference": "$$r2" },
                { "turn": 2, "tool_name": "look", "arguments": "{}", "status": "ok", "reference": "$$r3" },
            ],
        })
    );
}

#[tokio::test]
async fn failures_of_several_runs_end_as_one_that_cannot_complete() {
    let mut surface = Surface::default();
    assert_eq!(surface.variables(), Variables { last_answer: None, status: None, failed_turns: 0 });
    let look = InProcess::reading("look", Deed::Say("seen"));
    let good = Kit::new([said("42")]).run().await;
    let bad =
        Kit::new([asks(&[("a", "look", "{}")])]).tool(&look).with(|config| config.budget.max_model_turns = 1);
    let bad = bad.run().await;
    for run in [&good, &bad, &bad] {
        surface.take(&run.outcome);
    }
    let stands = surface.variables();
    assert_eq!((stands.status, stands.failed_turns), (Some(RunStatus::Stopped), 2));
    assert_eq!((surface.last_result(), stands.last_answer.as_deref()), (Some("42"), Some("42")));
    let end = surface.finalize_failures().unwrap();
    assert_eq!(
        (end.stop_reason, end.status, end.answer),
        (StopReason::CannotComplete, RunStatus::Failed, None)
    );
    assert!(end.evidence.detail.starts_with("2 failed: max_turns: "), "{}", end.evidence.detail);
    assert_eq!((surface.finalize_failures(), surface.variables().failed_turns), (None, 0));
}
