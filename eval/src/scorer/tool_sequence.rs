//! `tool_sequence`: the run made the expected tool calls.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. What is expected is a list of
//! `{"tool_name": .., "arguments": {..}}`; a call without `arguments` is met by any. The modes and the strictness
//! of arguments are those of agentevals. Where order does not count, calls are paired by the largest pairing, so a
//! greedy choice never turns a pass into a failure.

use super::matching::{Strictness, largest_pairing, matches_arguments};
use super::{FromOptions, Score, Scorer, excerpt, expectation::Expectation};
use crate::case::Case;
use crate::statistic::real;
use crate::subject::{Subject, ToolCall};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most calls a case may expect; pairing costs time in the product of both lists.
const MAX_EXPECTED_CALLS: usize = 1000;
/// The most calls of a run that are paired.
const MAX_MADE_CALLS: usize = 10_000;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    value: Option<Value>,
    expected: Option<String>,
    #[serde(default)]
    mode: Mode,
    /// How arguments are compared.
    #[serde(default)]
    arguments: Strictness,
    /// The same for single tools, by name.
    #[serde(default)]
    per_tool: BTreeMap<String, Strictness>,
    /// Whether no calls at all may be expected (or, with `subset`, made).
    #[serde(default)]
    allow_empty: bool,
}

/// Which calls must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// The expected calls, in their order, and no others.
    #[default]
    Strict,
    /// The expected calls, in any order, and no others.
    Unordered,
    /// No call that is not expected.
    Subset,
    /// At least the expected calls, in any order.
    Superset,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct ToolSequence {
    expectation: Expectation,
    mode: Mode,
    arguments: Strictness,
    per_tool: BTreeMap<String, Strictness>,
    allow_empty: bool,
}

/// A call that is expected.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tool_name: String,
    #[serde(default)]
    arguments: Option<Value>,
}

impl FromOptions for ToolSequence {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        if options.mode == Mode::Superset && options.allow_empty {
            return Err("`allow_empty` with mode `superset` would pass every run; drop one".to_owned());
        }
        let scorer = Self {
            expectation: Expectation::new(options.value, options.expected)?,
            mode: options.mode,
            arguments: options.arguments,
            per_tool: options.per_tool,
            allow_empty: options.allow_empty,
        };
        if let Expectation::Fixed(value) = &scorer.expectation {
            scorer.wanted(value)?;
        }
        Ok(scorer)
    }
}

/// A made call with its arguments parsed once; `None` where they are missing or broken.
struct Made<'a> {
    call: &'a ToolCall,
    arguments: Option<Value>,
}

impl ToolSequence {
    fn wanted(&self, expected: &Value) -> Result<Vec<Wanted>, String> {
        let wanted = Vec::<Wanted>::deserialize(expected).map_err(|error| {
            format!("what is expected must be a list of {{\"tool_name\", \"arguments\"}}: {error}")
        })?;
        if wanted.is_empty() && !self.allow_empty {
            return Err("no tool call is expected; set `allow_empty = true` if that is meant".to_owned());
        }
        match wanted.len() > MAX_EXPECTED_CALLS {
            true => Err(format!("{} tool calls are expected, more than {MAX_EXPECTED_CALLS}", wanted.len())),
            false => Ok(wanted),
        }
    }

    fn strictness(&self, wanted: &Wanted) -> Strictness {
        match wanted.arguments {
            None => Strictness::Ignore,
            Some(_) => self.per_tool.get(&wanted.tool_name).copied().unwrap_or(self.arguments),
        }
    }

    fn fits(&self, wanted: &Wanted, made: &Made<'_>) -> bool {
        if wanted.tool_name != made.call.tool_name {
            return false;
        }
        match (self.strictness(wanted), &wanted.arguments, &made.arguments) {
            (Strictness::Ignore, ..) => true,
            (strictness, Some(wanted), Some(made)) => matches_arguments(wanted, made, strictness),
            _ => false,
        }
    }

