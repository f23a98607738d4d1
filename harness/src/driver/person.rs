//! Asking people: the question on the tape, then the person, then the answer; where nobody answers, the run pauses.
//!
//! Place in the flow: policy or a tool wants a person. A question is an intent, so it is on the tape before anybody
//! sees it; what comes back is a fact like any other that was heard.

use super::Driver;
use crate::hands::Needs;
use crate::machine::Planned;
use crate::policy::approval::token;
use crate::port::DEADLINE;
use crate::tool::ToolSpec;
use trace::canonical::canonical_text;
use trace::fact::{Fact, PersonAsked, Wants};
use trace::outcome::Outcome;
use trace::tape::TapeError;

impl Driver<'_> {
    /// Asks; gives the outcome back where the run ends because nobody answered.
    pub(super) async fn ask_person(
        &mut self,
        asked: &PersonAsked,
        outcome: Outcome,
    ) -> Result<Option<Outcome>, TapeError> {
        let ports = self.setup.ports.clone();
        let answer = tokio::select! {
            biased;
            answer = ports.ask_person(asked) => answer,
            () = ports.interruption() => match ports.interrupted() {
                // The interruption itself is recorded at the head of the loop.
                Some(by) if by != DEADLINE => return Ok(None),
                // Nobody has answered in the time the run has: it waits, and does not fail.
                _ => None,
            },
        };
        match answer.filter(|answer| answer.token == asked.token) {
            Some(answer) => self.record(Fact::PersonAnswered(Box::new(answer))).map(|()| None),
            None => self.end(outcome).map(Some),
        }
    }

    /// The question whether a call may run.
    pub(super) fn approval(
        &self,
        one: &Planned,
        spec: &ToolSpec,
        rule: String,
        reason: String,
    ) -> PersonAsked {
        let prompt = match reason.is_empty() {
            true => format!("may `{}` run with these arguments?", spec.name),
            false => reason,
        };
        self.question(one, spec, Wants::Approval, prompt, rule)
    }

    /// The question that a tool came back with.
    pub(super) fn question_of_tool(&self, one: &Planned, spec: &ToolSpec, needs: &Needs) -> PersonAsked {
        self.question(one, spec, needs.wants, needs.prompt.clone(), format!("tool.{}", spec.name))
    }

    fn question(
        &self,
        one: &Planned,
        spec: &ToolSpec,
        wants: Wants,
        prompt: String,
        rule: String,
    ) -> PersonAsked {
        let arguments = canonical_text(&one.call.arguments);
        let valid_ns = self.setup.config.policy.approval_valid_seconds.saturating_mul(1_000_000_000);
        let now_ns = self.run.state().last_at_ns;
        let expires_at_ns = now_ns.saturating_add(i64::try_from(valid_ns).unwrap_or(i64::MAX));
        let kept = self.kept(&arguments);
        PersonAsked {
            key: one.key,
            call_id: one.call.call_id.clone(),
            tool_name: spec.name.clone(),
            args_hash: self.args_hash(&spec.name, &arguments),
            wants,
            prompt,
            rule,
            token: token(&self.run_id, one.key, spec, &kept, expires_at_ns),
            arguments: kept,
            expires_at_ns,
            heard: Vec::new(),
        }
    }

    /// The text as it is kept on the tape.
    pub(super) fn kept(&self, text: &str) -> String {
        self.recorder.redactor().text(text).into_owned()
    }
}
