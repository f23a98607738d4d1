//! Live replays of runs in which a person decided or was asked: the recorded answer is given again to the same
//! question, and nobody's silence is a yes.

use crate::kit::person::{Ada, Answer};
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, results, said};
use crate::replay::{again, again_with};
use harness::config::Verdict;
use harness::model::scripted::ScriptTurn;
use loopback::{Loopback, Play, RequestSeen};
use replay::live::Change;
use trace::fact::{Fact, Ruling, Wants};
use trace::outcome::{StopReason, ToolStatus};

/// A model that says these turns whoever asks.
async fn model(turns: Vec<ScriptTurn>) -> Loopback {
    Loopback::start(move |seen: &RequestSeen| Play::from(turns[seen.answers()].clone())).await.unwrap()
}

/// A kit that records what this model says.
fn kit(provider: &Loopback, turns: &[ScriptTurn]) -> Kit {
    Kit::new(turns.iter().cloned()).with(|config| config.model.base_url = Some(provider.base_url()))
}

/// The same run with this model.
fn asking(model: &Loopback) -> Change {
    Change { base_url: Some(model.base_url()), ..Change::default() }
}

const PAY: (&str, &str, &str) = ("a", "pay", "{\"n\":7}");

/// A run whose writing tool needs leave, which a person gives or not; and its model, for the replay.
async fn paying(turns: Vec<ScriptTurn>, answers: &[Answer]) -> (Loopback, Recorded) {
    let provider = model(turns.clone()).await;
    let kit = kit(&provider, &turns)
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| config.policy.write = Verdict::Ask)
        .asking(Ada::who(answers));
    let run = kit.run().await;
    (provider, run)
}

#[tokio::test]
async fn leave_that_a_person_gave_is_given_again_and_told_as_recorded() {
    let (_model, run) = paying(vec![asks(&[PAY]), said("Paid.")], &[Answer::Allow]).await;
    let (report, tape) = again_with(&run, Change::default()).await;
    assert_eq!((report.verdict(), report.first_difference), ("validated", None));
    assert_eq!(report.replayed.stop_reason, Some(StopReason::Completed));
    let [given] = &report.given_again[..] else { panic!("one answer: {:?}", report.given_again) };
    assert_eq!(
        (given.by.as_str(), given.tool_name.as_str(), given.ruling),
        ("ada", "pay", Some(Ruling::Allow))
    );
    let heard = |run: &trace::tape::Tape| {
        let mut all = run.lines().iter().filter_map(|line| match &line.fact {
            Fact::PersonAnswered(fact) => Some((fact.token, fact.decided_at_ns)),
            _ => None,
        });
        all.next().unwrap()
    };
    let (before, now) = (heard(&run.tape), heard(&tape));
    assert_eq!((now.1, given.decided_at_ns), (before.1, before.1), "it bears its own time");
    assert_ne!(now.0, before.0, "and the token of the question as it is now");
}

#[tokio::test]
async fn a_no_is_given_again_with_its_reason() {
    let (_model, run) = paying(vec![asks(&[PAY]), said("As you wish.")], &[Answer::Deny("too much")]).await;
    let (report, tape) = again_with(&run, Change::default()).await;
    assert_eq!((report.verdict(), report.first_difference), ("validated", None));
    assert_eq!(results(&tape)[0].status, ToolStatus::Denied);
    assert_eq!(results(&tape)[0].result, run.results()[0].result, "the model hears the same");
    assert_eq!(report.given_again[0].reason.as_deref(), Some("too much"));
}

#[tokio::test]
async fn what_was_never_asked_pauses_the_replay_and_is_named() {
    let (provider, run) = paying(vec![asks(&[PAY]), said("Paid.")], &[Answer::Allow]).await;
    drop(provider);
    let other = model(vec![asks(&[("a", "pay", "{\"n\":9}")]), said("Paid.")]).await;
    let (report, tape) = again_with(&run, asking(&other)).await;
    assert_eq!(
        (report.verdict(), report.replayed.stop_reason),
        ("diverged", Some(StopReason::AwaitingApproval))
    );
    let missing = report.diverged.unwrap();
    assert_eq!((missing.wants, missing.arguments.as_str()), (Some(Wants::Approval), "{\"n\":9}"));
    assert_eq!(missing.recorded, ["{\"n\":7}"]);
    assert!(results(&tape).is_empty() && report.given_again.is_empty());
}

