//! Rule `repeated_call`: the same call gives the same result again and again, alone or in a small cycle.
//!
//! Place in the flow: the loop asks [`find`] after every stage, which looks only at the tail; stored runs go
//! through [`scan`]. A cycle is a block of one, two or three calls that repeats (`a a a`, `a b a b a b`). Calls
//! are the same when tool, canonical arguments and result are: a poll whose answer changes is progress, and a
//! call whose result nobody recorded proves nothing.

use super::{CallSeen, Finding, figure, spans, tokens};
use crate::outcome::Evidence;
use serde::{Deserialize, Serialize};

/// The rule's name.
pub const RULE: &str = "repeated_call";

/// Settings of the rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepeatedCall {
    /// How many times in a row fire; below 2 the rule is off.
    pub threshold: usize,
    /// The longest block that counts as a cycle, in calls.
    pub max_period: usize,
    /// Tools that are meant to be asked again, such as those that poll a job.
    pub exempt: Vec<String>,
}

impl Default for RepeatedCall {
    /// Three times in a row, blocks of one to three calls.
    fn default() -> Self {
        Self { threshold: 3, max_period: 3, exempt: Vec::new() }
    }
}

/// Whether the run's latest calls are a block repeated `threshold` times or more.
#[must_use]
pub fn find(calls: &[CallSeen], settings: &RepeatedCall) -> Option<Finding> {
    if settings.threshold < 2 {
        return None;
    }
    (1..=settings.max_period).find_map(|period| {
        let same =
            (period..calls.len()).rev().take_while(|at| is_same(&calls[*at], &calls[*at - period], settings));
        let cycle = &calls[calls.len() - (same.count() + period).min(calls.len())..];
        (cycle.len() >= settings.threshold * period).then(|| finding(cycle, period, settings))
    })
}

/// Every cycle of a stored run; of cycles of the same call the longest.
#[must_use]
pub fn scan(calls: &[CallSeen], settings: &RepeatedCall) -> Vec<Finding> {
    if settings.threshold < 2 {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = Vec::new();
    for period in 1..=settings.max_period {
        for cycle in cycles(calls, period, settings) {
            if has_smaller_period(cycle, period) {
                continue;
            }
            let found = finding(cycle, period, settings);
            let known = findings
                .iter_mut()
                .find(|one| (&one.tool_name, one.args_hash) == (&found.tool_name, found.args_hash));
            match known {
                Some(known) if known.evidence.observed < found.evidence.observed => *known = found,
                Some(_) => {}
                None => findings.push(found),
            }
        }
    }
    findings
}

/// The longest stretches in which each call equals the one `period` before it, where they are long enough.
fn cycles<'a>(calls: &'a [CallSeen], period: usize, settings: &RepeatedCall) -> Vec<&'a [CallSeen]> {
    let mut found = Vec::new();
    let mut start = 0;
    for at in period..=calls.len() {
        if at < calls.len() && is_same(&calls[at], &calls[at - period], settings) {
            continue;
        }
        if at - start >= settings.threshold * period {
            found.push(&calls[start..at]);
        }
        start = at + 1 - period;
    }
    found
}

fn is_same(a: &CallSeen, b: &CallSeen, settings: &RepeatedCall) -> bool {
    a.result_hash.is_some()
        && a.result_hash == b.result_hash
        && a.args_hash == b.args_hash
        && a.tool_name == b.tool_name
        && !settings.exempt.contains(&a.tool_name)
}

/// Whether a shorter block already tells the story: `a a a a a a` is no cycle of two.
fn has_smaller_period(cycle: &[CallSeen], period: usize) -> bool {
    (1..period).filter(|smaller| period.is_multiple_of(*smaller)).any(|smaller| {
        (smaller..period).all(|at| {
            let (a, b) = (&cycle[at], &cycle[at - smaller]);
            (&a.tool_name, a.args_hash, a.result_hash) == (&b.tool_name, b.args_hash, b.result_hash)
        })
    })
}

