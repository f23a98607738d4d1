//! What the machine remembers: everything is rebuilt by feeding the same facts again.

use super::context::Summary;
use super::goal::{Check, Goal};
use super::person::People;
use super::reserved::Conclusion;
use crate::context::View;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::fact::{Child, ToolFinished};
use trace::id::{CallKey, Hash, RunId, SpanId, TraceId};
use trace::message::{Message, Part, Role, ToolCall, ToolResult, Usage};
use trace::outcome::{FailureStage, StopReason, ToolStatus};
use trace::rule::CallSeen;

/// What a fact meant, for those who watch. Never stored: facts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The model said it was done but asked for tools: the calls count.
    FinishReconciled {
        /// Turn, 1-based.
        turn: u32,
    },
    /// The model was reminded of what it has to do.
    Nudged {
        /// Turn, 1-based.
        turn: u32,
    },
    /// A model call failed and will be tried again.
    Retrying {
        /// Turn, 1-based.
        turn: u32,
        /// The pause, in milliseconds.
        ms: u64,
        /// What failed.
        why: String,
    },
    /// The model asked for a tool that does not exist.
    UnknownTool {
        /// What it asked for.
        tool_name: String,
    },
    /// A goal was checked.
    Checked(Box<Check>),
    /// The model is shown less from here on.
    Compacted {
        /// The turn that is asked next, 1-based.
        turn: u32,
        /// Estimated tokens before.
        before: u64,
        /// Estimated tokens after.
        after: u64,
    },
    /// The run will end.
    Stopping(StopReason),
}

/// The machine's memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The run.
    pub run_id: Option<RunId>,
    /// The trace its spans belong to.
    pub trace_id: Option<TraceId>,
    /// Time of the first fact, nanoseconds.
    pub started_at_ns: i64,
    /// Time of the last fact, nanoseconds.
    pub last_at_ns: i64,
    /// Time between a crash or an end and the resuming of the run, nanoseconds.
    pub idle_ns: i64,
    /// The whole conversation.
    pub messages: Vec<Message>,
    /// How many of them were in the last request.
    pub sent: usize,
    /// What the loop itself said since the last request.
    pub said: Vec<Message>,
    /// The conversation as last sent.
    pub head: Option<Hash>,
    /// Turns begun.
    pub turns: u32,
    /// Tokens of all calls.
    pub usage: Usage,
    /// Cost of all calls in US dollars; `None` once one of them is unknown.
    pub cost_usd: Option<f64>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: u32,
    /// Tokens of the last model call.
    pub last_tokens: Option<u64>,
    /// Calls asked for.
    pub tool_calls: u32,
    /// Calls that ran, by tool.
    pub ran: BTreeMap<String, u32>,
    /// Calls that were refused because the run's tool-call budget was used up.
    pub over_budget: u32,
    /// Calls that failed.
    pub errors: u32,
    /// Calls of tools that do not exist.
    pub unknown_tools: u32,
    /// Answers cut off in a row.
    pub truncated_in_a_row: u32,
    /// Reminders given.
    pub nudges: u32,
    /// Answers that were not the expected one.
    pub mismatches: u32,
    /// Every call with its result, for the rules.
    pub calls: Vec<CallSeen>,
    /// The answer, once there is one.
    pub answer: Option<String>,
    /// Whether its end is on the tape.
    pub ended: bool,
    /// What people were asked and said.
    pub people: People,
    /// The goal and what was done for it, where there is one.
    pub goal: Option<Goal>,
    pub(super) conclusion: Conclusion,
    /// What runs that were calls of this one used up.
    pub children: Spent,
    /// What the model is shown of the conversation.
    pub view: View,
    /// What it was shown last.
    pub(super) view_sent: View,
    /// The messages that say what this run is to do.
    pub(super) pinned: Range<usize>,
    /// Where the newest check of the goal stands in the conversation.
    pub(super) checked: Option<usize>,
    /// Compactions since the last answer.
    pub(super) compactions: u32,
    /// The summary that was asked for.
    pub(super) summary: Option<Summary>,
    /// Whether the provider said that the context is full, and nothing was done about it yet.
    pub(super) overfull: bool,
    /// Whether something was, and no better answer came since.
    pub(super) forced: bool,
    /// Tokens of the conversation by the provider's count, and how many messages it counted.
    pub(super) counted: Option<(u64, usize)>,
    pub(super) phase: Phase,
    pub(super) stop: Option<Stop>,
}

