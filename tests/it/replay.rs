//! Recorded runs again: exactly, and with a live model on recorded tools.
//!
//! The kit replays every tape of every story exactly; here are the tapes that together hold every kind of fact,
//! which `mutation` forges, and the live mode.

use crate::kit::person::{Ada, Answer};
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, fault, response, said, status, studio};
use harness::config::{PolicyRule, Verdict};
use harness::driver::Unobserved;
use harness::model::scripted::ScriptTurn;
use loopback::{Loopback, Play, RequestSeen};
use replay::live::{Change, live};
use replay::report::LiveReport;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::fact::Wants;
use trace::message::Finish;
use trace::outcome::{FaultClass, StopReason};
use trace::tape::Tape;

/// Tapes that together hold every kind of fact, each in its variants. On the paused clock where time passes.
pub(crate) async fn gallery() -> Vec<(&'static str, Recorded)> {
    tokio::time::pause();
    let mut tapes = vec![
        ("a plain run on Chat", plain().run().await),
        ("a plain run on Messages", plain().with(on_messages).run().await),
        ("a run with every name it can have", named().run().await),
        ("a run with failed attempts", retried().run().await),
        ("a run with refused calls", refused().run().await),
        ("a run with failing tools", failing().run().await),
        ("a run that repeats a call", repeating().run().await),
        ("a run that went on after its limit", plain().stopped_and_resumed().await),
        ("a run towards a goal, with named results", by_name().run().await),
        ("a run that a person allowed and denied to act", approved().await),
        ("a run whose tools asked a person", answered().await),
        ("a run that waits", asking().run().await),
        ("a run with a tool that decides for itself", deciding().run().await),
        ("a run with a secret", secret(LONG).run().await),
        ("a run with a secret that is shorter than its placeholder", secret(SHORT).run().await),
        ("a run with a secret in a result that is cut", secret(LONG).with(cut_short).run().await),
        ("a run that is shown less and less", crate::context::long("prune").run().await),
        ("a run with a summary and a secret in it", crate::context::secret().run().await),
        ("a run with an agent as a tool", crate::team::helped().run().await),
        (
            "a run that died while its agent was at work",
            crate::team::died_at_work(&crate::team::helped()).await,
        ),
        ("a run that goes on from what was said before", crate::session::continued().run().await),
        (
            "a run that was cancelled in a tool",
            cancelled(vec![asks(&[("a", "slow", "{}"), ("b", "pay", "{}")])]).await,
        ),
        (
            "a run that was cancelled in a pause",
            cancelled(vec![fault(FaultClass::Transient), fault(FaultClass::Timeout)]).await,
        ),
    ];
    tokio::time::resume();
    tapes.push(("a run over HTTP", plain().run_on_loopback().await));
    let once = Kit::new([]).with(|config| config.budget.max_retries_per_model_call = 0);
    tapes.push((
        "a cut stream",
        once.run_against(vec![Play::from(said("this is cut off")).break_after(90)]).await,
    ));
    tapes
}

fn on_messages(config: &mut harness::config::AgentConfig) {
    "messages".clone_into(&mut config.model.wire);
    config.model.stream = false;
}