fn finding(cycle: &[CallSeen], period: usize, settings: &RepeatedCall) -> Finding {
    let times = cycle.len() / period;
    let block = &cycle[..period];
    // The smallest call stands for the block, so that a cycle met at another point keeps its identity.
    let named = block.iter().min_by_key(|call| (&call.tool_name, call.args_hash));
    let names: Vec<String> = block.iter().map(|call| format!("`{}`", call.tool_name)).collect();
    let detail = match period {
        1 => format!(
            "{} was called {times} times in a row with the same arguments and the same result",
            names[0]
        ),
        _ => format!(
            "the calls {} were made {times} times in a row with the same arguments and results",
            names.join(", ")
        ),
    };
    Finding {
        rule: RULE,
        tool_name: named.map(|call| call.tool_name.clone()),
        args_hash: named.map(|call| call.args_hash),
        evidence: Evidence {
            rule: RULE.to_owned(),
            detail,
            threshold: Some(figure(settings.threshold as u64)),
            observed: Some(figure(times as u64)),
            spans: spans(cycle),
            tokens_wasted: tokens(&cycle[period..]),
            next_safe_action: Some(
                "tell the model why the result will not change, or make the tool's answer say what to do instead"
                    .to_owned(),
            ),
            resumable: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::example::calls;
    use proptest::prelude::*;

    /// The repetitions that the tail of a line shows.
    fn tail(line: &str) -> Option<f64> {
        find(&calls(line), &RepeatedCall::default()).and_then(|one| one.evidence.observed)
    }

    #[test]
    fn the_tail_is_a_cycle_of_one_two_or_three_calls_or_nothing() {
        for (line, times) in [
            ("a a", None),
            ("a a a", Some(3.0)),
            ("b a a a a", Some(4.0)),
            ("a a a b", None),
            ("a b a b a", None),
            ("a b a b a b", Some(3.0)),
            ("a b c a b c a b c", Some(3.0)),
            ("a b c a b c a b", None),
            ("a b c d a b c d a b c d", None),
            ("a! a! a!", None),
            ("a a a!", None),
            ("", None),
        ] {
            assert_eq!(tail(line), times, "{line}");
        }
    }

    #[test]
    fn polling_tools_are_left_alone() {
        let settings = RepeatedCall { exempt: vec!["a".into()], ..RepeatedCall::default() };
        assert_eq!(find(&calls("a a a a"), &settings), None);
        assert_eq!(find(&calls("a b a b a b"), &settings), None);
        assert_eq!(scan(&calls("a a a a b b"), &settings), []);
    }

    #[test]
    fn other_results_or_other_arguments_are_progress() {
        let mut polled = calls("a a a");
        polled[2].result_hash = Some(crate::id::Hash::of(b"ready"));
        assert_eq!(find(&polled, &RepeatedCall::default()), None);
        let mut paged = calls("a a a");
        paged[1].args_hash = crate::id::Hash::of(b"page 2");
        assert_eq!(find(&paged, &RepeatedCall::default()), None);
    }

    #[test]
    fn a_stored_run_tells_each_cycle_once_at_its_longest() {
        for (line, expected) in [
            ("a a a a a b", vec![("a", 5.0)]),
            ("a a a b a a a a", vec![("a", 4.0)]),
            ("c a b a b a b c", vec![("a", 3.0)]),
            ("b a b a b a", vec![("a", 3.0)]),
            ("a a a b b b", vec![("a", 3.0), ("b", 3.0)]),
            ("a b a b", vec![]),
        ] {
            let found = scan(&calls(line), &RepeatedCall::default());
            let told: Vec<_> = found
                .iter()
                .map(|one| (one.tool_name.as_deref().unwrap(), one.evidence.observed.unwrap()))
                .collect();
            assert_eq!(told, expected, "{line}");
        }
    }

    #[test]
    fn the_evidence_tells_what_was_repeated_and_what_it_cost() {
        let found = find(&calls("b a a a"), &RepeatedCall::default()).unwrap();
        assert_eq!(found.evidence.tokens_wasted, Some(20), "the first call was worth its tokens");
        insta::assert_snapshot!(found.evidence.detail, @"`a` was called 3 times in a row with the same arguments and the same result");
    }

    #[test]
    fn a_threshold_below_two_switches_the_rule_off() {
        let settings = RepeatedCall { threshold: 1, ..RepeatedCall::default() };
        assert_eq!(find(&calls("a a a"), &settings), None);
        assert_eq!(scan(&calls("a a a"), &settings), []);
    }

    proptest! {
        #[test]
        fn a_run_that_was_once_stoppable_is_found_afterwards(line in "([a-c] ){0,14}") {
            let all = calls(&line);
            let settings = RepeatedCall::default();
            let live = (0..=all.len()).any(|n| find(&all[..n], &settings).is_some());
            prop_assert_eq!(live, !scan(&all, &settings).is_empty());
        }
    }
}
