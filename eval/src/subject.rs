//! What is judged: one run, as far as a scorer may look at it.
//!
//! Place in the flow: built from a tape's facts ([`Subject::from_facts`]) or from rows
//! ([`crate::runner::recorded`]); scorers are pure functions of a case and a subject. What the source did not tell
//! is `None`.

use std::collections::BTreeSet;
use trace::fact::Fact;
use trace::id::{CallKey, Hash, RunId};
use trace::outcome::{RunStatus, StopReason, ToolStatus};

/// One run to be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The run.
    pub run_id: RunId,
    /// Its final answer.
    pub answer: Option<String>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// The state it ended in.
    pub status: RunStatus,
    /// Its tool calls in the order asked for.
    pub tool_calls: Vec<ToolCall>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Input tokens of all model calls; `None` as soon as one call does not tell.
    pub input_tokens: Option<u64>,
    /// Output tokens of all model calls; `None` as soon as one call does not tell.
    pub output_tokens: Option<u64>,
    /// Cost of all model calls in US dollars; `None` as soon as one call's is unknown.
    pub cost_usd: Option<f64>,
    /// From the run's first moment to its last, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The reward that the run's source recorded with it.
    pub reward: Option<f64>,
}

/// One tool call of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name as the model wrote it.
    pub tool_name: String,
    /// The arguments: JSON text, possibly broken; `None` where the source left them out.
    pub arguments: Option<String>,
    /// How it ended.
    pub status: Option<ToolStatus>,
    /// Which call of the run.
    pub key: CallKey,
    /// Hash of tool name and canonical arguments; `None` where the source left the arguments out.
    pub args_hash: Option<Hash>,
    /// Hash of the canonical result; `None` where the source left the result out.
    pub result_hash: Option<Hash>,
}

/// Facts that make no run which could be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// No `run_started` among them.
    #[error("the tape does not say which run it is; `loopdeck verify` tells what is wrong with it")]
    NoStart,
    /// No `run_ended` among them.
    #[error("run {0} has not ended; resume it or wait for it")]
    NotEnded(RunId),
}

impl Subject {
    /// The run that these facts tell, in the order of the tape.
    ///
    /// # Errors
    /// Where the facts have no start or no end.
    pub fn from_facts<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Result<Self, SubjectError> {
        let mut gathered = Gathered::default();
        for fact in facts {
            gathered.take(fact);
        }
        gathered.subject()
    }

    /// Input and output tokens together; `None` unless both are known.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        self.input_tokens?.checked_add(self.output_tokens?)
    }

    /// Why the run says nothing about the agent: the provider, the credentials or a person ended it.
    ///
    /// Such a run is an ERROR of the evaluation, never a FAIL of the agent.
    #[must_use]
    pub fn infrastructure_fault(&self) -> Option<String> {
        let cause = match self.stop_reason {
            StopReason::ModelError => "the provider failed",
            StopReason::AuthRequired => "credentials are missing or refused",
            StopReason::Aborted => "the run was cancelled",
            _ if self.status == RunStatus::Running => "the run has not ended",
            _ => return None,
        };
        Some(format!("{cause} (stop reason `{}`)", self.stop_reason))
    }
}

/// What was seen so far while reading facts.
#[derive(Default)]
struct Gathered<'a> {
    started: Option<&'a RunId>,
    ended: Option<&'a trace::outcome::Outcome>,
    tool_calls: Vec<ToolCall>,
    answered_turns: BTreeSet<u32>,
    input_tokens: Known,
    output_tokens: Known,
}

/// A sum that is known only as long as every part is.
struct Known(Option<u64>);

impl Default for Known {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Known {
    fn add(&mut self, part: Option<u64>) {
        self.0 = self.0.zip(part).and_then(|(sum, part)| sum.checked_add(part));
    }
}

impl<'a> Gathered<'a> {
    fn take(&mut self, fact: &'a Fact) {
        match fact {
            Fact::RunStarted(started) => self.started = Some(&started.run_id),
            Fact::ModelAnswered(answered) => {
                if let Some(response) = &answered.response {
                    self.answered_turns.insert(answered.turn);
                    self.input_tokens.add(response.usage.input_tokens);
                    self.output_tokens.add(response.usage.output_tokens);
                }
            }
            Fact::SummaryAnswered(answered) => {
                if let Some(response) = &answered.response {
                    self.input_tokens.add(response.usage.input_tokens);
                    self.output_tokens.add(response.usage.output_tokens);
                }
            }
            Fact::ToolFinished(call) => self.tool_calls.push(ToolCall {
                tool_name: call.tool_name.clone(),
                arguments: Some(call.arguments.clone()),
                status: Some(call.status),
                key: call.key,
                args_hash: Some(call.args_hash),
                result_hash: Some(call.result_hash),
            }),
            Fact::RunEnded(ended) => self.ended = Some(&ended.outcome),
            // What ended before it went on was not the end.
            Fact::Resumed(_) => self.ended = None,
            Fact::ModelAsked(_)
            | Fact::Waited(_)
            | Fact::ToolStarted(_)
            | Fact::Cancelled(_)
            | Fact::SummaryAsked(_)
            | Fact::Compacted(_)
            | Fact::PersonAsked(_)
            | Fact::PersonAnswered(_) => {}
        }
    }