    /// A call whose arguments are needed and were not recorded: nothing can be said about it.
    fn unrecorded<'a>(&self, wanted: &[Wanted], made: &[Made<'a>]) -> Option<&'a str> {
        let needed = |name: &str| {
            wanted.iter().any(|one| one.tool_name == name && self.strictness(one) != Strictness::Ignore)
        };
        made.iter()
            .find(|made| made.call.arguments.is_none() && needed(&made.call.tool_name))
            .map(|made| made.call.tool_name.as_str())
    }

    fn judge(&self, wanted: &[Wanted], made: &[Made<'_>]) -> Score {
        if let Some(name) = self.unrecorded(wanted, made) {
            return Score::error("unknown", format!("the arguments of `{name}` were not recorded"));
        }
        match self.mode {
            Mode::Strict => self.judge_strict(wanted, made),
            Mode::Unordered | Mode::Subset | Mode::Superset => self.judge_paired(wanted, made),
        }
    }

    fn judge_strict(&self, wanted: &[Wanted], made: &[Made<'_>]) -> Score {
        let same = wanted.iter().zip(made).take_while(|(wanted, made)| self.fits(wanted, made)).count();
        let longest = wanted.len().max(made.len());
        if same == longest {
            return Score::pass(format!("{same} of {same} calls are as expected, in order"));
        }
        let place = same + 1;
        let (label, told) = match (wanted.get(same), made.get(same)) {
            (Some(wanted), None) => ("missing_call", format!("expected {}, got none", wanted.told())),
            (None, Some(made)) => ("unexpected_call", format!("expected no more, got {}", made.told())),
            (Some(wanted), Some(made)) => {
                let same_tool = wanted.tool_name == made.call.tool_name;
                let label = if same_tool { "wrong_arguments" } else { "wrong_tool" };
                (label, format!("expected {}, got {}", wanted.told(), made.told()))
            }
            (None, None) => ("mismatch", String::new()),
        };
        Score::fail(label, format!("call {place}: {told}")).valued(share(same, longest))
    }

    fn judge_paired(&self, wanted: &[Wanted], made: &[Made<'_>]) -> Score {
        let pairs =
            largest_pairing(wanted.len(), made.len(), |one, other| self.fits(&wanted[one], &made[other]));
        let paired = pairs.iter().flatten().count();
        let unmet = pairs.iter().position(Option::is_none).map(|index| &wanted[index]);
        let extra = (0..made.len()).find(|other| !pairs.contains(&Some(*other))).map(|index| &made[index]);
        let (unmet, extra, of) = match self.mode {
            Mode::Strict | Mode::Unordered => (unmet, extra, wanted.len().max(made.len())),
            Mode::Subset => (None, extra, made.len()),
            Mode::Superset => (unmet, None, wanted.len()),
        };
        let told = format!("{paired} of {of} calls are as expected");
        match (unmet, extra) {
            (None, None) => Score::pass(told),
            (Some(unmet), extra) => {
                let got = extra.map(|made| format!(", got {}", made.told())).unwrap_or_default();
                let reason = format!("{told}; missing {}{got}", unmet.told());
                Score::fail("missing_call", reason).valued(share(paired, of))
            }
            (None, Some(extra)) => {
                let reason = format!("{told}; not expected: {}", extra.told());
                Score::fail("unexpected_call", reason).valued(share(paired, of))
            }
        }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { real(part as u64) / real(whole as u64) }
}

impl Wanted {
    fn told(&self) -> String {
        let arguments = self.arguments.as_ref().map_or_else(|| "..".to_owned(), Value::to_string);
        excerpt(&format!("{}({arguments})", self.tool_name))
    }
}

impl<'a> Made<'a> {
    fn new(call: &'a ToolCall) -> Self {
        Self { call, arguments: call.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok()) }
    }

    fn told(&self) -> String {
        excerpt(&format!("{}({})", self.call.tool_name, self.call.arguments.as_deref().unwrap_or("?")))
    }
}

impl Scorer for ToolSequence {
    fn check(&self, case: &Case) -> Result<(), String> {
        self.wanted(self.expectation.of(case)?).map(|_| ())
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let wanted = match self.expectation.of(case).and_then(|expected| self.wanted(expected)) {
            Ok(wanted) => wanted,
            Err(problem) => return Score::error("no_expected", problem),
        };
        let count = subject.tool_calls.len();
        if count > MAX_MADE_CALLS {
            return Score::error(
                "too_many",
                format!("the run made {count} calls, more than {MAX_MADE_CALLS}"),
            );
        }
        if count == 0 && self.mode == Mode::Subset && !self.allow_empty {
            return Score::fail("no_calls", "the run made no tool call, so none could be as expected");
        }
        let made: Vec<Made<'_>> = subject.tool_calls.iter().map(Made::new).collect();
        self.judge(&wanted, &made)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::json;

    fn score(options: Value, expected: Value, calls: &[(&str, Value)]) -> Score {
        let scorer = build("tool_sequence", options.as_object().unwrap().clone()).unwrap();
        let case = Case { expected: Some(expected), ..Case::named("a") };
        scorer.score(&case, &sample::calling(calls))
    }

    fn wanted(calls: &[(&str, Value)]) -> Value {
        calls.iter().map(|(name, arguments)| json!({"tool_name": name, "arguments": arguments})).collect()
    }

    #[test]
    fn the_modes_differ_in_order_and_in_what_may_be_missing_or_more() {
        let (a, b, c) = (("a", json!({"x": 1})), ("b", json!({"y": 2})), ("c", json!({})));
        let ab = wanted(&[a.clone(), b.clone()]);
        for (made, strict, unordered, subset, superset) in [
            (vec![a.clone(), b.clone()], true, true, true, true),
            (vec![b.clone(), a.clone()], false, true, true, true),
            (vec![a.clone()], false, false, true, false),
            (vec![a.clone(), b.clone(), c.clone()], false, false, false, true),
            (vec![a.clone(), a.clone()], false, false, false, false),
            (vec![a.clone(), c.clone()], false, false, false, false),
        ] {
            for (mode, passes) in
                [("strict", strict), ("unordered", unordered), ("subset", subset), ("superset", superset)]
            {
                let score = score(json!({"mode": mode}), ab.clone(), &made);
                let verdict = if passes { Verdict::Pass } else { Verdict::Fail };
                assert_eq!(score.verdict, verdict, "{mode} of {made:?}: {}", score.reason);
            }
        }
    }

    #[test]
    fn arguments_are_compared_as_strictly_as_asked_and_by_tool() {
        let expected = wanted(&[("search", json!({"q": "x", "limit": 1}))]);
        for (options, made, passes) in [
            (json!({}), json!({"limit": 1.0, "q": "x"}), true),
            (json!({}), json!({"q": "x", "limit": true}), false),
            (json!({}), json!({"q": "x"}), false),
            (json!({"arguments": "ignore"}), json!({"q": "other"}), true),
            (json!({"arguments": "subset"}), json!({"q": "x"}), true),
            (json!({"arguments": "subset"}), json!({"q": "y"}), false),
            (json!({"arguments": "superset"}), json!({"q": "x", "limit": 1, "page": 2}), true),
            (json!({"arguments": "superset"}), json!({"q": "x"}), false),
            (json!({"per_tool": {"search": "ignore"}}), json!({}), true),
            (json!({"arguments": "ignore", "per_tool": {"search": "exact"}}), json!({}), false),
            (json!({"per_tool": {"other": "ignore"}}), json!({}), false),
        ] {
            let score = score(options.clone(), expected.clone(), &[("search", made.clone())]);
            let verdict = if passes { Verdict::Pass } else { Verdict::Fail };
            assert_eq!(score.verdict, verdict, "{options} of {made}: {}", score.reason);
        }
    }

    #[test]
    fn a_call_that_fits_two_expectations_leaves_the_other_call_its_only_one() {
        let expected = wanted(&[("a", json!({"x": {"any_of": [1, 2]}})), ("a", json!({"x": 1}))]);
        let made = [("a", json!({"x": 1})), ("a", json!({"x": 2}))];
        assert_eq!(score(json!({"mode": "unordered"}), expected, &made).verdict, Verdict::Pass);
    }

    #[test]
    fn expecting_nothing_must_be_said_aloud() {
        assert_eq!(score(json!({}), json!([]), &[]).verdict, Verdict::Error);
        assert_eq!(score(json!({"allow_empty": true}), json!([]), &[]).verdict, Verdict::Pass);
        let called = [("a", json!({}))];
        assert_eq!(score(json!({"allow_empty": true}), json!([]), &called).verdict, Verdict::Fail);
        let vacuous = json!({"mode": "superset", "allow_empty": true}).as_object().unwrap().clone();
        assert!(build("tool_sequence", vacuous).is_err());
        let idle = score(json!({"mode": "subset"}), wanted(&[("a", json!({}))]), &[]);
        assert_eq!((idle.verdict, idle.label.as_deref()), (Verdict::Fail, Some("no_calls")));
    }

    #[test]
    fn arguments_that_were_not_recorded_are_an_error_and_broken_ones_a_failure() {
        let scorer = build("tool_sequence", serde_json::Map::new()).unwrap();
        let case = Case { expected: Some(wanted(&[("a", json!({}))])), ..Case::named("a") };
        let mut subject = sample::calling(&[("a", json!({}))]);
        subject.tool_calls[0].arguments = None;
        assert_eq!(scorer.score(&case, &subject).verdict, Verdict::Error);
        subject.tool_calls[0].arguments = Some("{broken".to_owned());
        assert_eq!(scorer.score(&case, &subject).verdict, Verdict::Fail);
    }

    #[test]
    fn a_failure_names_the_first_call_that_differs() {
        let expected = wanted(&[("a", json!({})), ("b", json!({"n": 1}))]);
        let wrong = score(json!({}), expected.clone(), &[("a", json!({})), ("b", json!({"n": 2}))]);
        assert_eq!((wrong.value, wrong.label.as_deref()), (Some(0.5), Some("wrong_arguments")));
        insta::assert_snapshot!(wrong.reason, @r#"call 2: expected b({"n":1}), got b({"n":2})"#);
        let missing = score(json!({"mode": "superset"}), expected, &[("b", json!({"n": 1}))]);
        insta::assert_snapshot!(missing.reason, @"1 of 2 calls are as expected; missing a({})");
    }
}
