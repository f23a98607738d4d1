//! Agents as tools: a call that is a run of its own, on its own tape.
//!
//! Place in the flow: the driver's hands. A call of a tool that is an agent starts that agent on the task the model
//! gave it: in the caller's trace, under the smaller of its own budget and what the caller has left, and ended when
//! the caller is. Whatever its end, it is handed back: an answer, or the reason why there is none and what there is
//! of it. Every other call goes to [`LiveHands`].

use crate::agent::{Agent, Identity, Studio, Task};
use crate::driver::Observer;
use crate::hands::{Executed, Hands, LiveHands, error_text, unheld};
use crate::machine::Spent;
use crate::policy::{CanUse, Permit};
use crate::port::Ports;
use crate::surface::folded;
use crate::tool::{ToolSpec, Toolbox};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use trace::attribute::operation;
use trace::fact::{Child, Fact, RunStarted};
use trace::id::{CallKey, SpanId};
use trace::outcome::{FailureStage, FaultClass, Outcome, RunStatus, StopReason, ToolStatus};
use trace::tape::Tape;

/// What a model gives an agent to do.
#[derive(Debug, Deserialize)]
struct Order {
    task: String,
}

/// The schema of every agent's arguments.
#[must_use]
pub fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "description": "What to do, with everything needed to do it: nothing else of this conversation is \
                                known there."
            }
        },
        "required": ["task"],
        "additionalProperties": false
    })
}

/// The run that agents are called from.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is.
    pub identity: Identity,
    /// Where its tape is; theirs are beside it.
    pub studio: Studio,
    /// Ends it; theirs follow.
    pub cancel: CancellationToken,
}

/// Hands that run real tools, and agents.
#[derive(Debug)]
pub struct TeamHands {
    live: LiveHands,
    toolbox: Arc<Toolbox>,
    ports: Arc<dyn Ports>,
    caller: Caller,
}

impl TeamHands {
    /// Hands of a run that has agents among its tools.
    #[must_use]
    pub fn new(live: LiveHands, toolbox: Arc<Toolbox>, ports: Arc<dyn Ports>, caller: Caller) -> Self {
        Self { live, toolbox, ports, caller }
    }

    async fn run(&self, permit: Permit, spec: &ToolSpec, agent: &Agent) -> Executed {
        let begun = Instant::now();
        let order: Order = match serde_json::from_str(permit.arguments()) {
            Ok(order) => order,
            Err(why) => return refused(&format!("the arguments are no task: {why}")),
        };
        let mut config = (*agent.config).clone();
        if let Some(allowance) = permit.allowance() {
            config.budget = allowance.within(&config.budget);
        }
        let limit = spec.timeout_ms.div_ceil(1000);
        config.budget.max_wall_time_seconds = config.budget.max_wall_time_seconds.min(limit);
        let name = config.agent.name.clone();
        let child = Agent { config: Arc::new(config), ..agent.clone() };
        let Identity { run_id, trace_id } = &self.caller.identity;
        let span = run_id.span(operation::EXECUTE_TOOL, permit.key().turn, permit.key().index);
        let task = Task {
            text: order.task,
            parent: Some((*trace_id, span)),
            parent_run_id: Some(run_id.clone()),
            ..Task::default()
        };
        let cancel = self.caller.cancel.child_token();
        let mut tally = Tally::default();
        let finished = {
            let run = child.run(task, &self.caller.studio, cancel.clone(), &mut tally);
            tokio::pin!(run);
            tokio::select! {
                finished = &mut run => finished,
                // It ends itself, with its tape whole.
                () = self.ports.interruption() => {
                    cancel.cancel();
                    run.await
                }
            }
        };
        let latency_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let finished = match finished {
            Ok(finished) => finished,
            Err(why) => return refused(&format!("its run could not be recorded: {why}")),
        };
        let mut usage = finished.outcome.usage;
        usage.add(&tally.spent.usage);
        let child = Child {
            run_id: finished.run_id,
            agent: name,
            stop_reason: finished.outcome.stop_reason,
            usage,
            cost_usd: finished.outcome.cost_usd.map(|cost| cost + tally.spent.cost_usd),
            tool_calls: finished.outcome.tool_calls.saturating_add(tally.spent.tool_calls),
        };
        Executed {
            latency_ns,
            child: Some(Box::new(child)),
            ..handed_back(&finished.outcome, tally.said.as_deref())
        }
    }
}

impl Hands for TeamHands {
    fn carry_out<'a>(&'a self, permit: Permit, spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        match self.toolbox.agent(permit.tool_name()) {
            Some(_) if permit.is_sandboxed() => {
                Box::pin(std::future::ready(unheld(&permit, "an agent's tools are held by its own policy")))
            }
            Some(agent) => Box::pin(self.run(permit, spec, agent)),
            None => self.live.carry_out(permit, spec),
        }
    }

    fn check(&self, key: CallKey, spec: &ToolSpec, arguments: &Value) -> Result<CanUse, String> {
        self.live.check(key, spec, arguments)
    }
}

