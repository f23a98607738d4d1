//! What others call our stop reasons.
//!
//! Place in the flow: spans that leave carry these words beside ours, so that a query written for another program
//! finds our runs; a suite may expect a reason by any of them. Ours stay the only words of rows and pages.

use super::StopReason;

/// Every other word, with the reason it means.
const ALIASES: [(&str, StopReason); 9] = [
    ("done_signal", StopReason::Completed),
    ("final_answer", StopReason::Completed),
    ("max_iterations", StopReason::MaxTurns),
    ("step_limit_reached", StopReason::MaxTurns),
    ("budget_exhausted", StopReason::BudgetExceeded),
    ("no_final_answer_or_tool_call", StopReason::NoFinalAnswer),
    ("deadline_exceeded", StopReason::Timeout),
    ("cancelled", StopReason::Aborted),
    ("content_filter", StopReason::Refused),
];

impl StopReason {
    /// What others call it.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        ALIASES.iter().filter(move |(_, reason)| *reason == self).map(|(word, _)| *word)
    }

    /// The reason of our own word or of another's.
    #[must_use]
    pub fn from_any_word(word: &str) -> Option<Self> {
        Self::from_word(word)
            .or_else(|| ALIASES.iter().find(|(alias, _)| *alias == word).map(|(_, reason)| *reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_others_means_one_reason_and_is_none_of_ours() {
        for (word, reason) in ALIASES {
            assert_eq!(StopReason::from_any_word(word), Some(reason));
            assert_eq!(StopReason::from_word(word), None, "{word} is ours already");
            assert!(reason.aliases().any(|alias| alias == word));
        }
        for reason in StopReason::ALL {
            assert_eq!(StopReason::from_any_word(reason.as_str()), Some(*reason));
        }
        assert_eq!(StopReason::from_any_word("whatever"), None);
    }
}
