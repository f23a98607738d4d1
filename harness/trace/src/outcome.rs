//! How runs and calls end: stop reasons, statuses, evidence. The words of columns, spans, pages and the CLI.
//!
//! Place in the flow: the loop decides these values, facts carry them. A stop is a value, never an error.

mod alias;

use crate::id::{Hash, SpanId};
use crate::message::Usage;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The one spelling, used in columns, attributes, JSON and text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The value with this spelling.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;

words! {
    /// Why a run stopped.
    ///
    /// The order of declaration is the order of precedence: when several reasons hold at once, the first listed
    /// wins. A person's word first, then what makes the result unsafe or impossible to trust, then a real end,
    /// then limits from the hardest to the softest, then waiting.
    StopReason {
        /// A person or the caller cancelled it.
        Aborted = "aborted",
        /// Credentials are missing or refused.
        AuthRequired = "auth_required",
        /// A tool failed in a way that the model cannot correct.
        FatalToolError = "fatal_tool_error",
        /// Policy refused an action and says that the run must end.
        PermissionDenied = "permission_denied",
        /// The model said that it is done.
        Completed = "completed",
        /// The model said that it cannot do it.
        CannotComplete = "cannot_complete",
        /// The run was handed to somebody else.
        Transferred = "transferred",
        /// The model or a filter declined.
        Refused = "refused",
        /// The answer never matched the expected value.
        ExpectedMismatch = "expected_mismatch",
        /// Confidence reached the threshold.
        ConfidenceThreshold = "confidence_threshold",
        /// The wall-clock budget is used up.
        Timeout = "timeout",
        /// The turn budget is used up.
        MaxTurns = "max_turns",
        /// A budget of tokens, cost or tool calls is used up.
        BudgetExceeded = "budget_exceeded",
        /// The same call with the same arguments and result, again and again.
        RepeatedCalls = "repeated_calls",
        /// Too many errors of tools or planner.
        ErrorBudget = "error_budget",
        /// The model's output was cut off twice in a row.
        OutputTruncated = "output_truncated",
        /// The context window is full and cannot be made smaller.
        ContextExhausted = "context_exhausted",
        /// The model ended without an answer and without a tool call.
        NoFinalAnswer = "no_final_answer",
        /// The provider failed for good, or past all retries.
        ModelError = "model_error",
        /// An action waits for a person's approval.
        AwaitingApproval = "awaiting_approval",
        /// The run waits for a person's answer.
        AwaitingInput = "awaiting_input",
        /// Not known; other people's traces often do not say.
        Unknown = "unknown",
    }
}

words! {
    /// What state a run is in.
    RunStatus {
        /// Not ended yet, or its process died.
        Running = "running",
        /// Ended as it should.
        Completed = "completed",
        /// Ended by a limit or a rule.
        Stopped = "stopped",
        /// Ended without success.
        Failed = "failed",
        /// Waits for a person.
        Paused = "paused",
        /// Cancelled.
        Aborted = "aborted",
    }
}

words! {
    /// How a tool call ended.
    ToolStatus {
        /// It worked.
        Ok = "ok",
        /// It failed, or was refused because it was malformed.
        Error = "error",
        /// Policy, a person or a budget refused it.
        Denied = "denied",
        /// It took too long.
        Timeout = "timeout",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It was started and the process died: nobody knows.
        UnknownOutcome = "unknown_outcome",
    }
}

words! {
    /// Where a failed tool call failed.
    FailureStage {
        /// No such tool.
        UnknownTool = "unknown_tool",
        /// The arguments are not what the schema wants, or were cut off.
        Validation = "validation",
        /// Policy refused.
        Permission = "permission",
        /// A budget refused.
        Budget = "budget",
        /// The tool itself failed.
        Execution = "execution",
        /// The tool took too long.
        Timeout = "timeout",
    }
}