    fn subject(mut self) -> Result<Subject, SubjectError> {
        let run_id = self.started.ok_or(SubjectError::NoStart)?.clone();
        let outcome = self.ended.ok_or_else(|| SubjectError::NotEnded(run_id.clone()))?;
        // Calls of one turn may finish in any order; what the agent asked for is ordered by their keys.
        self.tool_calls.sort_by_key(|call| call.key);
        let answered = !self.answered_turns.is_empty();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run stay far below 2^53")]
        let latency_ms = outcome.duration_ms as f64;
        Ok(Subject {
            run_id,
            answer: outcome.answer.clone(),
            stop_reason: outcome.stop_reason,
            status: outcome.status,
            tool_calls: self.tool_calls,
            turns: Some(u64::from(outcome.turns)),
            input_tokens: self.input_tokens.0.filter(|_| answered),
            output_tokens: self.output_tokens.0.filter(|_| answered),
            cost_usd: outcome.cost_usd,
            latency_ms: Some(latency_ms),
            reward: None,
        })
    }
}

#[cfg(test)]
pub(crate) mod sample {
    //! Subjects for the tests of scorers and reports.
    use super::*;

    /// A completed run with this answer and nothing else known.
    pub(crate) fn answering(answer: &str) -> Subject {
        Subject {
            run_id: RunId::new("run-1"),
            answer: Some(answer.to_owned()),
            stop_reason: StopReason::Completed,
            status: RunStatus::Completed,
            tool_calls: Vec::new(),
            turns: Some(1),
            input_tokens: None,
            output_tokens: None,
            cost_usd: None,
            latency_ms: None,
            reward: None,
        }
    }

    /// A run that stopped for this reason, without an answer.
    pub(crate) fn stopped(stop_reason: StopReason) -> Subject {
        Subject { answer: None, stop_reason, status: stop_reason.status(), ..answering("") }
    }

    /// A completed run that made these calls, given as names and JSON arguments.
    pub(crate) fn calling(calls: &[(&str, serde_json::Value)]) -> Subject {
        let tool_calls = calls
            .iter()
            .zip(1..)
            .map(|((name, arguments), turn)| ToolCall {
                tool_name: (*name).to_owned(),
                arguments: Some(arguments.to_string()),
                status: Some(ToolStatus::Ok),
                key: CallKey { turn, index: 0 },
                args_hash: Some(trace::canonical::args_hash(name, &arguments.to_string())),
                result_hash: Some(trace::canonical::result_hash("done")),
            })
            .collect();
        Subject { tool_calls, ..answering("done") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn fact(value: Value) -> Fact {
        serde_json::from_value(value).unwrap()
    }

    fn hash() -> String {
        "0".repeat(64)
    }

    fn started() -> Fact {
        fact(json!({"type": "run_started", "run_id": "r", "trace_id": "0".repeat(32), "agent": "a",
            "provider": "p", "model": "m", "wire": "chat", "task": "t", "config": hash(), "tools": hash(),
            "prompt_hash": hash(), "limits": {}}))
    }

    fn answered(turn: u32, usage: Value) -> Fact {
        fact(json!({"type": "model_answered", "turn": turn, "attempt": 1, "latency_ns": 1,
            "response": {"parts": [], "finish": "end_turn", "usage": usage}}))
    }

    fn finished(turn: u32, index: u32, tool_name: &str) -> Fact {
        fact(json!({"type": "tool_finished", "key": {"turn": turn, "index": index}, "call_id": "same",
            "tool_name": tool_name, "arguments": "{}", "args_hash": hash(), "status": "ok", "result": hash(),
            "shown": hash(), "result_hash": hash(), "attempts": 1, "latency_ns": 0}))
    }

    fn ended() -> Fact {
        fact(json!({"type": "run_ended", "outcome": {"status": "completed", "stop_reason": "completed",
            "trigger": "end_turn", "answer": "42", "turns": 2, "tool_calls": 2, "usage": {}, "duration_ms": 7,
            "evidence": {"rule": "end_turn", "detail": "", "resumable": false}, "head": hash()}}))
    }

    #[test]
    fn a_tape_becomes_a_subject_with_its_calls_in_the_order_asked_for() {
        let known = json!({"input_tokens": 10, "output_tokens": 2});
        let facts = [
            started(),
            answered(1, known.clone()),
            finished(1, 1, "second"),
            finished(1, 0, "first"),
            answered(2, known),
            ended(),
        ];
        let subject = Subject::from_facts(&facts).unwrap();
        let names: Vec<&str> = subject.tool_calls.iter().map(|call| call.tool_name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!((subject.tokens(), subject.answer.as_deref()), (Some(24), Some("42")));
    }

    #[test]
    fn one_call_without_usage_makes_the_sum_unknown_instead_of_too_small() {
        let facts = [
            started(),
            answered(1, json!({"input_tokens": 10, "output_tokens": 2})),
            answered(2, json!({"output_tokens": 2})),
            ended(),
        ];
        let subject = Subject::from_facts(&facts).unwrap();
        assert_eq!((subject.input_tokens, subject.output_tokens, subject.tokens()), (None, Some(4), None));
    }

    #[test]
    fn a_run_without_any_answer_has_unknown_tokens_and_not_zero() {
        assert_eq!(Subject::from_facts(&[started(), ended()]).unwrap().tokens(), None);
    }

    #[test]
    fn a_tape_without_start_or_end_is_no_subject() {
        assert_eq!(Subject::from_facts(&[ended()]), Err(SubjectError::NoStart));
        assert_eq!(Subject::from_facts(&[started()]), Err(SubjectError::NotEnded(RunId::new("r"))));
    }

    #[test]
    fn a_provider_failure_is_no_failure_of_the_agent() {
        for reason in StopReason::ALL {
            let expected =
                matches!(reason, StopReason::ModelError | StopReason::AuthRequired | StopReason::Aborted);
            assert_eq!(sample::stopped(*reason).infrastructure_fault().is_some(), expected, "{reason}");
        }
    }
}
