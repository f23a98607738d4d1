//! `rule`: none of the named rules finds anything in the run. The rules are those that stop the loop and page people.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`] over [`trace::rule`]. The options are the tables of `[alerts]`,
//! for the rules that look at one run. What a rule needs and the run's source does not tell is an ERROR, unless
//! another rule already found something.

use super::{FromOptions, Score, Scorer};
use crate::case::Case;
use crate::subject::{Subject, ToolCall};
use serde::Deserialize;
use trace::id::Hash;
use trace::outcome::ToolStatus;
use trace::rule::max_turns::{self, MaxTurns};
use trace::rule::repeated_call::{self, RepeatedCall};
use trace::rule::token_budget::{self, TokenBudget};
use trace::rule::tool_overuse::{self, ToolOveruse};
use trace::rule::{CallSeen, Finding, RunSeen};

/// Options of the scorer, and the scorer: the rules to hold, each with its settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    max_turns: Option<MaxTurns>,
    tool_overuse: Option<ToolOveruse>,
    repeated_call: Option<RepeatedCall>,
    token_budget: Option<TokenBudget>,
}

impl FromOptions for Rules {
    type Options = Self;

    fn from_options(options: Self) -> Result<Self, String> {
        let Self { max_turns, tool_overuse, repeated_call, token_budget } = &options;
        if max_turns.is_none() && tool_overuse.is_none() && repeated_call.is_none() && token_budget.is_none()
        {
            return Err(format!(
                "no rule is named, so every run would pass; name at least one of {}, {}, {}, {}",
                max_turns::RULE,
                tool_overuse::RULE,
                repeated_call::RULE,
                token_budget::RULE
            ));
        }
        match repeated_call {
            Some(rule) if rule.threshold < 2 => Err(format!(
                "`repeated_call.threshold` is {}, which switches the rule off; 2 or more",
                rule.threshold
            )),
            _ => Ok(options),
        }
    }
}

impl Rules {
    fn find(&self, run: &RunSeen<'_>) -> Vec<Finding> {
        let overuse = self.tool_overuse.as_ref().map(|rule| tool_overuse::scan(run.calls, rule));
        let repeated = self.repeated_call.as_ref().map(|rule| repeated_call::scan(run.calls, rule));
        let turns = self.max_turns.as_ref().and_then(|rule| max_turns::find(run, rule));
        let tokens = self.token_budget.as_ref().and_then(|rule| token_budget::find(run, rule));
        turns.into_iter().chain(tokens).chain(overuse.into_iter().chain(repeated).flatten()).collect()
    }

    /// What a rule needs and the run's source does not tell.
    fn unknown(&self, subject: &Subject) -> Vec<&'static str> {
        let hashed =
            |of: fn(&ToolCall) -> Option<Hash>| subject.tool_calls.iter().all(|call| of(call).is_some());
        let completed = subject.stop_reason.status() == trace::outcome::RunStatus::Completed;
        [
            (self.max_turns.is_some() && subject.turns.is_none(), "turns"),
            (self.token_budget.is_some() && !completed && subject.tokens().is_none(), "tokens"),
            (self.repeated_call.is_some() && !hashed(|call| call.args_hash), "arguments of calls"),
            (self.repeated_call.is_some() && !hashed(|call| call.result_hash), "results of calls"),
        ]
        .into_iter()
        .filter_map(|(is_unknown, what)| is_unknown.then_some(what))
        .collect()
    }
}

impl Scorer for Rules {
    fn check(&self, _: &Case) -> Result<(), String> {
        Ok(())
    }

    fn score(&self, _: &Case, subject: &Subject) -> Score {
        let calls: Vec<CallSeen> = subject.tool_calls.iter().map(|call| seen(subject, call)).collect();
        let run = RunSeen {
            run_id: &subject.run_id,
            agent: None,
            status: subject.status,
            stop_reason: Some(subject.stop_reason),
            stop_evidence: None,
            turns: subject.turns.and_then(|turns| u32::try_from(turns).ok()).unwrap_or(0),
            max_turns: None,
            tokens: subject.tokens(),
            max_tokens: None,
            calls: &calls,
        };
        let found = self.find(&run);
        if let Some(first) = found.first() {
            let told: Vec<&str> = found.iter().map(|one| one.evidence.detail.as_str()).collect();
            return Score::fail(first.rule, told.join("; "));
        }
        match self.unknown(subject) {
            unknown if unknown.is_empty() => Score::pass("no rule found anything"),
            unknown => Score::error("unknown", format!("the run's data do not tell {}", unknown.join(", "))),
        }
    }
}