words! {
    /// What kind of failure; the kind alone decides on retry and stop.
    FaultClass {
        /// May work the next time: overload, 429, 5xx, a cut stream.
        Transient = "transient",
        /// Will not work the next time.
        Permanent = "permanent",
        /// Credentials.
        Auth = "auth",
        /// No answer in time.
        Timeout = "timeout",
        /// The context is too large for the model.
        Overflow = "overflow",
        /// Cancelled by the caller.
        Cancelled = "cancelled",
        /// The run must end.
        Fatal = "fatal",
    }
}

impl StopReason {
    /// The state of a run that stopped for this reason.
    #[must_use]
    pub const fn status(self) -> RunStatus {
        match self {
            Self::Completed | Self::ConfidenceThreshold | Self::Transferred => RunStatus::Completed,
            Self::Timeout
            | Self::BudgetExceeded
            | Self::MaxTurns
            | Self::RepeatedCalls
            | Self::ErrorBudget
            | Self::OutputTruncated
            | Self::ContextExhausted
            | Self::PermissionDenied => RunStatus::Stopped,
            Self::AwaitingApproval | Self::AwaitingInput | Self::AuthRequired => RunStatus::Paused,
            Self::Aborted => RunStatus::Aborted,
            Self::CannotComplete
            | Self::Refused
            | Self::ExpectedMismatch
            | Self::NoFinalAnswer
            | Self::FatalToolError
            | Self::ModelError
            | Self::Unknown => RunStatus::Failed,
        }
    }

    /// Which of two reasons that hold at once is the one to report.
    #[must_use]
    pub fn strongest(self, other: Self) -> Self {
        self.min(other)
    }
}

/// Why something was stopped or reported, with what was seen. The same object in tape, row, span, CLI and page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The rule or limit that fired, such as `max_turns` or `repeated_call`.
    pub rule: String,
    /// One sentence with the figures.
    pub detail: String,
    /// What the limit is, in the rule's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// What was seen, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
    /// The spans that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanId>,
    /// Tokens spent on what the rule objects to; `None` where the provider told none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_wasted: Option<u64>,
    /// What a person can safely do next; empty only for a completed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_safe_action: Option<String>,
    /// Whether the run can be continued from where it stopped.
    pub resumable: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The state.
    pub status: RunStatus,
    /// The reason.
    pub stop_reason: StopReason,
    /// The exact condition that fired, such as `end_turn`, `final_answer` or `max_input_tokens`.
    pub trigger: String,
    /// What the run answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Model turns taken.
    pub turns: u32,
    /// Tool calls asked for.
    pub tool_calls: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Cost of all model calls in US dollars; `None` where a price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Time from the first fact to the last, in milliseconds of the run's clock.
    pub duration_ms: u64,
    /// Why, with what was seen.
    pub evidence: Evidence,
    /// The head of the conversation as it was left.
    pub head: Hash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_of_stop_reasons_is_one_total_order_over_all_pairs() {
        for a in StopReason::ALL {
            for b in StopReason::ALL {
                let winner = a.strongest(*b);
                assert_eq!(winner, b.strongest(*a), "{a} and {b} must agree whoever asks");
                assert!(winner == *a || winner == *b);
                for c in StopReason::ALL {
                    assert_eq!(a.strongest(*b).strongest(*c), a.strongest(b.strongest(*c)));
                }
            }
        }
    }

    #[test]
    fn only_a_real_end_is_shown_as_completed() {
        let completed: Vec<_> =
            StopReason::ALL.iter().filter(|reason| reason.status() == RunStatus::Completed).collect();
        assert_eq!(
            completed,
            [&StopReason::Completed, &StopReason::Transferred, &StopReason::ConfidenceThreshold]
        );
    }

    #[test]
    fn every_word_reads_back_as_itself() {
        for reason in StopReason::ALL {
            assert_eq!(StopReason::from_word(reason.as_str()), Some(*reason));
        }
        assert_eq!(StopReason::from_word("step_limit_reached"), None);
    }
}
