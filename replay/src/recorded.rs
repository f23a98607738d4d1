//! A tape as the world: model, tools, clock and interruptions answer what was recorded.
//!
//! Place in the flow: an exact replay drives the loop with these. They share one cursor, the number of facts
//! rebuilt so far, so each answers for exactly the moment the loop is in.

use futures::future::{BoxFuture, pending, ready};
use harness::config::Verdict;
use harness::hands::{Executed, Hands, Needs};
use harness::model::{Reply, Transport, WireRequest};
use harness::policy::{CAN_USE, CanUse, Permit};
use harness::port::Ports;
use harness::tool::ToolSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use trace::fact::{Fact, Fault, ModelAnswered, PersonAnswered, PersonAsked, ToolFinished, Wants};
use trace::id::CallKey;
use trace::outcome::{FailureStage, FaultClass, ToolStatus};
use trace::tape::{Line, Tape};

/// A tape and how far its replay has come.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) tape: Arc<Tape>,
    rebuilt: AtomicUsize,
}

impl World {
    pub(crate) fn new(tape: Arc<Tape>) -> Self {
        Self { tape, rebuilt: AtomicUsize::new(0) }
    }

    /// The line that the loop will rebuild next; `None` past the end.
    pub(crate) fn expected(&self) -> Option<&Line> {
        self.tape.lines().get(self.rebuilt())
    }

    pub(crate) fn rebuilt(&self) -> usize {
        self.rebuilt.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self) {
        self.rebuilt.fetch_add(1, Ordering::AcqRel);
    }

    /// What the tape says next of this call.
    fn next_of_call(&self, key: CallKey) -> impl Iterator<Item = &Fact> {
        let ahead = self.tape.lines().get(self.rebuilt()..).unwrap_or_default();
        ahead.iter().map(|line| &line.fact).filter(move |fact| match fact {
            Fact::ToolStarted(fact) => fact.key == key,
            Fact::ToolFinished(fact) => fact.key == key,
            Fact::PersonAsked(fact) => fact.key == key,
            _ => false,
        })
    }

    /// What the tool itself had said about a call: seen by what became of it.
    fn own_word(&self, key: CallKey) -> Result<CanUse, String> {
        let own = |verdict, reason: &str| CanUse { verdict, reason: reason.to_owned() };
        let asked_before = |rule: &str| rule.contains(" by ");
        Ok(match self.next_of_call(key).next() {
            Some(Fact::ToolStarted(fact)) if fact.permission_rule.starts_with(CAN_USE) => {
                match (fact.permission.as_str(), asked_before(&fact.permission_rule)) {
                    ("sandbox", _) => own(Verdict::Sandbox, ""),
                    (_, true) => own(Verdict::Ask, ""),
                    _ => own(Verdict::Allow, ""),
                }
            }
            Some(Fact::PersonAsked(fact)) if fact.rule == CAN_USE => own(Verdict::Ask, &fact.prompt),
            Some(Fact::ToolFinished(fact)) => match fact.permission.as_deref() {
                Some(rule) if rule.starts_with(&format!("deny:{CAN_USE}")) => match asked_before(rule) {
                    true => own(Verdict::Ask, ""),
                    false => own(Verdict::Deny, &self.told(fact)),
                },
                None if fact.failure_stage == Some(FailureStage::Validation) => return Err(self.told(fact)),
                _ => CanUse::default(),
            },
            _ => CanUse::default(),
        })
    }

    /// The message of a refusal.
    fn told(&self, fact: &ToolFinished) -> String {
        let text = self.tape.text(&fact.result).unwrap_or_default();
        let told: Option<serde_json::Value> = serde_json::from_str(text).ok();
        told.and_then(|told| Some(told.get("message")?.as_str()?.to_owned())).unwrap_or_default()
    }

    fn is_interrupted(&self) -> bool {
        matches!(self.expected(), Some(Line { fact: Fact::Cancelled(_), .. }))
    }

