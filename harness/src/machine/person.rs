//! What the machine knows of people: the question that waits, what they allowed and denied, what they said.
//!
//! Place in the flow: [`Fact::PersonAsked`](trace::fact::Fact) makes a question wait, and nothing but its answer, the end
//! of the run or the call's own result ends that. Everything here is rebuilt by feeding the same facts again.

use super::state::{Event, Phase, Stop};
use super::utterance::{self, Intent};
use super::{Refused, Run, Step};
use crate::policy::Spoken;
use crate::policy::approval::{self, Approvals};
use std::collections::BTreeMap;
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Wants};
use trace::id::{CallKey, RunId};
use trace::message::ToolCall;
use trace::outcome::{FailureStage, StopReason, ToolStatus};

/// People in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// What was allowed and denied.
    pub approvals: Approvals,
    waiting: Option<PersonAsked>,
    spoken: BTreeMap<CallKey, Spoken>,
    refused: BTreeMap<CallKey, NoOf>,
    fresh: Option<String>,
}

/// Why a call is not run after a person was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NoOf {
    status: ToolStatus,
    stage: Option<FailureStage>,
    message: String,
    permission: Option<String>,
}

impl People {
    /// The question that waits for a person.
    #[must_use]
    pub const fn waiting(&self) -> Option<&PersonAsked> {
        self.waiting.as_ref()
    }

    /// What a person said to the question of this call.
    #[must_use]
    pub fn spoken(&self, key: CallKey) -> Option<&Spoken> {
        self.spoken.get(&key)
    }

    pub(super) fn ask(&mut self, fact: &PersonAsked) {
        self.waiting = Some(fact.clone());
    }

    /// Drops a question that can no longer be answered: it is put again.
    pub(super) fn expire(&mut self, at_ns: i64) {
        self.waiting.take_if(|asked| at_ns > asked.expires_at_ns);
    }

    /// Takes an answer in. One that is not to the question, or too late, changes nothing but that the question is
    /// put again.
    pub(super) fn answer(&mut self, at_ns: i64, fact: &PersonAnswered) {
        let Some(asked) = self.waiting.take_if(|asked| asked.token == fact.token) else { return };
        if at_ns > asked.expires_at_ns {
            return;
        }
        match (asked.wants, fact.ruling) {
            (Wants::Approval, Some(Ruling::Allow)) => self.approvals.give(&asked, fact),
            (Wants::Approval, Some(Ruling::Deny)) => self.deny(&asked, fact),
            (Wants::Approval, None) => {}
            (Wants::Confirmation | Wants::Input, ruling) => {
                let said = fact.said.clone().unwrap_or_else(|| word(ruling).to_owned());
                self.hear(&asked, fact, said);
            }
        }
    }

    fn deny(&mut self, asked: &PersonAsked, fact: &PersonAnswered) {
        let denial = self.approvals.deny(asked, fact);
        let no = NoOf {
            status: ToolStatus::Denied,
            stage: Some(FailureStage::Permission),
            message: denial.reason,
            permission: Some(format!("deny:{} by {}", asked.rule, denial.by)),
        };
        self.refused.insert(asked.key, no);
    }

    fn hear(&mut self, asked: &PersonAsked, fact: &PersonAnswered, said: String) {
        let intent = utterance::classify(asked.wants, &said);
        let by = approval::by(fact);
        let message = match intent {
            Intent::Accept | Intent::Update => {
                let is_update = intent == Intent::Update;
                self.spoken.insert(asked.key, Spoken { is_update, said });
                return;
            }
            Intent::Cancel => format!("{by} said no: {said}"),
            Intent::Fresh => {
                self.fresh = Some(said);
                format!("{by} asked for something else instead; nothing was done")
            }
        };
        let no = NoOf { status: ToolStatus::Cancelled, stage: None, message, permission: None };
        self.refused.insert(asked.key, no);
    }

    /// The refusal of a call, where a person said no.
    pub(super) fn refusal(&self, key: CallKey, call: &ToolCall) -> Option<Refused> {
        let no = self.refused.get(&key)?;
        Some(Refused {
            key,
            call: call.clone(),
            status: no.status,
            stage: no.stage,
            message: no.message.clone(),
            permission: no.permission.clone(),
        })
    }

    /// A call has its result: what was asked and said of it is over.
    pub(super) fn finish(&mut self, key: CallKey) {
        self.waiting.take_if(|asked| asked.key == key);
        self.approvals.spend(key);
        self.spoken.remove(&key);
        self.refused.remove(&key);
    }

    /// What a person wants instead, for the model to hear after the results.
    pub(super) fn take_fresh(&mut self) -> Option<String> {
        self.fresh.take()
    }
}

impl Run {
    /// The question that waits, unless the run ends anyway.
    pub(super) fn before_a_person(&self) -> Option<Step> {
        let Phase::Calls(_) = &self.state.phase else { return None };
        let asked = self.state.people.waiting().filter(|_| !self.is_stopping())?;
        let stop = stop(self.state.run_id.as_ref(), asked);
        Some(Step::Person { asked: Box::new(asked.clone()), outcome: Box::new(self.outcome(Some(&stop))) })
    }

    pub(super) fn person_asked(&mut self, fact: &PersonAsked) -> Vec<Event> {
        if let Phase::Calls(batch) = &mut self.state.phase {
            // A tool that came back with a question has not done it.
            batch.unstart(fact.key);
            self.state.people.ask(fact);
        }
        Vec::new()
    }
}

/// A decision in the words of one who was asked a plain question.
const fn word(ruling: Option<Ruling>) -> &'static str {
    match ruling {
        Some(Ruling::Allow) => "yes",
        Some(Ruling::Deny) | None => "no",
    }
}

/// The stop of a run that waits for this question's answer.
fn stop(run: Option<&RunId>, asked: &PersonAsked) -> Stop {
    let run_id = run.map_or("RUN", RunId::as_str);
    let (reason, detail, next) = match asked.wants {
        Wants::Approval => (
            StopReason::AwaitingApproval,
            format!(
                "`{}` at {} waits for approval ({}): {}",
                asked.tool_name, asked.key, asked.rule, asked.prompt
            ),
            format!(
                "loopdeck approve {run_id}, or loopdeck approve {run_id} --deny --reason WHY; then loopdeck resume {run_id}"
            ),
        ),
        Wants::Confirmation | Wants::Input => (
            StopReason::AwaitingInput,
            format!("`{}` at {} asks: {}", asked.tool_name, asked.key, asked.prompt),
            format!("loopdeck resume {run_id} --say ANSWER"),
        ),
    };
    Stop {
        detail: Some(detail),
        next_safe_action: Some(next),
        call: Some(asked.key),
        ..Stop::new(reason, asked.rule.clone())
    }
}