/// What was used up by runs that were calls of this one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Tokens.
    pub usage: Usage,
    /// US dollars, as far as they are known.
    pub cost_usd: f64,
    /// Tool calls.
    pub tool_calls: u32,
}

impl Spent {
    /// Adds a run.
    pub fn add(&mut self, child: &Child) {
        self.usage.add(&child.usage);
        self.cost_usd += child.cost_usd.unwrap_or(0.0);
        self.tool_calls = self.tool_calls.saturating_add(child.tool_calls);
    }
}

/// Where in the loop the run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Phase {
    /// Nothing was fed yet.
    #[default]
    Begin,
    /// The conversation is whole; the model's turn.
    Ready,
    /// A request was about to be sent.
    Asked { turn: u32, attempt: u32 },
    /// An attempt failed; a pause comes first.
    Backoff { turn: u32, attempt: u32, ms: u64 },
    /// The pause is over.
    Again { turn: u32, attempt: u32 },
    /// Tool calls wait for results.
    Calls(Batch),
}

/// The tool calls of one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    pub(super) turn: u32,
    pub(super) calls: Vec<ToolCall>,
    pub(super) truncated: bool,
    started: Vec<bool>,
    results: Vec<Option<Part>>,
}

impl Batch {
    pub(super) fn new(turn: u32, calls: Vec<ToolCall>, truncated: bool) -> Self {
        let length = calls.len();
        Self { turn, calls, truncated, started: vec![false; length], results: vec![None; length] }
    }

    /// The calls without a result, each with whether it was started.
    pub(super) fn open(&self) -> impl Iterator<Item = (CallKey, &ToolCall, bool)> {
        self.calls.iter().enumerate().filter(|(index, _)| self.results[*index].is_none()).map(
            |(index, call)| {
                let place = u32::try_from(index).unwrap_or(u32::MAX);
                (CallKey { turn: self.turn, index: place }, call, self.started[index])
            },
        )
    }

    pub(super) fn start(&mut self, key: CallKey) {
        if let Some(started) = self.started.get_mut(key.index as usize) {
            *started = true;
        }
    }

    /// The call is as if it had not been started.
    pub(super) fn unstart(&mut self, key: CallKey) {
        if let Some(started) = self.started.get_mut(key.index as usize) {
            *started = false;
        }
    }

    /// Takes a result in; false if the call is not open or not ours, so that each call has exactly one.
    pub(super) fn finish(&mut self, fact: &ToolFinished) -> bool {
        let slot = self.results.get_mut(fact.key.index as usize).filter(|_| fact.key.turn == self.turn);
        match slot {
            Some(slot @ None) => {
                *slot = Some(Part::ToolResult(ToolResult {
                    call_id: fact.call_id.clone(),
                    tool_name: fact.tool_name.clone(),
                    content: fact.content.clone(),
                    is_error: fact.status != ToolStatus::Ok,
                }));
                true
            }
            _ => false,
        }
    }

    /// All results as one message in the order of the calls, once every call has one.
    pub(super) fn take_if_done(&mut self) -> Option<Message> {
        let parts: Option<Vec<Part>> = self.results.iter().cloned().collect();
        Some(Message { role: Role::Tool, parts: parts? })
    }
}

/// A decided stop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stop {
    pub(super) reason: StopReason,
    pub(super) trigger: String,
    pub(super) detail: Option<String>,
    pub(super) threshold: Option<f64>,
    pub(super) observed: Option<f64>,
    pub(super) spans: Vec<SpanId>,
    pub(super) tokens_wasted: Option<u64>,
    pub(super) next_safe_action: Option<String>,
    pub(super) call: Option<CallKey>,
}

impl Stop {
    pub(super) fn new(reason: StopReason, trigger: impl Into<String>) -> Self {
        Self {
            reason,
            trigger: trigger.into(),
            detail: None,
            threshold: None,
            observed: None,
            spans: Vec::new(),
            tokens_wasted: None,
            next_safe_action: None,
            call: None,
        }
    }