/// What runs used up that were calls of this one, where its tape has the call and no result: its process died in
/// between. Their tapes, in this folder, tell it; one that was told when the run went on before is left out.
#[must_use]
pub fn unheard(tape: &Tape, tapes: &Path) -> Vec<Child> {
    let Some(started) = tape.started() else { return Vec::new() };
    let (mut open, mut told) = (BTreeSet::new(), BTreeSet::new());
    for line in tape.lines() {
        match &line.fact {
            Fact::ToolStarted(fact) if fact.allowance.is_some() => _ = open.insert(fact.key),
            Fact::ToolFinished(fact) => _ = open.remove(&fact.key),
            Fact::Resumed(fact) => told.extend(fact.children.iter().map(|child| child.run_id.clone())),
            _ => {}
        }
    }
    if open.is_empty() {
        return Vec::new();
    }
    let span = |key: &CallKey| started.run_id.span(operation::EXECUTE_TOOL, key.turn, key.index);
    let calls: Vec<SpanId> = open.iter().map(span).collect();
    let is_unheard = |child: &RunStarted| {
        child.parent_run_id.as_ref() == Some(&started.run_id)
            && child.parent_span_id.is_some_and(|span| calls.contains(&span))
            && !told.contains(&child.run_id)
    };
    let paths = Tape::list(tapes).unwrap_or_default();
    let starts = paths.iter().filter_map(|path| Tape::read_start(path).ok());
    let unheard = starts.filter(|start| start.started().is_some_and(is_unheard));
    unheard.filter_map(|start| used_up(&Tape::read(start.path()).ok()?, tapes)).collect()
}

/// What a run used up as far as its tape tells, with what its own calls did.
fn used_up(tape: &Tape, tapes: &Path) -> Option<Child> {
    let (started, run) = (tape.started()?, folded(tape)?);
    let state = run.state();
    let mut spent = state.children;
    unheard(tape, tapes).iter().for_each(|child| spent.add(child));
    let mut usage = state.usage;
    usage.add(&spent.usage);
    Some(Child {
        run_id: started.run_id.clone(),
        agent: started.agent.clone(),
        stop_reason: tape.ended().map_or(StopReason::Unknown, |ended| ended.outcome.stop_reason),
        usage,
        cost_usd: state.total_cost_usd().map(|cost| cost + spent.cost_usd),
        tool_calls: state.tool_calls.saturating_add(spent.tool_calls),
    })
}

/// What the runs that an agent's run calls use up, and what its model said last.
#[derive(Debug, Default)]
struct Tally {
    spent: Spent,
    said: Option<String>,
}

impl Observer for Tally {
    fn recorded(&mut self, _seq: u64, _at_ns: i64, fact: &Fact) {
        match fact {
            Fact::ToolFinished(fact) => fact.child.iter().for_each(|child| self.spent.add(child)),
            Fact::ModelAnswered(fact) => {
                let said = fact.response.as_ref().map(|response| response.message().joined_text());
                self.said = said.filter(|text| !text.trim().is_empty()).or(self.said.take());
            }
            _ => {}
        }
    }
}

/// The end of an agent's run, as its caller is told.
fn handed_back(outcome: &Outcome, said: Option<&str>) -> Executed {
    let answer = outcome.answer.clone();
    let (status, content, error_class) = match (outcome.status, answer) {
        (RunStatus::Completed, Some(answer)) => (ToolStatus::Ok, answer, None),
        (RunStatus::Aborted, _) => {
            (ToolStatus::Cancelled, not_completed(outcome, said), Some(FaultClass::Cancelled))
        }
        _ => (ToolStatus::Error, not_completed(outcome, said), Some(FaultClass::Permanent)),
    };
    Executed {
        status,
        content,
        error_class,
        failure_stage: error_class.map(|_| FailureStage::Execution),
        attempts: 1,
        latency_ns: 0,
        child: None,
        needs: None,
    }
}

/// Why there is no answer, and what there is of one.
fn not_completed(outcome: &Outcome, said: Option<&str>) -> String {
    json!({
        "error": "not_completed",
        "stop_reason": outcome.stop_reason.as_str(),
        "message": outcome.evidence.detail,
        "partial_answer": outcome.answer.as_deref().or(said),
        "turns": outcome.turns,
        "tool_calls": outcome.tool_calls,
    })
    .to_string()
}

fn refused(why: &str) -> Executed {
    Executed {
        status: ToolStatus::Error,
        content: error_text(FaultClass::Permanent.as_str(), why),
        error_class: Some(FaultClass::Permanent),
        failure_stage: Some(FailureStage::Execution),
        attempts: 0,
        latency_ns: 0,
        child: None,
        needs: None,
    }
}
