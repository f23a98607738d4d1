//! What a replay tells: numbers of both sides, the first difference, and honest words.

use crate::divergence::Divergence;
use crate::matching::{GivenAgain, Unanswered};
use serde::Serialize;
use trace::fact::Fact;
use trace::id::RunId;
use trace::message::Usage;
use trace::outcome::StopReason;
use trace::tape::Tape;

/// One of the two runs compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Why it stopped; `None` where the tape ends before.
    pub stop_reason: Option<StopReason>,
    /// Turns taken.
    pub turns: u32,
    /// Tool calls asked for.
    pub tool_calls: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Cost in US dollars; `None` where a price is unknown.
    pub cost_usd: Option<f64>,
    /// Time from first fact to last, in milliseconds.
    pub duration_ms: u64,
    /// Time inside model calls, in milliseconds.
    pub model_latency_ms: u64,
    /// What it answered.
    pub answer: Option<String>,
}

impl Side {
    /// The numbers of a tape.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let outcome = tape.ended().map(|ended| &ended.outcome);
        let model_ns: u64 = tape
            .lines()
            .iter()
            .map(|line| if let Fact::ModelAnswered(fact) = &line.fact { fact.latency_ns } else { 0 })
            .sum();
        Self {
            stop_reason: outcome.map(|outcome| outcome.stop_reason),
            turns: outcome.map_or(0, |outcome| outcome.turns),
            tool_calls: outcome.map_or(0, |outcome| outcome.tool_calls),
            usage: outcome.map(|outcome| outcome.usage).unwrap_or_default(),
            cost_usd: outcome.and_then(|outcome| outcome.cost_usd),
            duration_ms: outcome.map_or(0, |outcome| outcome.duration_ms),
            model_latency_ms: model_ns / 1_000_000,
            answer: outcome.and_then(|outcome| outcome.answer.clone()),
        }
    }
}

/// What a live replay found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReport {
    /// The recorded run.
    pub replay_of: RunId,
    /// The new run.
    pub run_id: RunId,
    /// The call without a recorded answer, which ended the replay, or paused it where a person would have to answer.
    pub diverged: Option<Unanswered>,
    /// Answers of people in the recorded run that were given again to the same questions.
    pub given_again: Vec<GivenAgain>,
    /// The first turn on which the two act differently.
    pub first_difference: Option<Divergence>,
    /// The recorded run's numbers.
    pub recorded: Side,
    /// The replay's numbers.
    pub replayed: Side,
}

impl LiveReport {
    /// One word for the whole: `diverged` once an answer was missing, else `validated`: every answer of a tool or a
    /// person that the replay worked with was recorded.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        if self.diverged.is_some() { "diverged" } else { "validated" }
    }
}
