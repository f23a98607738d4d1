//! Which calls of a turn run next, and which are refused.
//!
//! Consecutive calls of tools that only read share a stage, up to the cap; every other call is a barrier of its
//! own. So two writes never overlap and results keep the order of the calls.

use super::reserved;
use super::state::{Batch, State, Stop};
use super::{Planned, Refused, Step};
use crate::config::AgentConfig;
use crate::tool::ToolSpec;
use std::collections::BTreeMap;
use trace::id::CallKey;
use trace::message::ToolCall;
use trace::outcome::{FailureStage, StopReason, ToolStatus};

/// Told to the model instead of running calls of an answer that was cut off.
const TRUNCATED: &str = include_str!("../../prompt/truncated_call.txt");
/// Told to the model instead of running a call over its tool's budget.
const TOOL_BUDGET: &str = include_str!("../../prompt/tool_budget.txt");

pub(super) fn next(config: &AgentConfig, tools: &[ToolSpec], state: &State, batch: &Batch) -> Step {
    let open: Vec<(CallKey, &ToolCall, bool)> = batch.open().collect();
    if let Some(stop) = &state.stop {
        let concluded = concluded(config, state, stop, &open);
        return Step::Refuse(concluded.unwrap_or_else(|| open.into_iter().map(cancelled).collect()));
    }
    if batch.truncated {
        return Step::Refuse(open.into_iter().map(|(key, call, _)| truncated(key, call)).collect());
    }
    let spec = |call: &ToolCall| tools.iter().find(|tool| tool.name == call.tool_name);
    let mut planned: Vec<Planned> = Vec::new();
    let mut ran = state.ran.clone();
    for (key, call, started) in open {
        // Started and without a result: the process died in between, and nobody knows what happened.
        let own = reserved::result(config, key, call);
        let refusal = match started && !spec(call).is_some_and(ToolSpec::is_repeatable) {
            true => Some(unknown_outcome(key, call)),
            false => {
                let no = own.or_else(|| state.people.refusal(key, call));
                no.or_else(|| over_budget(config, state, &ran, key, call))
            }
        };
        let concurrent = spec(call).is_some_and(ToolSpec::is_concurrent);
        match refusal {
            Some(refused) if planned.is_empty() => return Step::Refuse(vec![refused]),
            Some(_) => break,
            None if !planned.is_empty() && !concurrent => break,
            None => {
                *ran.entry(call.tool_name.clone()).or_default() += 1;
                planned.push(Planned { key, call: call.clone() });
                if !concurrent || planned.len() >= config.budget.max_parallel_tool_calls.max(1) as usize {
                    break;
                }
            }
        }
    }
    Step::Run(planned)
}

/// The results of the loop's own tools where nothing else of the turn is open or was cut off: what the model concluded
/// needs nothing to be run, so it is not lost when the run is interrupted.
fn concluded(
    config: &AgentConfig,
    state: &State,
    stop: &Stop,
    open: &[(CallKey, &ToolCall, bool)],
) -> Option<Vec<Refused>> {
    let is_interrupted = matches!(stop.reason, StopReason::Aborted | StopReason::Timeout);
    let taken = || open.iter().map(|(key, call, _)| reserved::result(config, *key, call)).collect();
    (is_interrupted && !state.is_cut(state.turns)).then(taken).flatten()
}

fn over_budget(
    config: &AgentConfig,
    state: &State,
    ran: &BTreeMap<String, u32>,
    key: CallKey,
    call: &ToolCall,
) -> Option<Refused> {
    let all = ran.values().sum::<u32>().saturating_add(state.children.tool_calls);
    let of_tool = ran.get(&call.tool_name).copied().unwrap_or(0);
    let message = match () {
        () if all >= config.budget.max_tool_calls => {
            format!("the run's budget of {} tool calls is used up", config.budget.max_tool_calls)
        }
        () if of_tool >= config.budget.max_calls_per_tool => TOOL_BUDGET.trim().to_owned(),
        () => return None,
    };
    Some(refused(key, call, ToolStatus::Denied, Some(FailureStage::Budget), message))
}

fn truncated(key: CallKey, call: &ToolCall) -> Refused {
    refused(key, call, ToolStatus::Error, Some(FailureStage::Validation), TRUNCATED.trim().to_owned())
}

fn cancelled((key, call, started): (CallKey, &ToolCall, bool)) -> Refused {
    match started {
        true => unknown_outcome(key, call),
        false => refused(key, call, ToolStatus::Cancelled, None, "not run: the run is ending".to_owned()),
    }
}

fn unknown_outcome(key: CallKey, call: &ToolCall) -> Refused {
    let message = "started, but the process ended before its result was recorded: it may or may not have taken \
                   effect. Check before you repeat it.";
    refused(key, call, ToolStatus::UnknownOutcome, Some(FailureStage::Execution), message.to_owned())
}

fn refused(
    key: CallKey,
    call: &ToolCall,
    status: ToolStatus,
    stage: Option<FailureStage>,
    message: String,
) -> Refused {
    Refused { key, call: call.clone(), status, stage, message, permission: None }
}
