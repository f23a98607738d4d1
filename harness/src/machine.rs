//! The loop as a pure machine: [`Run::next`] says what to do, [`Run::feed`] takes in what happened.
//!
//! Place in the flow: turn -> **machine** -> fact. No IO, no clock, no randomness: time is the time of the last
//! fact, so the state is a fold over the tape and nothing else. One machine serves four drivers: live, exact
//! replay, resuming after a crash, and the backtest of limits over old runs.
//!
//! Parts: [`finish`] decides what an answer means, [`limit`] which budgets are used up, [`retry`] whether to try
//! again, [`stage`] which calls run next, [`reserved`] what the loop's own tools mean, [`context`] when the model is
//! shown less, [`allowance`] what a part of the run may use up, [`person`] what people were asked and said, [`end`] how
//! a stop is told.

mod allowance;
mod context;
mod end;
pub mod finish;
mod goal;
mod limit;
mod person;
mod planner;
mod reserved;
pub mod retry;
mod stage;
mod state;
pub mod utterance;

pub use allowance::Allowance;
pub use goal::{Check, Goal, Progress};
pub use person::People;
pub use state::{Event, Spent, State};

use crate::config::AgentConfig;
use crate::tool::ToolSpec;
use finish::Decision;
use state::{Batch, Phase, Stop};
use std::sync::Arc;
use trace::fact::{
    Cancelled, Compacted, Fact, ModelAnswered, PersonAsked, Resumed, RunStarted, ToolFinished,
};
use trace::id::CallKey;
use trace::message::{Finish, Message, Role, ToolCall, tool_calls};
use trace::outcome::{FailureStage, FaultClass, Outcome, StopReason, ToolStatus};

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model, with the conversation as it stands.
    Ask {
        /// Turn, 1-based.
        turn: u32,
        /// Attempt within the turn, 1-based.
        attempt: u32,
    },
    /// Wait before the next attempt.
    Wait {
        /// Turn, 1-based.
        turn: u32,
        /// The attempt that failed.
        attempt: u32,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// Ask a model for a summary of the older part of the conversation, with these messages.
    Summarise {
        /// The turn that is asked next, 1-based.
        turn: u32,
        /// The whole request.
        messages: Vec<Message>,
    },
    /// Show the model less from here on.
    Compact(Box<Compacted>),
    /// Run these calls: together if there are several, they are safe to. Results are recorded in this order.
    Run(Vec<Planned>),
    /// Give these calls their result without running them.
    Refuse(Vec<Refused>),
    /// A question waits: ask a person, and where nobody is at hand end so.
    Person {
        /// The question.
        asked: Box<PersonAsked>,
        /// The end of a run that waits.
        outcome: Box<Outcome>,
    },
    /// The run is over.
    Done(Box<Outcome>),
}

/// A call to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Which call.
    pub key: CallKey,
    /// What the model asked for.
    pub call: ToolCall,
}

/// A call that gets a result without being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which call.
    pub key: CallKey,
    /// What the model asked for.
    pub call: ToolCall,
    /// How it ends.
    pub status: ToolStatus,
    /// Where it was refused, if it was.
    pub stage: Option<FailureStage>,
    /// What the model is told.
    pub message: String,
    /// The decision, where a person made one.
    pub permission: Option<String>,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    config: Arc<AgentConfig>,
    tools: Arc<Vec<ToolSpec>>,
    state: State,
    /// The messages without secrets, where something is decided by them.
    kept: Vec<Message>,
    kept_summary: Option<String>,
}

impl Run {
    /// A run that has not started: the first fact must be [`Fact::RunStarted`].
    #[must_use]
    pub fn new(config: Arc<AgentConfig>, tools: Arc<Vec<ToolSpec>>) -> Self {
        Self { config, tools, state: State::default(), kept: Vec::new(), kept_summary: None }
    }

    /// The state, for those who look and must not touch.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// A run as far as these facts tell: the same state as that of the process that wrote them.
    pub fn fold<'a>(
        config: Arc<AgentConfig>,
        tools: Arc<Vec<ToolSpec>>,
        facts: impl IntoIterator<Item = (i64, &'a Fact)>,
    ) -> Self {
        let mut run = Self::new(config, tools);
        for (at_ns, fact) in facts {
            run.feed(at_ns, fact);
        }
        run
    }

