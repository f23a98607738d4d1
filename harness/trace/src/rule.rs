//! Rules: pure decisions over what was seen of a run, one rule a file.
//!
//! Place in the flow: row -> **rule** -> alert. The same code decides a stop in the loop, an alert on stored runs
//! of any framework and an assertion of an evaluation. A rule knows no clock, no database and no delivery: it is
//! given what was seen and answers with findings that carry their evidence.

pub mod error_rate;
pub mod max_turns;
pub mod repeated_call;
pub mod token_budget;
pub mod tool_overuse;

use crate::id::{CallKey, Hash, RunId, SpanId};
use crate::outcome::{Evidence, RunStatus, StopReason, ToolStatus};
use serde::{Deserialize, Serialize};

/// Every rule's name, as alerts, evidence and configuration spell it.
pub const NAMES: [&str; 5] =
    [max_turns::RULE, tool_overuse::RULE, repeated_call::RULE, token_budget::RULE, error_rate::RULE];

/// Evidence names at most this many spans: a page needs some to open, not ten thousand.
const SPANS_SHOWN: usize = 20;

/// What a rule needs to know of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSeen {
    /// Which call of the run.
    pub key: CallKey,
    /// The span that shows it.
    pub span: SpanId,
    /// The tool.
    pub tool_name: String,
    /// Hash of tool name and canonical arguments: equal for equal calls.
    pub args_hash: Hash,
    /// Hash of the canonical result; `None` while the call is open or where the source keeps no results.
    pub result_hash: Option<Hash>,
    /// How it ended.
    pub status: ToolStatus,
    /// Tokens of the turn that asked for it, as far as told.
    pub tokens: Option<u64>,
}

/// What a rule needs to know of one run, ended or going on.
#[derive(Debug, Clone)]
pub struct RunSeen<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// The agent's name, if the source tells it.
    pub agent: Option<&'a str>,
    /// Its state.
    pub status: RunStatus,
    /// Why it ended; `None` while it goes on.
    pub stop_reason: Option<StopReason>,
    /// What the loop itself said about the stop, if this is a run of our loop.
    pub stop_evidence: Option<&'a Evidence>,
    /// Model turns so far.
    pub turns: u32,
    /// The run's own turn budget; `None` where it has none or the source does not tell.
    pub max_turns: Option<u32>,
    /// Tokens so far; `None` where no provider told any.
    pub tokens: Option<u64>,
    /// The run's own token budget; `None` where it has none or the source does not tell.
    pub max_tokens: Option<u64>,
    /// Its tool calls in the order they were asked for.
    pub calls: &'a [CallSeen],
}

impl RunSeen<'_> {
    /// Whether the run came to a real end.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.stop_reason.map_or(self.status == RunStatus::Completed, |r| r.status() == RunStatus::Completed)
    }
}

/// What a rule found. Findings with the same rule, tool and arguments are one problem, whatever run shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule, one of [`NAMES`].
    pub rule: &'static str,
    /// The tool it is about, if it is about one.
    pub tool_name: Option<String>,
    /// The arguments it is about, if it is about one call again and again.
    pub args_hash: Option<Hash>,
    /// What was seen.
    pub evidence: Evidence,
}

/// Settings of the rules that look at one run; the table `[alerts]` of `loopdeck.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// `[alerts.max_turns]`
    pub max_turns: max_turns::MaxTurns,
    /// `[alerts.tool_overuse]`
    pub tool_overuse: tool_overuse::ToolOveruse,
    /// `[alerts.repeated_call]`
    pub repeated_call: repeated_call::RepeatedCall,
    /// `[alerts.token_budget]`
    pub token_budget: token_budget::TokenBudget,
    /// `[alerts.error_rate]`
    pub error_rate: error_rate::ErrorRate,
}

/// Everything the run rules find in one run. The error rate is not among them: it is about many runs.
#[must_use]
pub fn of_run(run: &RunSeen<'_>, rules: &Rules) -> Vec<Finding> {
    let mut findings: Vec<Finding> = max_turns::find(run, &rules.max_turns)
        .into_iter()
        .chain(token_budget::find(run, &rules.token_budget))
        .collect();
    findings.extend(tool_overuse::scan(run.calls, &rules.tool_overuse));
    findings.extend(repeated_call::scan(run.calls, &rules.repeated_call));
    findings
}

/// The spans of some calls, as many as evidence shows.
fn spans<'a>(calls: impl IntoIterator<Item = &'a CallSeen>) -> Vec<SpanId> {
    calls.into_iter().take(SPANS_SHOWN).map(|call| call.span).collect()
}

/// Tokens of the turns of some calls, each turn once; `None` when no call knows any.
fn tokens<'a>(calls: impl IntoIterator<Item = &'a CallSeen>) -> Option<u64> {
    let mut last_turn = None;
    calls.into_iter().fold(None, |sum, call| {
        let known = if last_turn == Some(call.key.turn) { None } else { call.tokens };
        last_turn = Some(call.key.turn);
        known.map_or(sum, |more| Some(sum.unwrap_or(0_u64).saturating_add(more)))
    })
}

/// A count as evidence carries it.
#[expect(clippy::cast_precision_loss, reason = "evidence is read by people; counts stay far below 2^52")]
fn figure(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod example {
    use super::*;

    /// Calls from a line such as `a a b`: the letter is tool, arguments and result; `a!` has no result.
    pub(super) fn calls(line: &str) -> Vec<CallSeen> {
        line.split_whitespace()
            .zip(1_u32..)
            .map(|(word, turn)| {
                let name = word.trim_end_matches('!');
                CallSeen {
                    key: CallKey { turn, index: 0 },
                    span: RunId::from_draw(1).span("tool", turn, 0),
                    tool_name: name.to_owned(),
                    args_hash: crate::canonical::args_hash(name, "{}"),
                    result_hash: (!word.ends_with('!')).then(|| crate::canonical::result_hash(name)),
                    status: ToolStatus::Ok,
                    tokens: Some(10),
                }
            })
            .collect()
    }

    /// A run of these calls that still goes on.
    pub(super) fn run<'a>(run_id: &'a RunId, calls: &'a [CallSeen]) -> RunSeen<'a> {
        RunSeen {
            run_id,
            agent: Some("booker"),
            status: RunStatus::Running,
            stop_reason: None,
            stop_evidence: None,
            turns: u32::try_from(calls.len()).unwrap(),
            max_turns: None,
            tokens: None,
            max_tokens: None,
            calls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_run_has_no_findings_and_a_looping_one_has_each_problem_once() {
        let id = RunId::from_draw(1);
        let quiet = example::calls("a b c");
        assert_eq!(of_run(&example::run(&id, &quiet), &Rules::default()), []);

        let looping = example::calls("a a a a a a a");
        let rules: Vec<_> =
            of_run(&example::run(&id, &looping), &Rules::default()).iter().map(|one| one.rule).collect();
        assert_eq!(rules, [tool_overuse::RULE, repeated_call::RULE]);
    }

    #[test]
    fn tokens_of_a_turn_count_once_however_many_calls_it_asked_for() {
        let mut calls = example::calls("a b c");
        calls[1].key = CallKey { turn: 1, index: 1 };
        assert_eq!(tokens(&calls), Some(20));
        calls.iter_mut().for_each(|call| call.tokens = None);
        assert_eq!(tokens(&calls), None);
    }
}