/// A call as rules see it. One whose arguments are unknown is like no other call.
fn seen(subject: &Subject, call: &ToolCall) -> CallSeen {
    let own = || Hash::of(format!("{}\u{0}{}", call.key.turn, call.key.index).as_bytes());
    CallSeen {
        key: call.key,
        span: subject.run_id.span("tool", call.key.turn, call.key.index),
        tool_name: call.tool_name.clone(),
        args_hash: call.args_hash.unwrap_or_else(own),
        result_hash: call.result_hash,
        status: call.status.unwrap_or(ToolStatus::Ok),
        tokens: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::{Value, json};
    use trace::outcome::StopReason;

    fn score(options: Value, subject: &Subject) -> Score {
        build("rule", options.as_object().unwrap().clone()).unwrap().score(&Case::named("a"), subject)
    }

    #[test]
    fn the_third_equal_call_fails_and_the_second_passes() {
        let call = ("look", json!({"n": 1}));
        let twice = sample::calling(&[call.clone(), call.clone()]);
        assert_eq!(score(json!({"repeated_call": {}}), &twice).verdict, Verdict::Pass);
        let thrice = sample::calling(&[call.clone(), call.clone(), call]);
        let failed = score(json!({"repeated_call": {}}), &thrice);
        assert_eq!((failed.verdict, failed.label.as_deref()), (Verdict::Fail, Some("repeated_call")));
        insta::assert_snapshot!(failed.reason, @"`look` was called 3 times in a row with the same arguments and the same result");
        let spared = score(json!({"repeated_call": {"exempt": ["look"]}}), &thrice);
        assert_eq!(spared.verdict, Verdict::Pass);
    }

    #[test]
    fn each_rule_is_held_only_where_it_is_named() {
        let calls: Vec<_> = (0..6).map(|n| ("look", json!({ "n": n }))).collect();
        let busy = sample::calling(&calls);
        assert_eq!(score(json!({"tool_overuse": {}}), &busy).verdict, Verdict::Fail);
        assert_eq!(score(json!({"repeated_call": {}}), &busy).verdict, Verdict::Pass);
        let capped = sample::stopped(StopReason::MaxTurns);
        assert_eq!(score(json!({"max_turns": {}}), &capped).verdict, Verdict::Fail);
        assert_eq!(score(json!({"tool_overuse": {}}), &capped).verdict, Verdict::Pass);
        let long = Subject { turns: Some(9), ..sample::answering("done") };
        assert_eq!(score(json!({"max_turns": {"cap": 9}}), &long).verdict, Verdict::Fail);
        let spent = Subject {
            input_tokens: Some(90),
            output_tokens: Some(10),
            ..sample::stopped(StopReason::BudgetExceeded)
        };
        assert_eq!(score(json!({"token_budget": {"max_tokens": 100}}), &spent).verdict, Verdict::Fail);
        assert_eq!(score(json!({"token_budget": {"max_tokens": 101}}), &spent).verdict, Verdict::Pass);
    }

    #[test]
    fn what_the_source_does_not_tell_is_an_error_and_never_a_pass() {
        let mut silent = sample::calling(&[("look", json!({}))]);
        silent.tool_calls[0].result_hash = None;
        assert_eq!(score(json!({"repeated_call": {}}), &silent).verdict, Verdict::Error);
        assert_eq!(score(json!({"tool_overuse": {}}), &silent).verdict, Verdict::Pass);
        let stopped = sample::stopped(StopReason::Unknown);
        assert_eq!(score(json!({"token_budget": {"max_tokens": 5}}), &stopped).verdict, Verdict::Error);
        let no_turns = Subject { turns: None, ..sample::answering("") };
        assert_eq!(score(json!({"max_turns": {"cap": 5}}), &no_turns).verdict, Verdict::Error);
    }

    #[test]
    fn options_that_hold_no_rule_are_refused() {
        for options in
            [json!({}), json!({"repeated_call": {"threshold": 1}}), json!({"max_turns": {"cop": 1}})]
        {
            assert!(build("rule", options.as_object().unwrap().clone()).is_err(), "{options}");
        }
    }
}