    /// The configuration as it is now: a resumed run may have another budget.
    #[must_use]
    pub fn config(&self) -> &Arc<AgentConfig> {
        &self.config
    }

    /// Whether a stop is decided, so that nothing new may be begun.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.state.stop.is_some()
    }

    /// What to do next.
    #[must_use]
    pub fn next(&self) -> Step {
        if let Some(step) = self.before_a_person() {
            return step;
        }
        match &self.state.phase {
            Phase::Calls(batch) => stage::next(&self.config, &self.tools, &self.state, batch),
            _ if self.is_stopping() => Step::Done(Box::new(self.outcome(self.state.stop.as_ref()))),
            Phase::Asked { turn, attempt } => Step::Ask { turn: *turn, attempt: *attempt },
            Phase::Backoff { turn, attempt, ms } => Step::Wait { turn: *turn, attempt: *attempt, ms: *ms },
            Phase::Again { turn, attempt } => {
                self.ask(limit::used_up(&self.config.budget, &self.state), *turn, *attempt)
            }
            Phase::Ready | Phase::Begin => {
                self.ask(limit::exceeded(&self.config.budget, &self.state), self.state.turns + 1, 1)
            }
        }
    }

    /// Stop at a limit, else compact if needed, reserve, ask.
    fn ask(&self, limit: Option<Stop>, turn: u32, attempt: u32) -> Step {
        if let Some(step) = limit.map(|stop| self.done(&stop)).or_else(|| self.before_asking(turn)) {
            return step;
        }
        match limit::unreserved(&self.config, &self.config.model, &self.state, || self.next_tokens()) {
            Some(stop) => self.done(&stop),
            None => Step::Ask { turn, attempt },
        }
    }

    fn done(&self, stop: &Stop) -> Step {
        Step::Done(Box::new(self.outcome(Some(stop))))
    }

    fn outcome(&self, stop: Option<&Stop>) -> Outcome {
        end::outcome(&self.state, stop)
    }

    /// Takes in what happened and tells what it meant. Facts that cannot happen now change nothing.
    pub fn feed(&mut self, at_ns: i64, fact: &Fact) -> Vec<Event> {
        let before_ns = self.state.last_at_ns;
        self.state.last_at_ns = before_ns.max(at_ns);
        if self.state.people.waiting().is_some() && !matches!(fact, Fact::Resumed(_)) {
            // The time a person takes is not the run's.
            self.state.idle_ns += self.state.last_at_ns.saturating_sub(before_ns);
        }
        match fact {
            Fact::RunStarted(fact) => self.started(at_ns, fact),
            Fact::ModelAsked(fact) => {
                self.state.turns = fact.turn;
                self.state.said.clear();
                self.state.sent = self.state.messages.len();
                self.state.view_sent = self.state.view.clone();
                self.state.head = Some(fact.head);
                self.state.phase = Phase::Asked { turn: fact.turn, attempt: fact.attempt };
                Vec::new()
            }
            Fact::ModelAnswered(fact) => self.answered(fact),
            Fact::Waited(fact) => {
                self.state.phase = Phase::Again { turn: fact.turn, attempt: fact.attempt + 1 };
                Vec::new()
            }
            Fact::ToolStarted(fact) => {
                if let Phase::Calls(batch) = &mut self.state.phase {
                    batch.start(fact.key);
                }
                Vec::new()
            }
            Fact::ToolFinished(fact) => self.finished(fact),
            Fact::Cancelled(fact) => self.cancelled(fact),
            // The phase stays: a run that ended at a limit can be resumed from where it was.
            Fact::RunEnded(_) => {
                self.state.ended = true;
                Vec::new()
            }
            Fact::Resumed(fact) => self.resumed(before_ns, fact),
            // Asked again after a crash: a summary changes nothing outside.
            Fact::SummaryAsked(_) => Vec::new(),
            Fact::SummaryAnswered(fact) => {
                self.state.summarised(fact);
                Vec::new()
            }
            Fact::Compacted(fact) => {
                self.state.compacted(fact);
                vec![Event::Compacted {
                    turn: fact.turn,
                    before: fact.before_tokens,
                    after: fact.after_tokens,
                }]
            }
            Fact::PersonAsked(fact) => self.person_asked(fact),
            Fact::PersonAnswered(fact) => {
                self.state.people.answer(self.state.last_at_ns, fact);
                Vec::new()
            }
        }
    }

    fn started(&mut self, at_ns: i64, fact: &RunStarted) -> Vec<Event> {
        let state = &mut self.state;
        state.run_id = Some(fact.run_id.clone());
        state.trace_id = Some(fact.trace_id);
        state.started_at_ns = at_ns;
        let system = self.config.system_prompt();
        if !system.is_empty() {
            state.say(Message::text(Role::System, system));
        }
        // What was said before this run is no news: the tape has it as the run's history.
        state.messages.extend(fact.earlier.iter().cloned());
        let asked = state.messages.len();
        state.say(Message::text(Role::User, fact.task.clone()));
        if !self.config.context.memory.is_empty() {
            state.say(Message::text(Role::User, crate::context::remembered(&self.config.context.memory)));
        }
        state.pinned = asked..state.messages.len();
        state.goal = Goal::new(&self.config);
        state.phase = Phase::Ready;
        Vec::new()
    }

    /// What ended the run stops it no more; the time in between is not the run's. A stop that was decided and not
    /// yet recorded, when the process died, still holds.
    fn resumed(&mut self, before_ns: i64, fact: &Resumed) -> Vec<Event> {
        let state = &mut self.state;
        state.idle_ns += state.last_at_ns.saturating_sub(before_ns);
        fact.children.iter().for_each(|child| state.children.add(child));
        let waited = state.people.waiting().is_some();
        state.people.expire(state.last_at_ns);
        if let Some(budget) = fact.budget.clone().and_then(|budget| serde_json::from_value(budget).ok()) {
            Arc::make_mut(&mut self.config).budget = budget;
        }
        // A run that waits for a person was stopped by no rule.
        if std::mem::take(&mut state.ended) && !waited {
            state.forget_the_stop();
            return self.conclude();
        }
        Vec::new()
    }

    fn cancelled(&mut self, fact: &Cancelled) -> Vec<Event> {
        let reason = match fact.by.as_str() {
            crate::port::DEADLINE => StopReason::Timeout,
            _ => StopReason::Aborted,
        };
        let mut stop = Stop::new(reason, fact.by.clone());
        if reason == StopReason::Timeout {
            stop = limit::wall_time(&self.config.budget, &self.state);
        }
        self.stop(stop)
    }

    /// Decides a stop; of two that hold, the stronger stays.
    fn stop(&mut self, stop: Stop) -> Vec<Event> {
        let reason = stop.reason;
        match &self.state.stop {
            Some(before) if before.reason.strongest(reason) == before.reason => Vec::new(),
            _ => {
                self.state.stop = Some(stop);
                vec![Event::Stopping(reason)]
            }
        }
    }

    fn answered(&mut self, fact: &ModelAnswered) -> Vec<Event> {
        self.state.phase = Phase::Ready;
        match (&fact.response, &fact.fault) {
            (Some(response), _) => {
                self.state.spend(&response.usage, fact.cost_usd);
                self.state.messages.push(response.message());
                self.state.heard_answer(fact);
                let calls: Vec<ToolCall> = tool_calls(&response.parts).cloned().collect();
                let seen = finish::Seen {
                    finish: &response.finish,
                    calls: calls.len(),
                    text: response.message().joined_text(),
                    hit_output_cap: response.usage.output_tokens.is_some()
                        && response.usage.output_tokens == self.config.model.max_output_tokens,
                    truncated_in_a_row: self.state.truncated_in_a_row,
                    nudges_left: self.config.loop_.max_nudges.saturating_sub(self.state.nudges),
                };
                let decision = match response.finish {
                    Finish::ContextFull if self.overfull() => finish::cut_off(calls.len()),
                    _ => reserved::held_to(self.config.finish(), finish::decide(&seen), &seen),
                };
                if self.is_unplanned(&decision) {
                    return self.unplanned(fact.turn);
                }
                self.take(decision, fact.turn, calls)
            }
            (None, Some(fault)) if fault.class == FaultClass::Cancelled => Vec::new(),
            (None, Some(fault)) if fault.class == FaultClass::Overflow && self.overfull() => {
                self.state.phase = Phase::Again { turn: fact.turn, attempt: fact.attempt + 1 };
                Vec::new()
            }
            (None, Some(fault)) => {
                match retry::after(&self.config.budget, &self.state, fact.attempt, fault) {
                    Ok(ms) => {
                        self.state.phase = Phase::Backoff { turn: fact.turn, attempt: fact.attempt, ms };
                        vec![Event::Retrying { turn: fact.turn, ms, why: fault.message.clone() }]
                    }
                    Err(stop) => self.stop(*stop),
                }
            }
            (None, None) => self.stop(Stop::new(StopReason::ModelError, "empty_answer")),
        }
    }

    fn take(&mut self, decision: Decision, turn: u32, calls: Vec<ToolCall>) -> Vec<Event> {
        self.state.truncated_in_a_row = match decision {
            Decision::RefuseTruncated | Decision::Truncated => self.state.truncated_in_a_row + 1,
            _ => 0,
        };
        match decision {
            Decision::Complete { trigger } => self.complete(turn, trigger),
            Decision::RunTools { reconciled } => {
                self.state.phase = Phase::Calls(Batch::new(turn, calls, false));
                if reconciled { vec![Event::FinishReconciled { turn }] } else { Vec::new() }
            }
            Decision::RefuseTruncated => {
                self.state.phase = Phase::Calls(Batch::new(turn, calls, true));
                Vec::new()
            }
            Decision::Truncated => self.nudge(turn, finish::SHORTER),
            Decision::Nudge(words) => {
                self.state.nudges += 1;
                self.nudge(turn, words)
            }
            Decision::Resend => Vec::new(),
            Decision::Stop { reason, trigger } => {
                let stopped = self.stop(Stop::new(reason, trigger));
                if !calls.is_empty() {
                    self.state.phase = Phase::Calls(Batch::new(turn, calls, false));
                }
                stopped
            }
        }
    }

    fn nudge(&mut self, turn: u32, words: &str) -> Vec<Event> {
        self.state.say(Message::text(Role::User, words));
        vec![Event::Nudged { turn }]
    }

    fn finished(&mut self, fact: &ToolFinished) -> Vec<Event> {
        let Phase::Calls(batch) = &mut self.state.phase else { return Vec::new() };
        if !batch.finish(fact) {
            return Vec::new();
        }
        let done = batch.take_if_done();
        self.state.people.finish(fact.key);
        let mut events = match self.is_own(&fact.tool_name) {
            true => {
                self.concluded(fact);
                Vec::new()
            }
            false => self.state.count(fact),
        };
        if fact.error_class == Some(FaultClass::Fatal) {
            events.extend(self.stop(Stop::tool(StopReason::FatalToolError, "fatal_tool_error", fact)));
        }
        if fact.error_class == Some(FaultClass::Auth) {
            events.extend(self.stop(Stop::tool(StopReason::AuthRequired, "tool_auth", fact)));
        }
        if fact.status == ToolStatus::Denied
            && fact.failure_stage == Some(FailureStage::Permission)
            && self.config.policy.deny_is_terminal
        {
            events.extend(self.stop(Stop::tool(StopReason::PermissionDenied, "permission_denied", fact)));
        }
        if let Some(results) = done {
            self.state.messages.push(results);
            self.state.phase = Phase::Ready;
            events.extend(self.conclude());
            if let Some(instruction) = self.state.people.take_fresh() {
                self.state.say(Message::text(Role::User, instruction));
            }
            if let Some(stop) = limit::after_tools(&self.config, &self.state) {
                events.extend(self.stop(stop));
            }
            events.extend(self.checkpoint());
        }
        events
    }
}

#[cfg(test)]
mod tests;
