//! How runs end through the loop's own tools, from configuration to tape and back: every run here is recorded and
//! replayed exactly by the kit.

use crate::kit::{Deed, InProcess, Kit, asks, said};
use harness::config::{AgentConfig, ExpectTable, FinishBy};
use serde_json::json;
use std::sync::Arc;
use trace::attribute as name;
use trace::outcome::{StopReason, ToolStatus};
use trace::span::from_tape;

fn by_tool(config: &mut AgentConfig) {
    config.loop_.finish = Some(FinishBy::Tool);
}

/// An agent that looks, pays and answers in one turn.
fn at_once(tool: &Arc<InProcess>) -> Kit {
    let calls =
        [("a", "final_answer", r#"{"answer":"42"}"#), ("b", "look", r#"{"n":1}"#), ("c", "look", "{}")];
    Kit::new([asks(&calls)]).tool(tool).with(by_tool)
}

#[tokio::test]
async fn a_run_ends_by_its_own_tool_on_every_wire_and_replays() {
    for wire in harness::model::NAMES {
        let look = InProcess::reading("look", Deed::Say("seen"));
        let run =
            at_once(&look).with(|config| wire.clone_into(&mut config.model.wire)).run_on_loopback().await;
        assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{wire}");
        assert_eq!(run.outcome.answer.as_deref(), Some("42"), "{wire}");
        assert_eq!((run.requests, look.entered()), (1, 2), "{wire}: the others ran first");
        let statuses: Vec<_> = run.results().iter().map(|result| result.status).collect();
        assert_eq!(statuses, [ToolStatus::Ok; 3], "{wire}: every call has its result");
        assert_eq!(run.count("tool_started"), 2, "{wire}: the loop's own call needs no permit");
    }
}

#[tokio::test]
async fn what_ended_a_run_is_told_with_the_words_of_others_on_its_span() {
    let look = InProcess::reading("look", Deed::Say("seen"));
    let limits = at_once(&look).say([asks(&[("a", "look", "{}")])]);
    for (kit, trigger, aliases) in [
        (at_once(&look), "final_answer", json!(["done_signal", "final_answer"])),
        (
            limits.clone().with(|config| config.budget.max_model_turns = 1),
            "max_model_turns",
            json!(["max_iterations", "step_limit_reached"]),
        ),
        (
            limits.with(|config| config.budget.max_total_tokens = Some(1)),
            "max_total_tokens",
            json!(["budget_exhausted"]),
        ),
    ] {
        let run = kit.run().await;
        let spans = from_tape(&run.tape);
        assert_eq!(spans[0].attributes[name::STOP_TRIGGER], json!(trigger));
        assert_eq!(spans[0].attributes[name::STOP_ALIASES], aliases);
    }
}

#[tokio::test]
async fn an_answer_in_text_is_sent_back_until_it_comes_by_the_tool() {
    let kit =
        Kit::new([said("It is 42."), asks(&[("a", "final_answer", r#"{"answer":"42"}"#)])]).with(by_tool);
    let run = kit.run_on_loopback().await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::Completed, 2));
    let silent = Kit::new([said("It is 42."), said("42!")]).with(by_tool).run().await;
    assert_eq!(silent.outcome.stop_reason, StopReason::NoFinalAnswer);
    assert!(
        silent.outcome.evidence.detail.contains("only final_answer"),
        "{}",
        silent.outcome.evidence.detail
    );
}

#[tokio::test]
async fn wrong_answers_are_sent_back_and_the_right_one_completes() {
    let expect = |config: &mut AgentConfig| {
        config.expect =
            Some(ExpectTable { value: json!("42"), ..serde_json::from_value(json!({"value": 0})).unwrap() });
    };
    let run = Kit::new(["40", "41", "42"].map(said)).with(expect).run_on_loopback().await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::Completed, 3));
    let never = Kit::new(["40", "41", "43", "44"].map(said)).with(expect).run().await;
    assert_eq!((never.outcome.stop_reason, never.outcome.turns), (StopReason::ExpectedMismatch, 4));
    assert_eq!(never.outcome.answer, None, "a wrong answer is none");
}

#[tokio::test]
async fn a_run_that_cannot_complete_says_why() {
    let run = Kit::new([asks(&[("a", "cannot_complete", r#"{"reason":"the shop is closed"}"#)])])
        .with(by_tool)
        .run_on_loopback()
        .await;
    assert_eq!(run.outcome.stop_reason, StopReason::CannotComplete);
    assert_eq!(run.outcome.evidence.detail, "the model says: the shop is closed");
}
