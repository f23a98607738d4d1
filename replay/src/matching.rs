//! Which recorded answers may be given in a live replay: those of tools, and those of people.
//!
//! Place in the flow: a live replay's hands, and its person. A call is matched by tool and canonical arguments, in
//! recorded order, each recorded call used once; leave, questions and result all come from the one that it was matched
//! with. There is no nearest answer and no default. The first call without a recorded result ends the replay as
//! diverged, because everything after it would be invented; a question that was never answered pauses it: nobody's
//! silence is a yes.

mod call;

use call::{RecordedCall, ToolStep, calls};
use futures::future::{BoxFuture, ready};
use harness::config::Verdict;
use harness::hands::{Executed, Hands, error_text};
use harness::person::Person;
use harness::policy::{CanUse, Permit};
use harness::tool::ToolSpec;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace::canonical::{args_hash, canonical_text};
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Wants, Way};
use trace::id::{CallKey, Hash};
use trace::outcome::{FailureStage, FaultClass, ToolStatus};
use trace::tape::Tape;

/// A call that the tape has no answer for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// Which call of the replay.
    pub key: CallKey,
    /// The tool.
    pub tool_name: String,
    /// Its canonical arguments.
    pub arguments: String,
    /// What a person was asked for and never in the recorded run; absent where the tool's own result is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wants: Option<Wants>,
    /// Recorded arguments of the same tool that were not used, for people to compare; at most three.
    pub recorded: Vec<String>,
}

/// What a person answered in the recorded run, given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GivenAgain {
    /// Which call of the replay.
    pub key: CallKey,
    /// The tool.
    pub tool_name: String,
    /// What was wanted.
    pub wants: Wants,
    /// The decision, where one was asked for.
    pub ruling: Option<Ruling>,
    /// What was said to a tool's question.
    pub said: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Who.
    pub by: String,
    /// How it came, in the recorded run.
    pub way: Way,
    /// When the person decided, in nanoseconds since 1970.
    pub decided_at_ns: i64,
}

#[derive(Debug, Default)]
struct Memory {
    /// Recorded calls that were not used yet.
    unused: HashMap<Hash, VecDeque<RecordedCall>>,
    /// The recorded call that each call of the replay was matched with.
    matched: HashMap<CallKey, RecordedCall>,
    given_again: Vec<GivenAgain>,
    unanswered: Option<Unanswered>,
}

/// Hands, and a person, that answer from a tape.
#[derive(Debug)]
pub struct MatchingHands {
    memory: Mutex<Memory>,
}

impl MatchingHands {
    /// Hands with every recorded result of a tool that ran, and every answer of a person that counted.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let mut memory = Memory::default();
        for call in calls(tape) {
            memory.unused.entry(call.args_hash).or_default().push_back(call);
        }
        Self { memory: Mutex::new(memory) }
    }

    /// The call that ended or paused the replay for want of a recorded answer, if one did.
    #[must_use]
    pub fn unanswered(&self) -> Option<Unanswered> {
        self.memory().unanswered.clone()
    }

    /// The answers of people that were given again so far.
    #[must_use]
    pub fn given_again(&self) -> Vec<GivenAgain> {
        self.memory().given_again.clone()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// The recorded call that this one is matched with, now or before.
    fn matched(&mut self, key: CallKey, hash: Hash) -> Option<&mut RecordedCall> {
        if !self.matched.contains_key(&key) {
            let call = self.unused.get_mut(&hash).and_then(VecDeque::pop_front)?;
            self.matched.insert(key, call);
        }
        self.matched.get_mut(&key)
    }

    fn result(&mut self, permit: &Permit) -> Executed {
        let hash = args_hash(permit.tool_name(), permit.arguments());
        if let Some(call) = self.matched(permit.key(), hash) {
            match call.steps.front() {
                // It asks until it is answered: `answer` takes the question off.
                Some(ToolStep::Asked(exchange)) => return exchange.needs(),
                Some(ToolStep::Answered(executed)) => return executed.clone(),
                None => {}
            }
        }
        self.miss(permit.key(), permit.tool_name(), canonical_text(permit.arguments()), None);
        Executed {
            status: ToolStatus::Error,
            content: error_text("diverged", "the recorded run has no answer to this call"),
            error_class: Some(FaultClass::Fatal),
            failure_stage: Some(FailureStage::Execution),
            attempts: 0,
            latency_ns: 0,
            child: None,
            needs: None,
        }
    }

    /// The recorded answer to a question, under the token that the question has now.
    fn answer(&mut self, asked: &PersonAsked) -> Option<PersonAnswered> {
        let Some(exchange) = self.exchange(asked) else {
            self.miss(asked.key, &asked.tool_name, asked.arguments.clone(), Some(asked.wants));
            return None;
        };
        // Where the recorded run waited for ever, so does this one.
        let answer = exchange?;
        self.given_again.push(GivenAgain {
            key: asked.key,
            tool_name: asked.tool_name.clone(),
            wants: asked.wants,
            ruling: answer.ruling,
            said: answer.said.clone(),
            reason: answer.reason.clone(),
            by: answer.by.clone(),
            way: answer.way,
            decided_at_ns: answer.decided_at_ns,
        });
        Some(PersonAnswered { key: asked.key, token: asked.token, ..answer })
    }

    /// What was answered to the same question; `None` where it was never asked.
    fn exchange(&mut self, asked: &PersonAsked) -> Option<Option<PersonAnswered>> {
        let call = self.matched(asked.key, asked.args_hash)?;
        if asked.wants == Wants::Approval {
            return call.leave.as_ref().map(|leave| leave.answer.clone());
        }
        match call.steps.front() {
            Some(ToolStep::Asked(exchange)) if exchange.asked.wants == asked.wants => {
                let answer = exchange.answer.clone();
                if answer.is_some() {
                    call.steps.pop_front();
                }
                Some(answer)
            }
            _ => None,
        }
    }

    fn miss(&mut self, key: CallKey, tool_name: &str, arguments: String, wants: Option<Wants>) {
        let unused = self.unused.values().flatten().filter(|call| call.tool_name == tool_name);
        let mut recorded: Vec<String> = unused.map(|call| call.arguments.clone()).collect();
        recorded.sort();
        recorded.truncate(3);
        let tool_name = tool_name.to_owned();
        self.unanswered.get_or_insert(Unanswered { key, tool_name, arguments, wants, recorded });
    }
}

impl Hands for MatchingHands {
    fn carry_out<'a>(&'a self, permit: Permit, _spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        Box::pin(ready(self.memory().result(&permit)))
    }

    /// No tool is at hand that could be asked; one that wanted a person in the recorded run wants one again.
    fn check(&self, key: CallKey, spec: &ToolSpec, arguments: &serde_json::Value) -> Result<CanUse, String> {
        let memory = self.memory();
        let next = || memory.unused.get(&args_hash(&spec.name, &arguments.to_string()))?.front();
        let wish = memory.matched.get(&key).or_else(next).and_then(RecordedCall::own_wish);
        Ok(wish.map_or_else(CanUse::default, |reason| CanUse {
            verdict: Verdict::Ask,
            reason: reason.to_owned(),
        }))
    }
}

impl Person for MatchingHands {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        Box::pin(ready(self.memory().answer(asked)))
    }
}
