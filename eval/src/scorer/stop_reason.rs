//! `stop_reason`: the run stopped for the expected reason, or one of several.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. What is expected is a word of
//! [`trace::outcome::StopReason`], a word that others have for it, or a list of them.

use super::{FromOptions, Score, Scorer, expectation::Expectation};
use crate::case::Case;
use crate::subject::Subject;
use serde::Deserialize;
use serde_json::Value;
use trace::outcome::StopReason;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    value: Option<Value>,
    expected: Option<String>,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Stopped {
    expectation: Expectation,
}

impl FromOptions for Stopped {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        let expectation = Expectation::new(options.value, options.expected)?;
        if let Expectation::Fixed(value) = &expectation {
            reasons(value)?;
        }
        Ok(Self { expectation })
    }
}

/// The reasons that pass. `unknown` is no reason to expect: what nobody knows never passes.
fn reasons(expected: &Value) -> Result<Vec<StopReason>, String> {
    let words: Vec<&Value> = match expected {
        Value::Array(words) => words.iter().collect(),
        word => vec![word],
    };
    if words.is_empty() {
        return Err("what is expected names no stop reason".to_owned());
    }
    words.into_iter().map(reason).collect()
}

fn reason(word: &Value) -> Result<StopReason, String> {
    let known =
        word.as_str().and_then(StopReason::from_any_word).filter(|reason| *reason != StopReason::Unknown);
    known.ok_or_else(|| {
        let all = StopReason::ALL.iter().filter(|reason| **reason != StopReason::Unknown);
        let words: Vec<&str> = all.map(|reason| reason.as_str()).collect();
        format!("{word} is no stop reason to expect; one of: {}", words.join(", "))
    })
}

impl Scorer for Stopped {
    fn check(&self, case: &Case) -> Result<(), String> {
        reasons(self.expectation.of(case)?).map(|_| ())
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let wanted = match self.expectation.of(case).and_then(reasons) {
            Ok(wanted) => wanted,
            Err(problem) => return Score::error("no_expected", problem),
        };
        let found = subject.stop_reason;
        if found == StopReason::Unknown {
            return Score::error("unknown", "nobody knows why the run stopped");
        }
        if wanted.contains(&found) {
            return Score::pass(format!("stopped with `{found}`"));
        }
        let wanted: Vec<&str> = wanted.iter().map(|reason| reason.as_str()).collect();
        Score::fail(found.as_str(), format!("stopped with `{found}`, wanted `{}`", wanted.join("` or `")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::{Map, json};

    #[test]
    fn only_the_expected_reasons_pass_and_an_unknown_one_is_an_error() {
        let scorer = build("stop_reason", Map::new()).unwrap();
        for (expected, stop_reason, wanted) in [
            (json!("completed"), StopReason::Completed, Verdict::Pass),
            (json!("completed"), StopReason::MaxTurns, Verdict::Fail),
            (json!(["completed", "max_turns"]), StopReason::MaxTurns, Verdict::Pass),
            (json!("completed"), StopReason::Unknown, Verdict::Error),
            (json!("unknown"), StopReason::Unknown, Verdict::Error),
            (json!([]), StopReason::Completed, Verdict::Error),
        ] {
            let case = Case { expected: Some(expected.clone()), ..Case::named("a") };
            let score = scorer.score(&case, &sample::stopped(stop_reason));
            assert_eq!(score.verdict, wanted, "{expected} and {stop_reason}: {}", score.reason);
        }
    }

    #[test]
    fn a_word_that_is_no_stop_reason_is_refused_with_the_words_that_are() {
        let options = json!({"value": "step_limit"}).as_object().unwrap().clone();
        let error = build("stop_reason", options).unwrap_err();
        assert!(error.contains("max_turns"), "{error}");
    }
}
