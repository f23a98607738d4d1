//! What a call of `final_answer` or `cannot_complete` means, and what its result says.
//!
//! Place in the flow: [`super::stage`] gives such a call its result where it stands among the turn's calls; when all
//! of them have theirs, the conclusion that was drawn ends the run. So calls beside an answer are carried out first.
//! Everything is read from the call itself and the configuration: nothing is stored that could differ.

use super::finish::{self, Decision, Seen};
use super::state::Stop;
use super::{Event, Refused, Run};
use crate::config::{AgentConfig, FinishBy};
use crate::tool::reserved::{CANNOT_COMPLETE, FINAL_ANSWER};
use serde_json::Value;
use trace::fact::ToolFinished;
use trace::id::CallKey;
use trace::message::ToolCall;
use trace::outcome::{FailureStage, StopReason, ToolStatus};

/// Said to a model that writes text where only a tool ends the run.
pub(super) const USE_TOOL: &str = include_str!("../../prompt/use_final_answer.txt");
/// Said to a model whose answer is not the expected one.
pub(super) const UNEXPECTED: &str = include_str!("../../prompt/unexpected.txt");
/// The trigger of a run that ended in text where only a tool ends it.
pub(super) const TEXT_ONLY: &str = "text_without_final_answer";

/// Longest reason that is told whole in the evidence.
const REASON_CHARS: usize = 1000;

/// What such a call means.
#[derive(Debug, Clone, PartialEq)]
enum Judged {
    /// It is the answer.
    Answer(String),
    /// It is the answer of a model that is sure enough.
    Sure { answer: String, confidence: f64, threshold: u8 },
    /// The model is not sure enough yet.
    Unsure { confidence: f64, threshold: u8 },
    /// Not the expected answer.
    Unexpected,
    /// The model says that it cannot.
    GivenUp(String),
    /// The arguments are not what the tool takes.
    Malformed(String),
}

/// What the calls of a turn came to so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Conclusion {
    stop: Option<(Stop, Option<String>)>,
    unexpected: bool,
}

/// The result of a call to the loop's own tools; `None` for every other call.
pub(super) fn result(config: &AgentConfig, key: CallKey, call: &ToolCall) -> Option<Refused> {
    let judged = judge(config, &call.tool_name, &call.arguments)?;
    let (status, stage, message) = match judged {
        Judged::Answer(_) | Judged::Sure { .. } | Judged::GivenUp(_) => {
            (ToolStatus::Ok, None, "taken: the run ends here".to_owned())
        }
        Judged::Unsure { confidence, threshold } => {
            let message = format!(
                "noted with confidence {confidence}; from {threshold} on it ends the run. Make sure of it and answer again, \
                 or leave `confidence` out if this is the best there is."
            );
            (ToolStatus::Ok, None, message)
        }
        Judged::Unexpected => (ToolStatus::Error, None, UNEXPECTED.trim().to_owned()),
        Judged::Malformed(why) => (ToolStatus::Error, Some(FailureStage::Validation), why),
    };
    Some(Refused { key, call: call.clone(), status, stage, message, permission: None })
}

fn judge(config: &AgentConfig, tool_name: &str, arguments: &str) -> Option<Judged> {
    if config.finish() == FinishBy::Text {
        return None;
    }
    let read = match tool_name {
        FINAL_ANSWER => text(arguments, "answer").and_then(|(answer, arguments)| {
            Ok(match (confidence(&arguments)?, config.confidence_threshold()) {
                _ if config.expect.as_ref().is_some_and(|expect| !expect.is_met_by(&answer)) => {
                    Judged::Unexpected
                }
                (Some(confidence), Some(threshold)) if confidence < f64::from(threshold) => {
                    Judged::Unsure { confidence, threshold }
                }
                (Some(confidence), Some(threshold)) => Judged::Sure { answer, confidence, threshold },
                _ => Judged::Answer(answer),
            })
        }),
        CANNOT_COMPLETE => text(arguments, "reason").map(|(reason, _)| Judged::GivenUp(reason)),
        _ => return None,
    };
    Some(read.unwrap_or_else(Judged::Malformed))
}

/// The text of one member, and all members. What is no text is taken as JSON text.
fn text(arguments: &str, name: &str) -> Result<(String, Value), String> {
    let value: Value =
        serde_json::from_str(arguments).map_err(|why| format!("the arguments are not JSON: {why}"))?;
    match value.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok((text.clone(), value)),
        None | Some(Value::Null | Value::String(_)) => {
            Err(format!("arguments: \"{name}\" is required and must say something"))
        }
        Some(other) => Ok((other.to_string(), value)),
    }
}

fn confidence(arguments: &Value) -> Result<Option<f64>, String> {
    match arguments.get("confidence") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| (0.0..=100.0).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("/confidence: {value} is no number from 0 to 100")),
        },
    }
}

