//! `budget`: the run kept within turns, tool calls, tokens, cost and time.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. A figure that the run's source does not tell is an ERROR:
//! unknown tokens are not zero tokens. A limit that is surely exceeded fails even if another figure is unknown.

use super::{FromOptions, Score, Scorer};
use crate::case::Case;
use crate::statistic::real;
use crate::subject::Subject;
use serde::Deserialize;

/// Options of the scorer: the largest value of each figure that still passes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    max_turns: Option<u64>,
    max_tool_calls: Option<u64>,
    max_input_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    max_tokens: Option<u64>,
    max_cost_usd: Option<f64>,
    max_latency_ms: Option<f64>,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Vec<(Figure, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Turns,
    ToolCalls,
    InputTokens,
    OutputTokens,
    Tokens,
    CostUsd,
    LatencyMs,
}

impl Figure {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::ToolCalls => "tool_calls",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::Tokens => "tokens",
            Self::CostUsd => "cost_usd",
            Self::LatencyMs => "latency_ms",
        }
    }

    fn of(self, subject: &Subject) -> Option<f64> {
        match self {
            Self::Turns => subject.turns.map(real),
            Self::ToolCalls => Some(real(subject.tool_calls.len() as u64)),
            Self::InputTokens => subject.input_tokens.map(real),
            Self::OutputTokens => subject.output_tokens.map(real),
            Self::Tokens => subject.tokens().map(real),
            Self::CostUsd => subject.cost_usd,
            Self::LatencyMs => subject.latency_ms,
        }
    }
}

impl FromOptions for Budget {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        let limits: Vec<(Figure, f64)> = [
            (Figure::Turns, options.max_turns.map(real)),
            (Figure::ToolCalls, options.max_tool_calls.map(real)),
            (Figure::InputTokens, options.max_input_tokens.map(real)),
            (Figure::OutputTokens, options.max_output_tokens.map(real)),
            (Figure::Tokens, options.max_tokens.map(real)),
            (Figure::CostUsd, options.max_cost_usd),
            (Figure::LatencyMs, options.max_latency_ms),
        ]
        .into_iter()
        .filter_map(|(figure, limit)| Some((figure, limit?)))
        .collect();
        if limits.is_empty() {
            return Err(
                "no limit is set, so every run would pass; set at least one, such as `max_turns`".to_owned()
            );
        }
        match limits.iter().find(|(_, limit)| !limit.is_finite() || *limit < 0.0) {
            Some((figure, limit)) => {
                Err(format!("`max_{}` is {limit}; it must be 0 or more", figure.as_str()))
            }
            None => Ok(Self { limits }),
        }
    }
}

impl Scorer for Budget {
    fn check(&self, _: &Case) -> Result<(), String> {
        Ok(())
    }

    fn score(&self, _: &Case, subject: &Subject) -> Score {
        let (mut exceeded, mut unknown) = (Vec::new(), Vec::new());
        for (figure, limit) in &self.limits {
            match figure.of(subject) {
                Some(seen) if seen <= *limit => {}
                Some(seen) => {
                    exceeded.push((figure.as_str(), format!("{} {seen} of {limit}", figure.as_str())));
                }
                None => unknown.push(figure.as_str()),
            }
        }
        if let Some((first, _)) = exceeded.first() {
            let told: Vec<&str> = exceeded.iter().map(|(_, told)| told.as_str()).collect();
            return Score::fail(first, format!("over budget: {}", told.join(", ")));
        }
        match unknown.is_empty() {
            true => Score::pass("within the budget"),
            false => Score::error("unknown", format!("the run's data do not tell {}", unknown.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::{Value, json};

    fn score(options: Value, subject: &Subject) -> Score {
        build("budget", options.as_object().unwrap().clone()).unwrap().score(&Case::named("a"), subject)
    }

    #[test]
    fn every_limit_passes_at_its_value_and_fails_above_it() {
        let call = sample::calling(&[("a", json!({}))]).tool_calls;
        let subject = Subject {
            turns: Some(4),
            tool_calls: [call.clone(), call].concat(),
            input_tokens: Some(100),
            output_tokens: Some(10),
            cost_usd: Some(0.5),
            latency_ms: Some(900.0),
            ..sample::answering("")
        };
        for (option, seen, above) in [
            ("max_turns", json!(4), json!(3)),
            ("max_tool_calls", json!(2), json!(1)),
            ("max_input_tokens", json!(100), json!(99)),
            ("max_output_tokens", json!(10), json!(9)),
            ("max_tokens", json!(110), json!(109)),
            ("max_cost_usd", json!(0.5), json!(0.499)),
            ("max_latency_ms", json!(900), json!(899.5)),
        ] {
            assert_eq!(score(json!({option: seen}), &subject).verdict, Verdict::Pass, "{option}");
            assert_eq!(score(json!({option: above}), &subject).verdict, Verdict::Fail, "{option}");
        }
    }

    #[test]
    fn unknown_figures_are_errors_and_never_pass() {
        let subject = Subject { turns: Some(9), output_tokens: Some(1), ..sample::answering("") };
        for option in ["max_input_tokens", "max_tokens", "max_cost_usd", "max_latency_ms"] {
            assert_eq!(score(json!({option: 1_000_000}), &subject).verdict, Verdict::Error, "{option}");
        }
        let both = score(json!({"max_turns": 3, "max_tokens": 1000}), &subject);
        assert_eq!((both.verdict, both.label.as_deref()), (Verdict::Fail, Some("turns")));
        insta::assert_snapshot!(both.reason, @"over budget: turns 9 of 3");
    }

    #[test]
    fn a_budget_without_a_limit_or_with_a_senseless_one_is_refused() {
        for options in
            [json!({}), json!({"max_cost_usd": -1.0}), json!({"max_turns": -1}), json!({"max_turns": "3"})]
        {
            assert!(build("budget", options.as_object().unwrap().clone()).is_err(), "{options}");
        }
    }
}