    /// A limit with its figures.
    pub(super) fn limit(reason: StopReason, trigger: &str, threshold: f64, observed: f64) -> Self {
        Self { threshold: Some(threshold), observed: Some(observed), ..Self::new(reason, trigger) }
    }

    /// A stop that one tool call caused.
    pub(super) fn tool(reason: StopReason, trigger: &str, fact: &ToolFinished) -> Self {
        // Whole or not at all: a secret that a cut splits matches no pattern of the redactor any more.
        let said = match fact.content.chars().count() {
            0..=300 => fact.content.as_str(),
            _ => "its result says more",
        };
        let detail = format!("`{}` at {}: {said}", fact.tool_name, fact.key);
        Self { detail: Some(detail), call: Some(fact.key), ..Self::new(reason, trigger) }
    }
}

impl State {
    /// Adds a message of the loop itself.
    pub(super) fn say(&mut self, message: Message) {
        self.messages.push(message.clone());
        self.said.push(message);
    }

    pub(super) fn spend(&mut self, usage: &Usage, cost_usd: Option<f64>) {
        self.usage.add(usage);
        self.last_tokens = usage.total();
        match cost_usd {
            Some(cost) => self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost),
            None => self.unpriced_calls += 1,
        }
    }

    /// Cost of the whole run; `None` when any call is unpriced.
    #[must_use]
    pub fn total_cost_usd(&self) -> Option<f64> {
        self.cost_usd.filter(|_| self.unpriced_calls == 0)
    }

    /// Whether a call of this turn was cut off, or may have been.
    pub(super) fn is_cut(&self, turn: u32) -> bool {
        let cut = [ToolStatus::Cancelled, ToolStatus::UnknownOutcome];
        self.calls.iter().any(|call| call.key.turn == turn && cut.contains(&call.status))
    }

    /// What ended the run stops it no more. Counts that a rule stops at start afresh, or the next step would stop again
    /// without a new fact.
    pub(super) fn forget_the_stop(&mut self) {
        (self.stop, self.answer) = (None, None);
        self.calls.clear();
        if let Some(goal) = &mut self.goal {
            goal.checked_calls = 0;
        }
        (self.errors, self.unknown_tools, self.over_budget, self.truncated_in_a_row) = (0, 0, 0, 0);
        self.mismatches = 0;
    }

    /// Milliseconds from the first fact to this time, those between an end and a resuming left out.
    #[must_use]
    pub fn elapsed_ms(&self, at_ns: i64) -> u64 {
        let whole = at_ns.saturating_sub(self.started_at_ns).saturating_sub(self.idle_ns);
        u64::try_from(whole / 1_000_000).unwrap_or(0)
    }

    /// Counts one finished call.
    pub(super) fn count(&mut self, fact: &ToolFinished) -> Vec<Event> {
        self.tool_calls += 1;
        if let Some(child) = &fact.child {
            self.children.add(child);
        }
        match fact.failure_stage {
            Some(FailureStage::UnknownTool) => self.unknown_tools += 1,
            Some(FailureStage::Validation | FailureStage::Permission) => {}
            Some(FailureStage::Budget) => self.over_budget += 1,
            // It was given up before it began.
            None if fact.status == ToolStatus::Cancelled => {}
            None | Some(FailureStage::Execution | FailureStage::Timeout) => {
                *self.ran.entry(fact.tool_name.clone()).or_default() += 1;
            }
        }
        if matches!(fact.status, ToolStatus::Error | ToolStatus::Timeout) {
            self.errors += 1;
        }
        let span = self.run_id.as_ref().map_or(SpanId::new([0; 8]), |run| {
            run.span(trace::attribute::operation::EXECUTE_TOOL, fact.key.turn, fact.key.index)
        });
        self.calls.push(CallSeen {
            key: fact.key,
            span,
            tool_name: fact.tool_name.clone(),
            args_hash: fact.args_hash,
            result_hash: Some(fact.result_hash),
            status: fact.status,
            tokens: self.last_tokens,
        });
        match fact.failure_stage {
            Some(FailureStage::UnknownTool) => vec![Event::UnknownTool { tool_name: fact.tool_name.clone() }],
            _ => Vec::new(),
        }
    }
}