    fn reply(&self, fact: &ModelAnswered) -> Result<Reply, Fault> {
        let Some(status) = fact.status else {
            let unknown =
                || Fault::new(FaultClass::Permanent, "the tape has neither an answer nor a fault here");
            return Err(fact.fault.clone().unwrap_or_else(unknown));
        };
        let body = fact.body.and_then(|hash| self.tape.blob(&hash)).unwrap_or_default().to_vec();
        Ok(Reply {
            status,
            headers: fact.headers.clone(),
            body,
            chunks: fact.chunks.clone(),
            latency_ns: fact.latency_ns,
            cut: fact.fault.clone().filter(|_| fact.cut),
        })
    }
}

/// The recorded model.
#[derive(Debug)]
pub(crate) struct RecordedModel(pub(crate) Arc<World>);

impl Transport for RecordedModel {
    fn send<'a>(
        &'a self,
        _request: &'a WireRequest,
        _on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(ready(match self.0.expected().map(|line| &line.fact) {
            Some(Fact::ModelAnswered(fact) | Fact::SummaryAnswered(fact)) => self.0.reply(fact),
            _ => Err(Fault::new(FaultClass::Permanent, "the tape has no answer here")),
        }))
    }
}

/// The recorded tools.
#[derive(Debug)]
pub(crate) struct RecordedHands(pub(crate) Arc<World>);

impl Hands for RecordedHands {
    fn carry_out<'a>(&'a self, permit: Permit, _spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        let tape = &self.0.tape;
        let recorded = self.0.next_of_call(permit.key()).find(|fact| !matches!(fact, Fact::ToolStarted(_)));
        Box::pin(ready(match recorded {
            Some(Fact::ToolFinished(fact)) => Executed {
                status: fact.status,
                content: tape.text(&fact.result).unwrap_or_default().to_owned(),
                error_class: fact.error_class,
                failure_stage: fact.failure_stage,
                attempts: fact.attempts,
                latency_ns: fact.latency_ns,
                child: fact.child.clone(),
                needs: None,
            },
            Some(Fact::PersonAsked(fact)) if fact.wants != Wants::Approval => Executed {
                status: ToolStatus::Ok,
                content: String::new(),
                error_class: None,
                failure_stage: None,
                attempts: 1,
                latency_ns: 0,
                child: None,
                needs: Some(Needs { wants: fact.wants, prompt: fact.prompt.clone() }),
            },
            _ => Executed {
                status: ToolStatus::UnknownOutcome,
                content: String::new(),
                error_class: None,
                failure_stage: None,
                attempts: 0,
                latency_ns: 0,
                child: None,
                needs: None,
            },
        }))
    }

    fn check(
        &self,
        key: CallKey,
        _spec: &ToolSpec,
        _arguments: &serde_json::Value,
    ) -> Result<CanUse, String> {
        self.0.own_word(key)
    }
}

/// The recorded clock and interruptions.
#[derive(Debug)]
pub(crate) struct RecordedPorts(pub(crate) Arc<World>);

impl Ports for RecordedPorts {
    fn now_ns(&self) -> i64 {
        let last = self.0.tape.lines().last().map_or(0, |line| line.at_ns);
        self.0.expected().map_or(last, |line| line.at_ns)
    }

    fn draw(&self) -> u64 {
        // Ids come from the tape's first fact; the loop draws nothing else.
        0
    }

    fn sleep(&self, _how_long: Duration) -> BoxFuture<'_, ()> {
        if self.0.is_interrupted() { Box::pin(pending()) } else { Box::pin(ready(())) }
    }

    fn interrupted(&self) -> Option<String> {
        match self.0.expected().map(|line| &line.fact) {
            Some(Fact::Cancelled(fact)) => Some(fact.by.clone()),
            _ => None,
        }
    }

    fn interruption(&self) -> BoxFuture<'_, ()> {
        if self.0.is_interrupted() { Box::pin(ready(())) } else { Box::pin(pending()) }
    }

    fn ask_person<'a>(&'a self, _asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        match self.0.expected().map(|line| &line.fact) {
            Some(Fact::PersonAnswered(fact)) => Box::pin(ready(Some((**fact).clone()))),
            Some(Fact::Cancelled(_)) => Box::pin(pending()),
            _ => Box::pin(ready(None)),
        }
    }
}
