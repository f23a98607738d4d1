//! Scenarios in which the model is shown less: by every strategy, with summaries that come and that fail, for every
//! reason, and where nothing is gained.

use super::Scenario;
use crate::context::{LONG, long, planner};
use crate::goal::goal;
use crate::kit::{Deed, InProcess, Kit, asks, fault, said};
use harness::model::scripted::ScriptTurn;
use trace::outcome::{FaultClass, StopReason};

pub(super) fn all() -> Vec<Scenario> {
    let one = |name, kit, stop| Scenario { name, kit, stop };
    vec![
        one("older turns are left out", || long("prune"), StopReason::Completed),
        one("what has to do with the task stays", || long("selective"), StopReason::Completed),
        one("older turns in few words", summarised, StopReason::Completed),
        one("a summary that fails", not_summarised, StopReason::Completed),
        one("a summary every so many turns", every_turns, StopReason::Completed),
        one("a context that the provider calls full", full, StopReason::Completed),
        one("a context that cannot be made smaller", not_smaller, StopReason::ContextExhausted),
        one("plans in few words", planned, StopReason::Completed),
        one("a goal whose older turns are left out", goal_pruned, StopReason::ConfidenceThreshold),
    ]
}

/// Summaries and the answer say the same, so that a run which was struck and needs fewer summaries ends alike.
fn with_summaries(mut kit: Kit, before: &[usize]) -> Kit {
    before.iter().for_each(|at| kit.turns.insert(*at, said("Done.")));
    kit.turns.extend([said("Done."), said("Done.")]);
    kit
}

pub(crate) fn summarised() -> Kit {
    with_summaries(long("summarise"), &[3, 5])
}

fn not_summarised() -> Kit {
    let mut kit = summarised();
    kit.turns[3] = fault(FaultClass::Transient);
    kit
}

fn every_turns() -> Kit {
    with_summaries(long("summarise"), &[2, 4, 6]).with(|config| {
        (config.context.max_tokens, config.context.every_turns) = (9000, Some(2));
    })
}

fn full() -> Kit {
    let body =
        r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192 tokens"}}"#;
    let full = ScriptTurn::Raw { status: 400, headers: [].into(), body: body.to_owned() };
    let mut kit = long("prune").with(|config| config.context.max_tokens = 9000);
    kit.turns.insert(3, full);
    kit
}

fn not_smaller() -> Kit {
    long("prune").with(|config| config.context.max_tokens = 20)
}

fn planned() -> Kit {
    let mut kit = planner("It was looked up three times.", "It was looked up four times.");
    let again = kit.turns[6].clone();
    kit.turns.extend([again.clone(), again]);
    kit
}

fn goal_pruned() -> Kit {
    let mut turns: Vec<ScriptTurn> =
        (1..=3).map(|n| asks(&[("a", "look", &format!("{{\"n\":{n}}}"))])).collect();
    turns.push(asks(&[("z", "final_answer", r#"{"answer":"full","confidence":90}"#)]));
    Kit::new(turns).tool(&InProcess::reading("look", Deed::Say(LONG))).with(|config| {
        config.context = long("prune").config.context;
        (config.context.max_tokens, config.context.max_share) = (300, 0.95);
        config.goal = Some(goal(1));
        config.loop_.max_identical_calls = 0;
    })
}