fn by_name() -> Kit {
    let last =
        [("d", "final_answer", r#"{"answer":"42","confidence":90}"#), ("e", "look", r#"{"n":"$$r2"}"#)];
    Kit::new([asks(&[("a", "look", "{}")]), asks(&[("b", "pay", r#"{"n":"$$r1"}"#)]), asks(&last)])
        .tool(&InProcess::reading("look", Deed::Say("7")))
        .tool(&InProcess::writing("pay", Deed::Say("8")))
        .with(|config| {
            config.loop_.references = true;
            let text = r#"{"objective":"a full shelf","done_condition":"it is full","checkpoint_every":2}"#;
            config.goal = serde_json::from_str(text).ok();
        })
}

fn plain() -> Kit {
    let calls = [("a", "look", "{\"n\":1}"), ("b", "look", "{\"n\":2}"), ("c", "pay", "{}")];
    Kit::new([asks(&calls), said("Done.")])
        .tool(&InProcess::reading("look", Deed::Say("{\"found\":1}")))
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
}

fn named() -> Kit {
    let text = |text: &str| Some(text.to_owned());
    let mut kit = plain().with(|config| {
        let agent = &mut config.agent;
        agent.prompt_name = text("teller");
        agent.prompt_version = text("2");
        agent.service = text("library");
        agent.environment = text("test");
        agent.release = text("1.0");
        agent.tags = vec!["own".to_owned()];
        config.model.price =
            Some(harness::config::Price { input: 1.0, output: 2.0, cache_read: None, cache_write: None });
        config.budget.max_total_cost = Some(9.5);
    });
    kit.task.session_id = text("session-1");
    kit.task.user_id = text("user-1");
    kit.task.task_id = text("case-1");
    kit.task.trial = Some(2);
    kit.task.tags = vec!["task".to_owned()];
    kit.task.parent = Some((trace::id::TraceId::new([3; 16]), trace::id::SpanId::new([4; 8])));
    kit.task.parent_run_id = Some(trace::id::RunId::from_draw(6));
    kit.task.replay_of = Some((trace::id::RunId::from_draw(5), "live_model".to_owned()));
    kit
}

fn retried() -> Kit {
    let busy = status(429, Some(3));
    Kit::new([
        busy,
        fault(FaultClass::Timeout),
        asks(&[("a", "look", "{}")]),
        status(500, None),
        said("Done."),
    ])
    .tool(&InProcess::reading("look", Deed::Say("here")))
}

fn refused() -> Kit {
    let rule = PolicyRule { tool: "pay".to_owned(), decision: Verdict::Deny, reason: "no".to_owned() };
    let cut = ScriptTurn::Answer(response("", &[("t", "look", "{}")], Finish::Length));
    let calls = [("a", "pay", "{}"), ("b", "steal", "{}"), ("c", "look", "{\"n\":\"x\"}")];
    plain().with(|config| config.policy.rules.push(rule)).say([cut, asks(&calls), said("I could not.")])
}

fn failing() -> Kit {
    let calls = [("a", "broken", "{}"), ("b", "shaky", "{}"), ("c", "slow", "{}"), ("d", "long", "{}")];
    Kit::new([asks(&calls), said("Half of it.")])
        .tool(&InProcess::writing("broken", Deed::Fail(FaultClass::Permanent)))
        .tool(&InProcess::reading("shaky", Deed::FailFirst(1, FaultClass::Transient)))
        .tool(&InProcess::writing("slow", Deed::Hang))
        .tool(&InProcess::reading(
            "long",
            Deed::Say("a result that is longer than what the model is shown of it"),
        ))
        .with(|config| config.budget.max_tool_result_chars = 20)
}

fn repeating() -> Kit {
    plain().say((0..5).map(|_| asks(&[("a", "look", "{}")])))
}

/// A run whose writing tool needs leave.
fn asking() -> Kit {
    plain().with(|config| config.policy.write = Verdict::Ask)
}

/// Allowed in another process; then denied, and denied again without a question.
async fn approved() -> Recorded {
    let twice = [("a", "pay", "{\"n\":2}"), ("b", "pay", "{\"n\":2}")];
    let person = Ada::who(&[Answer::Allow, Answer::Deny("too much")]);
    asking().paused_and_answered(person, vec![asks(&twice), said("Done.")]).await
}

/// A yes, a change, a no and something else, each to a tool's question.
async fn answered() -> Recorded {
    let calls = [
        ("a", "sure", "{\"n\":1}"),
        ("b", "sure", "{\"n\":2}"),
        ("c", "which", "{}"),
        ("d", "sure", "{\"n\":3}"),
    ];
    let answers = [
        Answer::Say("yes"),
        Answer::Say("no, make it 5"),
        Answer::Say("never mind"),
        Answer::Say("tell me a joke instead of this"),
    ];
    Kit::new([asks(&calls)])
        .tool(&InProcess::writing("sure", Deed::Ask(Wants::Confirmation, "Really?")))
        .tool(&InProcess::reading("which", Deed::Ask(Wants::Input, "Which one?")))
        .paused_and_answered(Ada::who(&answers), vec![said("Why did the tape cross the road?")])
        .await
}

/// A tool that refuses arguments and calls by its own rules, and has a person asked.
fn deciding() -> Kit {
    let calls = [
        ("a", "own", "{\"n\":1}"),
        ("b", "own", "{\"n\":2}"),
        ("c", "own", "{\"n\":3}"),
        ("d", "own", "{\"n\":4}"),
    ];
    Kit::new([asks(&calls), asks(&[("e", "own", "{\"n\":3}")]), said("As it wants.")])
        .tool(&InProcess::writing("own", Deed::Rule))
        .asking(Ada::who(&[Answer::Deny("not three"), Answer::Allow]))
}

const LONG: &str = "some words before it: sk-abcdefghijklmnopqrstuvwx, and some words after it";

const SHORT: &str = "{\"password\":\"~q\"}";

fn secret(result: &'static str) -> Kit {
    Kit::new([asks(&[("a", "key", "{}")]), said("It is sk-abcdefghijklmnopqrstuvwx.")])
        .tool(&InProcess::reading("key", Deed::Say(result)))
}

fn cut_short(config: &mut harness::config::AgentConfig) {
    config.budget.max_tool_result_chars = 25;
}

async fn cancelled(turns: Vec<ScriptTurn>) -> Recorded {
    let kit = plain().tool(&InProcess::writing("slow", Deed::Hang)).say(turns);
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        kit.cancel.cancel();
    };
    tokio::join!(kit.run(), cancel).0
}

#[tokio::test]
async fn the_gallery_holds_every_kind_of_fact_and_each_tape_replays_exactly() {
    let tapes = gallery().await;
    let kinds: BTreeSet<&str> =
        tapes.iter().flat_map(|(_, run)| run.tape.lines()).map(|line| line.fact.kind()).collect();
    let all = [
        "cancelled",
        "compacted",
        "model_answered",
        "model_asked",
        "person_answered",
        "person_asked",
        "resumed",
        "run_ended",
        "run_started",
        "summary_answered",
        "summary_asked",
        "tool_finished",
        "tool_started",
        "waited",
    ];
    assert_eq!(kinds, BTreeSet::from(all));
    for (name, run) in &tapes {
        let found = replay::exact::exact(run.tape.clone()).await.unwrap();
        assert!(found.is_exact() && found.facts == found.facts_recorded, "{name}: {:?}", found.mismatch);
    }
    for (name, run) in tapes.iter().filter(|(name, _)| name.contains("secret")) {
        let text =
            String::from_utf8(zstd::decode_all(std::fs::File::open(&run.path).unwrap()).unwrap()).unwrap();
        assert!(text.contains("[redacted:"), "{name}");
        assert!(!text.contains("sk-abc") && !text.contains("~q"), "{name}: the secret is on the tape");
    }
}

/// A provider whose model looks at the prompt, and a recorded run of it under the wrong one.
async fn recorded_run() -> (Loopback, Recorded) {
    let provider = Loopback::start(|seen: &RequestSeen| {
        let said_all = String::from_utf8_lossy(&seen.body).into_owned();
        let has = |text: &str| said_all.contains(text);
        match seen.answers() {
            0 if has("look twice") => {
                Play::from(asks(&[("a", "look", "{ \"n\" : 1.0 }"), ("b", "look", "{\"n\":1}")]))
            }
            0 if has("look elsewhere") => Play::from(asks(&[("a", "look", "{\"n\":7}")])),
            0 => Play::from(asks(&[("a", "look", "{\"n\":1}")])),
            _ if has("in French") => Play::from(said("Un.")),
            _ => Play::from(said("One.")),
        }
    });
    let provider = provider.await.unwrap();
    let kit = Kit::new([asks(&[("a", "look", "{\"n\":1}")]), said("One.")])
        .tool(&InProcess::reading("look", Deed::Say("one")))
        .with(|config| config.model.base_url = Some(provider.base_url()));
    let run = kit.run().await;
    (provider, run)
}

/// The report of a live replay, whose own tape replays exactly.
pub(crate) async fn again(run: &Recorded, prompt: Option<&str>) -> LiveReport {
    again_with(run, Change { prompt: prompt.map(str::to_owned), ..Change::default() }).await.0
}

/// The same with any change, and with that tape.
pub(crate) async fn again_with(run: &Recorded, change: Change) -> (LiveReport, Arc<Tape>) {
    let folder = tempfile::tempdir().unwrap();
    let report = live(
        &run.tape,
        &change,
        &|_| None,
        &studio(folder.path()),
        CancellationToken::new(),
        &mut Unobserved,
    )
    .await;
    let report = report.unwrap();
    let tape = folder.path().join(format!("{}.tape.zst", report.run_id));
    let tape = Arc::new(crate::kit::checked(&tape));
    crate::kit::assert_exact(&tape).await;
    let started = tape.started().unwrap();
    assert_eq!(started.replay_of.as_ref(), Some(&report.replay_of));
    assert_eq!(started.replay_mode.as_deref(), Some("live_model"));
    (report, tape)
}

#[tokio::test]
async fn a_corrected_prompt_changes_the_answer_while_the_tools_answer_from_the_tape() {
    let (_provider, run) = recorded_run().await;
    let same = again(&run, None).await;
    assert_eq!((same.verdict(), same.first_difference), ("validated", None));
    let other = again(&run, Some("You tell stories in French.")).await;
    let difference = other.first_difference.clone().unwrap();
    assert_eq!((other.verdict(), difference.turn, difference.kind), ("validated", 2, "text"));
    assert_eq!(other.recorded.answer.as_deref(), Some("One."));
    assert_eq!(other.replayed.answer.as_deref(), Some("Un."));
}

#[tokio::test]
async fn a_call_without_a_recorded_answer_ends_the_replay_as_diverged_and_is_named() {
    let (_provider, run) = recorded_run().await;
    let report = again(&run, Some("You look elsewhere.")).await;
    let unanswered = report.diverged.clone().unwrap();
    assert_eq!((unanswered.key.turn, unanswered.tool_name.as_str()), (1, "look"));
    assert_eq!(
        (unanswered.arguments.as_str(), unanswered.recorded.as_slice()),
        ("{\"n\":7}", &["{\"n\":1}".to_owned()][..])
    );
    assert_eq!(
        (report.verdict(), report.replayed.stop_reason),
        ("diverged", Some(StopReason::FatalToolError))
    );
}

#[tokio::test]
async fn each_recorded_answer_is_used_once_whatever_the_spelling_of_the_arguments() {
    let (_provider, run) = recorded_run().await;
    let report = again(&run, Some("You look twice.")).await;
    let unanswered = report.diverged.unwrap();
    assert_eq!((unanswered.key.turn, unanswered.key.index), (1, 1), "the first spelling took the one answer");
    assert!(unanswered.recorded.is_empty());
}
