//! The edges of the loop on a paused clock: pauses to the millisecond, hanging tools, cancellation anywhere, and
//! whatever faults strike at whatever step, one result for each call.

use crate::kit::person::Silent;
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, fault, response, said, status};
use harness::config::Verdict;
use harness::model::scripted::ScriptTurn;
use harness::tool::ToolSpec;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use trace::fact::Fault;
use trace::message::Finish;
use trace::outcome::{FaultClass, StopReason, ToolStatus};

/// Runs on the paused clock and tells how long it took on it.
async fn timed(kit: &Kit) -> (Recorded, Duration) {
    let began = Instant::now();
    let run = kit.run().await;
    (run, began.elapsed())
}

/// Cancels the run after so long.
async fn cancelled(kit: &Kit, after: Duration) -> (Recorded, Duration) {
    let began = Instant::now();
    let cancel = async {
        tokio::time::sleep(after).await;
        kit.cancel.cancel();
    };
    let (run, ()) = tokio::join!(kit.run(), cancel);
    (run, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn failed_model_calls_are_tried_again_after_exactly_the_required_pauses() {
    let wait = |ms: u64| {
        ScriptTurn::Fault(Fault { retry_after_ms: Some(ms), ..Fault::new(FaultClass::Transient, "busy") })
    };
    let transient = || fault(FaultClass::Transient);
    let rows = [
        (
            "transient faults",
            vec![transient(), transient(), transient(), said("ok")],
            vec![1000, 2000, 4000],
            StopReason::Completed,
        ),
        (
            "one too many",
            vec![transient(), transient(), transient(), transient()],
            vec![1000, 2000, 4000],
            StopReason::ModelError,
        ),
        (
            "timeouts",
            vec![fault(FaultClass::Timeout), fault(FaultClass::Timeout), said("ok")],
            vec![2000, 5000],
            StopReason::Completed,
        ),
        ("a provider that asks for more", vec![wait(7_500), said("ok")], vec![7500], StopReason::Completed),
        ("a provider that asks for less", vec![wait(10), said("ok")], vec![1000], StopReason::Completed),
        ("429 with retry-after", vec![status(429, Some(3)), said("ok")], vec![3000], StopReason::Completed),
        (
            "500 without",
            vec![status(500, None), status(503, Some(9)), said("ok")],
            vec![1000, 9000],
            StopReason::Completed,
        ),
        ("a pause beyond the wall time", vec![wait(600_000), said("ok")], vec![], StopReason::ModelError),
        ("a permanent fault", vec![status(404, None), said("ok")], vec![], StopReason::ModelError),
    ];
    for (name, turns, pauses, reason) in rows {
        let (run, took) = timed(&Kit::new(turns)).await;
        assert_eq!((run.pauses(), run.outcome.stop_reason), (pauses.clone(), reason), "{name}");
        assert_eq!(took.as_millis(), u128::from(pauses.iter().sum::<u64>()), "{name}");
        assert_eq!(run.requests, pauses.len() + 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_tool_times_out_and_one_that_may_be_repeated_is_tried_again() {
    let rows = [
        // Attempts of 5 s each, pauses of 2 and 5 s between them.
        ("that only reads", InProcess::reading("slow", Deed::Hang), 3, 5 + 2 + 5 + 5 + 5),
        ("with a side effect", InProcess::writing("slow", Deed::Hang), 1, 5),
    ];
    for (name, tool, attempts, seconds) in rows {
        let (run, took) =
            timed(&Kit::new([asks(&[("a", "slow", "{}")]), said("Too slow.")]).tool(&tool)).await;
        assert_eq!(
            (run.results()[0].status, run.results()[0].attempts),
            (ToolStatus::Timeout, attempts),
            "{name}"
        );
        assert_eq!((tool.entered(), took), (attempts, Duration::from_secs(seconds)), "{name}");
        assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_tools_that_may_be_repeated_are_repeated() {
    let first = Deed::FailFirst(1, FaultClass::Transient);
    let rows = [
        (InProcess::reading("shaky", first.clone()), 2, ToolStatus::Ok, 1000),
        (InProcess::writing("shaky", first), 1, ToolStatus::Error, 0),
        (InProcess::reading("shaky", Deed::Fail(FaultClass::Permanent)), 1, ToolStatus::Error, 0),
    ];
    for (tool, attempts, status, ms) in rows {
        let (run, took) = timed(&Kit::new([asks(&[("a", "shaky", "{}")]), said("Well.")]).tool(&tool)).await;
        assert_eq!((run.results()[0].status, tool.entered()), (status, attempts), "{tool:?}");
        assert_eq!(took.as_millis(), ms, "{tool:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_run_at_once_wherever_it_is() {
    const AFTER: Duration = Duration::from_millis(1_500);
    let slow = InProcess::writing("slow", Deed::Hang);
    let quick = InProcess::reading("quick", Deed::Say("here"));
    let calls = [("a", "quick", "{}"), ("b", "slow", "{}"), ("c", "quick", "{\"n\":1}")];
    let late = ScriptTurn::After { delay_ms: 60_000, then: Box::new(said("late")) };
    let rows = [
        ("while the model thinks", vec![ScriptTurn::Hang], vec![]),
        ("while the model is slow", vec![late], vec![]),
        (
            "in a pause",
            vec![fault(FaultClass::Transient), fault(FaultClass::Transient), said("never")],
            vec![],
        ),
        (
            "while a tool runs",
            vec![asks(&calls), said("never")],
            vec![ToolStatus::Ok, ToolStatus::Cancelled, ToolStatus::Cancelled],
        ),
    ];
    for (name, turns, statuses) in rows {
        let kit = Kit::new(turns).tool(&slow).tool(&quick);
        let (run, took) = cancelled(&kit, AFTER).await;
        assert_eq!(
            (run.outcome.stop_reason, run.outcome.trigger.as_str()),
            (StopReason::Aborted, "interrupt"),
            "{name}"
        );
        assert_eq!(took, AFTER, "{name}: promptly");
        assert_eq!(run.results().iter().map(|one| one.status).collect::<Vec<_>>(), statuses, "{name}");
        assert_eq!(run.count("cancelled"), 1, "{name}");
    }
    let kit = Kit::new([asks(&calls), said("never")]).tool(&slow).tool(&quick).asking(Silent::who());
    let (run, took) = cancelled(&kit.with(|config| config.policy.write = Verdict::Ask), AFTER).await;
    assert_eq!((run.outcome.stop_reason, took), (StopReason::Aborted, AFTER), "while a person is asked");
    let statuses: Vec<ToolStatus> = run.results().iter().map(|one| one.status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Cancelled, ToolStatus::Cancelled]);
    let kit = Kit::new([said("never asked")]);
    kit.cancel.cancel();
    let run = kit.run().await;
    assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::Aborted, 0));
}

#[tokio::test(start_paused = true)]
async fn the_wall_time_ends_a_run_that_hangs() {
    let slow = InProcess::writing("slow", Deed::Hang);
    for turns in [vec![ScriptTurn::Hang], vec![asks(&[("a", "slow", "{}")])]] {
        let kit = Kit::new(turns).tool(&slow).with(|config| config.budget.max_wall_time_seconds = 3);
        let (run, took) = timed(&kit).await;
        assert_eq!((run.outcome.stop_reason, took), (StopReason::Timeout, Duration::from_secs(3)));
    }
}

/// What strikes at one step of a model.
fn model_step() -> impl Strategy<Value = ScriptTurn> {
    let finish = prop_oneof![5 => Just(Finish::ToolUse), 1 => Just(Finish::Length), 1 => Just(Finish::EndTurn), 1 => Just(Finish::Refusal)];
    let calls = prop::collection::vec(any_call(), 1..5);
    prop_oneof![
        8 => (calls, finish).prop_map(|(calls, finish)| ScriptTurn::Answer(response("", &calls, finish))),
        1 => Just(fault(FaultClass::Transient)),
        1 => Just(fault(FaultClass::Timeout)),
        1 => prop::sample::select(vec![status(429, Some(2)), status(500, None), status(404, None), status(401, None)]),
        1 => Just(ScriptTurn::Raw { status: 200, headers: [].into(), body: "data: {broken\n\n".to_owned() }),
        1 => (1_u64..4000).prop_map(|delay_ms| ScriptTurn::After { delay_ms, then: Box::new(said("At last.")) }),
        1 => Just(ScriptTurn::Hang),
    ]
}

/// A call of any tool, with good and bad arguments, under ids that providers also use twice.
fn any_call() -> impl Strategy<Value = (&'static str, &'static str, &'static str)> {
    let tools = ["good", "pay", "broken", "fatal", "panics", "hangs", "denied", "shaky", "missing"];
    let ids = prop::sample::select(vec!["a", "b", "call_1"]);
    let arguments =
        prop::sample::select(vec!["{}", "{}", "{\"n\":1}", "{\"n\":2}", "{\"n\":\"x\"}", "{oops"]);
    (ids, prop::sample::select(tools.to_vec()), arguments)
}

fn fault_kit(turns: Vec<ScriptTurn>, wire: &str) -> Kit {
    let tools: [Arc<InProcess>; 8] = [
        InProcess::reading("good", Deed::Say("fine")),
        InProcess::writing("pay", Deed::Say("paid")),
        InProcess::writing("broken", Deed::Fail(FaultClass::Permanent)),
        InProcess::writing("fatal", Deed::Fail(FaultClass::Fatal)),
        InProcess::reading("panics", Deed::Panic),
        InProcess::reading("hangs", Deed::Hang),
        InProcess::writing("denied", Deed::Say("must not be")),
        InProcess::reading("shaky", Deed::FailFirst(1, FaultClass::Transient)),
    ];
    let kit = tools.iter().fold(Kit::new(turns), |kit, tool| kit.tool(tool));
    kit.with(|config| {
        wire.clone_into(&mut config.model.wire);
        config.budget.max_wall_time_seconds = 60;
        config.policy.rules.push(harness::config::PolicyRule {
            tool: "denied".to_owned(),
            decision: harness::config::Verdict::Deny,
            reason: String::new(),
        });
    })
}

/// Bodies entered, and intents on the tape, must agree for each tool with a side effect.
fn no_effect_without_intent(kit: &Kit, run: &Recorded) {
    for tool in &kit.tools {
        let spec: &ToolSpec = harness::tool::Tool::spec(&**tool);
        let intents = run.tape.lines().iter().filter(
            |line| matches!(&line.fact, trace::fact::Fact::ToolStarted(fact) if fact.tool_name == spec.name),
        );
        if !spec.is_repeatable() {
            assert_eq!(tool.entered() as usize, intents.count(), "{}", spec.name);
        }
        assert!(spec.name != "denied" || tool.entered() == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// The kit checks each tape: one result a call under its id, a clean fsck, an exact replay.
    #[test]
    fn whatever_strikes_wherever_each_call_has_one_result_and_the_tape_replays(
        turns in prop::collection::vec(model_step(), 1..6),
        wire in prop::sample::select(vec!["chat", "messages"]),
        cancel_ms in prop::option::of(0_u64..30_000),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let kit = fault_kit(turns, wire);
        runtime.block_on(async {
            let run = match cancel_ms {
                Some(ms) => cancelled(&kit, Duration::from_millis(ms)).await.0,
                None => kit.run().await,
            };
            no_effect_without_intent(&kit, &run);
            assert_ne!(run.outcome.stop_reason, StopReason::Unknown);
        });
    }
}
