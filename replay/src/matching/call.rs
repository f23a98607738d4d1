//! The calls of a tape: what was asked of people about each, what they answered in time, and what the tool answered.
//!
//! Place in the flow: tape -> **calls** -> the hands of a live replay. An answer counts by the times on the tape: one
//! that came too late there, or whose leave had run out before the call ran, is none.

use harness::hands::{Executed, Needs};
use harness::policy::CAN_USE;
use std::collections::{BTreeMap, VecDeque};
use trace::fact::{Fact, PersonAnswered, PersonAsked, ToolFinished, Wants};
use trace::id::{CallKey, Hash};
use trace::outcome::{FailureStage, ToolStatus};
use trace::tape::Tape;

/// A recorded call.
#[derive(Debug, Clone)]
pub(super) struct RecordedCall {
    pub(super) tool_name: String,
    pub(super) arguments: String,
    pub(super) args_hash: Hash,
    /// The question for leave and what a person said to it; `None` where nobody was asked.
    pub(super) leave: Option<Exchange>,
    /// What the tool came back with, in order.
    pub(super) steps: VecDeque<ToolStep>,
}

/// What a tool came back with.
#[derive(Debug, Clone)]
pub(super) enum ToolStep {
    /// A question.
    Asked(Box<Exchange>),
    /// Its result.
    Answered(Executed),
}

/// A question, and the answer that counted; `None` where there was none.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) asked: PersonAsked,
    pub(super) answer: Option<PersonAnswered>,
}

/// All calls of a tape about which a person was asked or which ran, in the order of the run.
pub(super) fn calls(tape: &Tape) -> Vec<RecordedCall> {
    let mut calls: BTreeMap<CallKey, RecordedCall> = BTreeMap::new();
    for line in tape.lines() {
        match &line.fact {
            Fact::PersonAsked(fact) => {
                let call = calls
                    .entry(fact.key)
                    .or_insert_with(|| RecordedCall::new(&fact.tool_name, &fact.arguments, fact.args_hash));
                call.ask(fact);
            }
            Fact::PersonAnswered(fact) => {
                if let Some(call) = calls.get_mut(&fact.key) {
                    call.hear(line.at_ns, fact);
                }
            }
            // A refusal is the loop's own doing; the replay's loop decides about its calls itself.
            Fact::ToolFinished(fact) if ran(fact) => {
                let call = calls
                    .entry(fact.key)
                    .or_insert_with(|| RecordedCall::new(&fact.tool_name, &fact.arguments, fact.args_hash));
                call.steps.push_back(ToolStep::Answered(executed(tape, fact)));
            }
            _ => {}
        }
    }
    calls.into_values().collect()
}

impl RecordedCall {
    fn new(tool_name: &str, arguments: &str, args_hash: Hash) -> Self {
        let (tool_name, arguments) = (tool_name.to_owned(), arguments.to_owned());
        Self { tool_name, arguments, args_hash, leave: None, steps: VecDeque::new() }
    }

    /// Takes a question in. One that is put again replaces the one before: its answer did not count.
    fn ask(&mut self, asked: &PersonAsked) {
        let exchange = Exchange { asked: asked.clone(), answer: None };
        if asked.wants == Wants::Approval {
            self.leave = Some(exchange);
            return;
        }
        self.steps.pop_back_if(|step| matches!(step, ToolStep::Asked(last) if last.answer.is_none()));
        self.steps.push_back(ToolStep::Asked(Box::new(exchange)));
    }

    fn hear(&mut self, at_ns: i64, answer: &PersonAnswered) {
        let of_tool = self.steps.back_mut().and_then(|step| match step {
            ToolStep::Asked(exchange) => Some(&mut **exchange),
            ToolStep::Answered(_) => None,
        });
        let exchange = self.leave.iter_mut().chain(of_tool).find(|one| one.asked.token == answer.token);
        if let Some(exchange) = exchange.filter(|one| at_ns <= one.asked.expires_at_ns) {
            exchange.answer = Some(answer.clone());
        }
    }

    /// Why the tool itself wanted a person to give leave, where it did.
    pub(super) fn own_wish(&self) -> Option<&str> {
        let leave = self.leave.as_ref().filter(|leave| leave.asked.rule == CAN_USE);
        leave.map(|leave| leave.asked.prompt.as_str())
    }
}

fn ran(fact: &ToolFinished) -> bool {
    matches!(fact.failure_stage, None | Some(FailureStage::Execution | FailureStage::Timeout))
        && !matches!(fact.status, ToolStatus::Cancelled | ToolStatus::UnknownOutcome)
}

fn executed(tape: &Tape, fact: &ToolFinished) -> Executed {
    Executed {
        status: fact.status,
        content: tape.text(&fact.result).unwrap_or_default().to_owned(),
        error_class: fact.error_class,
        failure_stage: fact.failure_stage,
        attempts: fact.attempts,
        latency_ns: fact.latency_ns,
        // No run is started here, and none is paid for again.
        child: None,
        needs: None,
    }
}

impl Exchange {
    /// The question as a tool comes back with it.
    pub(super) fn needs(&self) -> Executed {
        Executed {
            status: ToolStatus::Ok,
            content: String::new(),
            error_class: None,
            failure_stage: None,
            attempts: 1,
            latency_ns: 0,
            child: None,
            needs: Some(Needs { wants: self.asked.wants, prompt: self.asked.prompt.clone() }),
        }
    }
}
