//! A run goes on where it stopped: after a crash at any line, after a limit, and never twice at once.

use crate::kit::{self, Deed, InProcess, Kit, Recorded, asks, assert_exact, said};
use crate::reseal::OpenLines;
use harness::driver::ResumeError;
use harness::model::scripted::ScriptTurn;
use std::sync::Arc;
use trace::fact::Fact;
use trace::outcome::{StopReason, ToolStatus};
use trace::tape::{Tape, TapeError};

fn script() -> Vec<ScriptTurn> {
    vec![
        asks(&[("a", "look", "{\"n\":1}"), ("b", "look", "{\"n\":2}")]),
        asks(&[("a", "look", "{\"n\":3}")]),
        said("Three of them."),
    ]
}

fn kit() -> Kit {
    Kit::new(script()).tool(&InProcess::reading("look", Deed::Say("seen")))
}

/// The turns that the model still has to say after these facts.
fn rest(tape: &Tape) -> Vec<ScriptTurn> {
    let answered = tape.lines().iter().filter(|line| line.fact.kind() == "model_answered").count();
    script().split_off(answered)
}

#[tokio::test]
async fn a_run_that_died_after_any_line_ends_as_the_one_that_did_not() {
    let whole: Recorded = kit().run().await;
    let sealed = OpenLines::read(&whole.path).sealed();
    let lines: Vec<&str> = sealed.lines().collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let mut resumed = 0;
    for kept in 1..lines.len() {
        std::fs::write(&path, lines[..kept].join("\n") + "\n{\"seq\":").unwrap();
        let torn = Tape::read(&path).unwrap();
        if torn.started().is_none() {
            continue;
        }
        let finished = kit().go_on(&path, rest(&torn), None).await.unwrap();
        let tape = Arc::new(kit::checked(&finished.tape));
        assert_eq!(
            (finished.outcome.stop_reason, &finished.outcome.answer, finished.outcome.turns),
            (StopReason::Completed, &whole.outcome.answer, whole.outcome.turns),
            "after {kept} lines"
        );
        assert_eq!(finished.outcome.head, whole.outcome.head, "the same conversation after {kept} lines");
        assert_exact(&tape).await;
        std::fs::remove_file(&finished.tape).unwrap();
        resumed += 1;
    }
    assert!(resumed > 15, "only {resumed} places to die at");
}

#[tokio::test]
async fn a_started_side_effect_without_a_result_is_not_done_again() {
    let tool = InProcess::writing("send", Deed::Say("sent"));
    let turns = vec![asks(&[("a", "send", "{}")]), said("Sent, I hope.")];
    let kit = Kit::new(turns.clone()).tool(&tool);
    let whole = kit.run().await;
    let sealed = OpenLines::read(&whole.path).sealed();
    let started = sealed.lines().position(|line| line.contains("\"type\":\"tool_started\"")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let kept: Vec<&str> = sealed.lines().take(started + 1).collect();
    std::fs::write(&path, kept.join("\n") + "\n").unwrap();
    let before = tool.entered();
    let finished = kit.go_on(&path, turns[1..].to_vec(), None).await.unwrap();
    assert_eq!(tool.entered(), before, "the tool was not entered again");
    let tape = Arc::new(kit::checked(&finished.tape));
    let status = tape.lines().iter().find_map(|line| match &line.fact {
        Fact::ToolFinished(fact) => Some(fact.status),
        _ => None,
    });
    assert_eq!(status, Some(ToolStatus::UnknownOutcome));
    assert_exact(&tape).await;
}

#[tokio::test]
async fn a_run_at_its_turn_limit_goes_on_under_a_larger_one() {
    let run = kit().with(|config| config.budget.max_model_turns = 5).stopped_and_resumed().await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::Completed, 3));
    assert_eq!((run.count("run_ended"), run.count("resumed")), (2, 1));
    let root = trace::span::from_tape(&run.tape).into_iter().next().unwrap();
    assert_eq!(root.text(trace::attribute::STOP_REASON), Some("completed"));
    assert_eq!(root.attributes[trace::attribute::BUDGET_TURNS_LIMIT], 5);
}

#[tokio::test]
async fn a_conversation_that_held_a_secret_cannot_go_on() {
    let kit = Kit::new([asks(&[("a", "key", "{}")])])
        .tool(&InProcess::reading("key", Deed::Say("sk-abcdefghijklmnopqrstuvwx")))
        .with(|config| config.budget.max_model_turns = 1);
    let stopped = kit.run().await;
    let refused = kit.go_on(&stopped.path, vec![said("no")], None).await;
    assert!(matches!(refused, Err(ResumeError::Redacted)), "{refused:?}");
}

#[tokio::test]
async fn a_run_that_is_going_on_cannot_be_resumed_beside_itself() {
    let folder = tempfile::tempdir().unwrap();
    let run = trace::id::RunId::from_draw(1);
    let redactor = Arc::new(kit::redactor());
    let writer = trace::tape::TapeWriter::create(folder.path(), &run, 1, redactor.clone()).unwrap();
    let tape = Tape::read(writer.path()).unwrap();
    let second = trace::tape::TapeWriter::reopen(&tape, redactor);
    assert!(
        matches!(&second, Err(TapeError::Io { source, .. }) if source.to_string().contains("another process")),
        "{second:?}"
    );
}
