//! Rule `error_rate`: too many of a tool's recent calls fail.
//!
//! Place in the flow: the schedule counts calls of a rolling window and asks [`find`]. It works on counts alone,
//! so that the counting can be done where the rows are. While it fires it holds on until the rate has fallen
//! clearly below the line, so that a rate on the line does not page at every look.

use super::{Finding, figure};
use crate::outcome::{Evidence, ToolStatus};
use serde::{Deserialize, Serialize};

/// The rule's name.
pub const RULE: &str = "error_rate";

/// Settings of the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorRate {
    /// Fires strictly above this many failures in a hundred calls.
    pub above_percent: f64,
    /// While firing, resolves at or below this many failures in a hundred calls.
    pub clear_percent: f64,
    /// Fewer calls than this in the window decide nothing.
    pub min_calls: u64,
    /// Length of the rolling window, in seconds.
    pub window_s: u64,
}

impl Default for ErrorRate {
    /// Above 20 % of at least 20 calls within 5 minutes; clear at 16 %.
    fn default() -> Self {
        Self { above_percent: 20.0, clear_percent: 16.0, min_calls: 20, window_s: 300 }
    }
}

/// Ended calls of one tool inside a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls that ended.
    pub calls: u64,
    /// Those that failed, see [`is_failure`].
    pub errors: u64,
}

/// Whether a call's end counts as the tool's failure. What policy refused or a person cancelled is not.
#[must_use]
pub const fn is_failure(status: ToolStatus) -> bool {
    matches!(status, ToolStatus::Error | ToolStatus::Timeout | ToolStatus::UnknownOutcome)
}

/// Whether the rate is above the line; with `firing`, whether it is still above the line that clears it.
#[must_use]
pub fn find(
    tool_name: Option<&str>,
    seen: CallCounts,
    firing: bool,
    settings: &ErrorRate,
) -> Option<Finding> {
    let line =
        if firing { settings.clear_percent.min(settings.above_percent) } else { settings.above_percent };
    // Counts times a hundred against percent times counts: 20.0 % of 15 calls stays exactly 3.
    let above = figure(seen.errors) * 100.0 > line * figure(seen.calls);
    (above && seen.calls >= settings.min_calls).then(|| finding(tool_name, seen, settings))
}

fn finding(tool_name: Option<&str>, seen: CallCounts, settings: &ErrorRate) -> Finding {
    let percent = figure(seen.errors) * 100.0 / figure(seen.calls);
    let who = tool_name.map_or_else(|| "all tools".to_owned(), |name| format!("`{name}`"));
    Finding {
        rule: RULE,
        tool_name: tool_name.map(str::to_owned),
        args_hash: None,
        evidence: Evidence {
            rule: RULE.to_owned(),
            detail: format!(
                "{percent:.1} % of the calls of {who} failed: {} of {} in {} s",
                seen.errors, seen.calls, settings.window_s
            ),
            threshold: Some(settings.above_percent),
            observed: Some(percent),
            spans: Vec::new(),
            tokens_wasted: None,
            next_safe_action: Some(format!(
                "open a failed call of {who} and read its error before more runs start"
            )),
            resumable: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_twenty_percent_is_silent_and_one_more_error_fires() {
        for (errors, calls, fires) in [
            (4, 20, false),
            (5, 20, true),
            (3, 15, false),
            (200, 1000, false),
            (201, 1000, true),
            (19, 19, false),
            (20, 20, true),
            (0, 0, false),
        ] {
            let found = find(Some("search"), CallCounts { calls, errors }, false, &ErrorRate::default());
            assert_eq!(found.is_some(), fires, "{errors} of {calls}");
        }
    }

    #[test]
    fn the_minimum_sample_is_a_setting() {
        let settings = ErrorRate { min_calls: 1, ..ErrorRate::default() };
        assert!(find(None, CallCounts { calls: 1, errors: 1 }, false, &settings).is_some());
        let settings = ErrorRate { min_calls: 0, ..settings };
        assert!(find(None, CallCounts::default(), false, &settings).is_none(), "no call, no rate");
    }

    #[test]
    fn a_firing_alert_holds_until_the_rate_is_clearly_lower() {
        for (errors, firing, fires) in
            [(20, false, false), (20, true, true), (17, true, true), (16, true, false)]
        {
            let found = find(None, CallCounts { calls: 100, errors }, firing, &ErrorRate::default());
            assert_eq!(found.is_some(), fires, "{errors} of 100, firing {firing}");
        }
    }

    #[test]
    fn only_the_tools_own_failures_count() {
        let counted: Vec<_> =
            ToolStatus::ALL.iter().copied().filter(|one| is_failure(*one)).map(ToolStatus::as_str).collect();
        assert_eq!(counted, ["error", "timeout", "unknown_outcome"]);
    }

    #[test]
    fn the_sentence_tells_rate_counts_and_window() {
        let found =
            find(Some("search"), CallCounts { calls: 30, errors: 7 }, false, &ErrorRate::default()).unwrap();
        insta::assert_snapshot!(found.evidence.detail, @"23.3 % of the calls of `search` failed: 7 of 30 in 300 s");
    }
}