/// Holds a decision about an answer to what `finish` allows.
pub(super) fn held_to(by: FinishBy, decision: Decision, seen: &Seen<'_>) -> Decision {
    match (by, decision) {
        (FinishBy::Tool, Decision::Complete { .. }) if seen.nudges_left > 0 => Decision::Nudge(USE_TOOL),
        (FinishBy::Tool, Decision::Complete { .. }) => {
            Decision::Stop { reason: StopReason::NoFinalAnswer, trigger: TEXT_ONLY.to_owned() }
        }
        (FinishBy::Tool, Decision::Nudge(finish::NUDGE | finish::NO_CALLS)) => Decision::Nudge(USE_TOOL),
        (_, decision) => decision,
    }
}

impl Run {
    /// Whether the loop itself answers this call.
    pub(super) fn is_own(&self, tool_name: &str) -> bool {
        self.config.finish() != FinishBy::Text && crate::tool::reserved::NAMES.contains(&tool_name)
    }

    /// Takes in the result of such a call. It counts as a call, but for no rule about repeats or overuse.
    pub(super) fn concluded(&mut self, fact: &ToolFinished) {
        self.state.tool_calls += 1;
        if fact.failure_stage == Some(FailureStage::Validation) {
            self.state.errors += 1;
        }
        let judged = judge(&self.config, &fact.tool_name, &fact.arguments);
        let conclusion = &mut self.state.conclusion;
        let taken = match (fact.status, judged) {
            (ToolStatus::Ok, Some(Judged::Answer(answer))) => (
                Stop { call: Some(fact.key), ..Stop::new(StopReason::Completed, FINAL_ANSWER) },
                Some(answer),
            ),
            (ToolStatus::Ok, Some(Judged::Sure { answer, confidence, threshold })) => {
                let stop = Stop::limit(
                    StopReason::ConfidenceThreshold,
                    "confidence_threshold",
                    threshold.into(),
                    confidence,
                );
                let detail = format!(
                    "the model's confidence in its answer is {confidence}, the threshold {threshold}"
                );
                (Stop { call: Some(fact.key), detail: Some(detail), ..stop }, Some(answer))
            }
            (ToolStatus::Ok, Some(Judged::GivenUp(reason))) => {
                let detail = match reason.chars().count() {
                    0..=REASON_CHARS => format!("the model says: {reason}"),
                    _ => format!("the model's reason is in the call at {}", fact.key),
                };
                let stop = Stop::new(StopReason::CannotComplete, CANNOT_COMPLETE);
                (Stop { call: Some(fact.key), detail: Some(detail), ..stop }, None)
            }
            (ToolStatus::Error, Some(Judged::Unexpected)) => {
                conclusion.unexpected |= fact.failure_stage.is_none();
                return;
            }
            _ => return,
        };
        let before = conclusion.stop.as_ref().map(|(stop, _)| stop.reason);
        if before.is_none_or(|before| before.strongest(taken.0.reason) != before) {
            conclusion.stop = Some(taken);
        }
    }

    /// Ends the run as the turn's own calls conclude, now that all calls have their results.
    pub(super) fn conclude(&mut self) -> Vec<Event> {
        let Conclusion { stop, unexpected } = std::mem::take(&mut self.state.conclusion);
        let mut events = Vec::new();
        if let Some((stop, answer)) = stop {
            events.extend(self.stop(stop.clone()));
            match self.state.stop.as_ref().map(|holds| holds.reason) {
                Some(reason) if reason == stop.reason => self.state.answer = answer,
                // It holds when the run goes on, unless the model must hear first that a call was cut off.
                Some(StopReason::Aborted) if !self.state.is_cut(self.state.turns) => {
                    self.state.conclusion.stop = Some((stop, answer));
                }
                _ => {}
            }
        } else if unexpected {
            events.extend(self.unexpected().err());
        }
        events
    }

    /// Takes an answer in text, or asks for another where one is expected that this is not.
    pub(super) fn complete(&mut self, turn: u32, trigger: String) -> Vec<Event> {
        let answer = self.state.messages.last().map(trace::message::Message::joined_text);
        let is_expected = self
            .config
            .expect
            .as_ref()
            .is_none_or(|expect| answer.as_ref().is_some_and(|answer| expect.is_met_by(answer)));
        match is_expected {
            true => {
                self.state.answer = answer;
                self.stop(Stop::new(StopReason::Completed, trigger))
            }
            false => match self.unexpected() {
                Ok(()) => self.nudge(turn, UNEXPECTED),
                Err(stopping) => vec![stopping],
            },
        }
    }

    /// Counts an answer that is not the expected one; one too many stops the run.
    fn unexpected(&mut self) -> Result<(), Event> {
        self.state.mismatches += 1;
        let retries = self.config.expect.as_ref().map_or(0, |expect| expect.retries);
        if self.state.mismatches <= retries {
            return Ok(());
        }
        let (limit, seen) = (retries.into(), (self.state.mismatches - 1).into());
        let detail = format!("{} answers, none of them the expected one", self.state.mismatches);
        let stop = Stop::limit(StopReason::ExpectedMismatch, "expected_mismatch", limit, seen);
        match self.stop(Stop { detail: Some(detail), ..stop }).pop() {
            Some(stopping) => Err(stopping),
            None => Ok(()),
        }
    }
}
