//! Which recorded answer may be given to a call of a live replay.
//!
//! Place in the flow: a live replay's hands. An answer is matched by tool and canonical arguments, in recorded
//! order, each used once. There is no nearest answer and no default: the first call without a recorded answer
//! ends the replay as diverged, because everything after it would be invented.

use futures::future::{BoxFuture, ready};
use harness::hands::{Executed, Hands, error_text};
use harness::policy::{CanUse, Permit};
use harness::tool::ToolSpec;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use trace::canonical::{args_hash, canonical_text};
use trace::fact::Fact;
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
    /// Recorded arguments of the same tool that were not used, for people to compare; at most three.
    pub recorded: Vec<String>,
}

#[derive(Debug)]
struct Answer {
    tool_name: String,
    arguments: String,
    executed: Executed,
}

#[derive(Debug, Default)]
struct Answers {
    by_call: HashMap<Hash, VecDeque<Answer>>,
    unanswered: Option<Unanswered>,
}

/// Hands that answer from a tape.
#[derive(Debug)]
pub struct MatchingHands {
    answers: Mutex<Answers>,
}

impl MatchingHands {
    /// Hands with every recorded result of a tool that ran.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let mut answers = Answers::default();
        for line in tape.lines() {
            let Fact::ToolFinished(fact) = &line.fact else { continue };
            // A refusal is the loop's own doing; the replay's loop decides about its calls itself.
            if matches!(fact.failure_stage, None | Some(FailureStage::Execution | FailureStage::Timeout))
                && !matches!(fact.status, ToolStatus::Cancelled | ToolStatus::UnknownOutcome)
            {
                answers.by_call.entry(fact.args_hash).or_default().push_back(Answer {
                    tool_name: fact.tool_name.clone(),
                    arguments: fact.arguments.clone(),
                    executed: Executed {
                        status: fact.status,
                        content: tape.text(&fact.result).unwrap_or_default().to_owned(),
                        error_class: fact.error_class,
                        failure_stage: fact.failure_stage,
                        attempts: fact.attempts,
                        latency_ns: fact.latency_ns,
                        // No run is started here, and none is paid for again.
                        child: None,
                        needs: None,
                    },
                });
            }
        }
        Self { answers: Mutex::new(answers) }
    }

    /// The call that ended the replay, if one did.
    #[must_use]
    pub fn unanswered(&self) -> Option<Unanswered> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).unanswered.clone()
    }

    fn answer(&self, permit: &Permit) -> Executed {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = args_hash(permit.tool_name(), permit.arguments());
        if let Some(answer) = answers.by_call.get_mut(&hash).and_then(VecDeque::pop_front) {
            return answer.executed;
        }
        let recorded =
            answers.by_call.values().flatten().filter(|answer| answer.tool_name == permit.tool_name());
        let mut recorded: Vec<String> = recorded.map(|answer| answer.arguments.clone()).collect();
        recorded.sort();
        recorded.truncate(3);
        answers.unanswered.get_or_insert_with(|| Unanswered {
            key: permit.key(),
            tool_name: permit.tool_name().to_owned(),
            arguments: canonical_text(permit.arguments()),
            recorded,
        });
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
}

impl Hands for MatchingHands {
    fn carry_out<'a>(&'a self, permit: Permit, _spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        Box::pin(ready(self.answer(&permit)))
    }

    /// No tool is at hand that could be asked.
    fn check(&self, _: CallKey, _: &ToolSpec, _: &serde_json::Value) -> Result<CanUse, String> {
        Ok(CanUse::default())
    }
}