#[tokio::test]
async fn each_recorded_answer_counts_for_one_call() {
    let (provider, run) = paying(vec![asks(&[PAY]), said("Paid.")], &[Answer::Allow]).await;
    drop(provider);
    let other = model(vec![asks(&[PAY]), asks(&[("b", "pay", "{\"n\":7}")]), said("Paid.")]).await;
    let (report, tape) = again_with(&run, asking(&other)).await;
    assert_eq!((report.verdict(), report.given_again.len()), ("diverged", 1));
    assert_eq!((report.diverged.unwrap().key.turn, results(&tape).len()), (2, 1));
}

#[tokio::test]
async fn an_answer_that_came_too_late_then_is_none_now() {
    let provider = model(vec![asks(&[PAY]), said("Paid.")]).await;
    let kit = kit(&provider, &[asks(&[PAY]), said("Paid.")])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| {
            config.policy.write = Verdict::Ask;
            config.policy.approval_valid_seconds = 0;
        })
        .asking(Ada::who(&[Answer::Allow]));
    let run = kit.run().await;
    assert_eq!((run.count("person_answered"), run.count("person_asked")), (1, 2));
    let report = again(&run, None).await;
    assert_eq!(report.replayed.stop_reason, Some(StopReason::AwaitingApproval));
    assert!(report.given_again.is_empty(), "{:?}", report.given_again);
    assert_eq!(report.verdict(), "validated", "the recorded run waits for ever too");
}

#[tokio::test]
async fn what_was_said_to_the_questions_of_tools_is_said_again() {
    let calls = [
        ("a", "which", "{}"),
        ("b", "which", "{\"n\":2}"),
        ("c", "sure", "{\"n\":1}"),
        ("d", "sure", "{\"n\":2}"),
    ];
    let turns = vec![asks(&calls), said("Done.")];
    let provider = model(turns.clone()).await;
    // Both readers ask at once, so the first is asked again after the second has its answer.
    let answers =
        [Answer::Say("the second"), Answer::Say("the first"), Answer::Say("yes"), Answer::Say("no thanks")];
    let run = kit(&provider, &turns)
        .tool(&InProcess::reading("which", Deed::Ask(Wants::Input, "Which one?")))
        .tool(&InProcess::writing("sure", Deed::Ask(Wants::Confirmation, "Really?")))
        .asking(Ada::who(&answers))
        .run()
        .await;
    assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{:?}", run.outcome);
    let (report, tape) = again_with(&run, Change::default()).await;
    assert_eq!((report.verdict(), report.first_difference), ("validated", None));
    let told = |run: &trace::tape::Tape| -> Vec<_> {
        results(run).iter().map(|fact| (fact.call_id.clone(), fact.status, fact.result)).collect()
    };
    assert_eq!(told(&tape), told(&run.tape));
    let said: Vec<_> = report.given_again.iter().map(|given| given.said.as_deref().unwrap()).collect();
    assert_eq!(said, ["the second", "the first", "yes", "no thanks"]);
}

#[tokio::test]
async fn a_tool_that_wanted_a_person_by_its_own_rule_has_the_answer_again() {
    let turns = vec![asks(&[("a", "own", "{\"n\":3}"), ("b", "own", "{\"n\":4}")]), said("Done.")];
    let provider = model(turns.clone()).await;
    let run = kit(&provider, &turns)
        .tool(&InProcess::writing("own", Deed::Rule))
        .asking(Ada::who(&[Answer::Deny("not three")]))
        .run()
        .await;
    let (report, tape) = again_with(&run, Change::default()).await;
    assert_eq!((report.verdict(), report.given_again.len()), ("validated", 1));
    let statuses: Vec<_> = results(&tape).iter().map(|fact| fact.status).collect();
    assert_eq!(statuses, [ToolStatus::Denied, ToolStatus::Ok]);
}

#[tokio::test]
async fn a_run_that_waits_still_waits_when_it_is_replayed() {
    let (_model, run) = paying(vec![asks(&[PAY]), said("Paid.")], &[]).await;
    assert_eq!(run.outcome.stop_reason, StopReason::AwaitingApproval);
    let report = again(&run, None).await;
    assert_eq!(
        (report.verdict(), report.replayed.stop_reason),
        ("validated", Some(StopReason::AwaitingApproval))
    );
}
