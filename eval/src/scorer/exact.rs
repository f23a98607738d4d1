//! `exact`: the answer is the expected text, or the expected JSON value.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. Texts are compared as wholes, order and repeats of words
//! included; only white space around them is ignored. Other JSON values are compared by meaning: 1 is 1.0, not true.

use super::{FromOptions, Score, Scorer, excerpt, expectation::Expectation, final_answer};
use crate::case::Case;
use crate::subject::Subject;
use serde::Deserialize;
use serde_json::Value;
use trace::canonical::canonical;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    value: Option<Value>,
    expected: Option<String>,
    /// Whether letters of either case are the same.
    #[serde(default)]
    ignore_case: bool,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Exact {
    expectation: Expectation,
    ignore_case: bool,
}

impl FromOptions for Exact {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        let expectation = Expectation::new(options.value, options.expected)?;
        Ok(Self { expectation, ignore_case: options.ignore_case })
    }
}

impl Exact {
    fn equal(&self, answer: &str, expected: &Value) -> bool {
        let Value::String(expected) = expected else {
            return serde_json::from_str::<Value>(answer)
                .is_ok_and(|answer| canonical(&answer) == canonical(expected));
        };
        match self.ignore_case {
            true => answer.trim().to_lowercase() == expected.trim().to_lowercase(),
            false => answer.trim() == expected.trim(),
        }
    }
}

impl Scorer for Exact {
    fn check(&self, case: &Case) -> Result<(), String> {
        self.expectation.of(case).map(|_| ())
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let expected = match self.expectation.of(case) {
            Ok(expected) => expected,
            Err(missing) => return Score::error("no_expected", missing),
        };
        match final_answer(subject) {
            Err(score) => score,
            Ok(answer) if self.equal(answer, expected) => Score::pass("the answer is as expected"),
            Ok(answer) => {
                let wanted = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
                let reason = format!("expected `{}`, got `{}`", excerpt(&wanted), excerpt(answer.trim()));
                Score::fail("mismatch", reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::json;

    fn verdict(expected: Value, answer: &str, options: Value) -> Verdict {
        let scorer = build("exact", options.as_object().unwrap().clone()).unwrap();
        let case = Case { expected: Some(expected), ..Case::named("a") };
        scorer.score(&case, &sample::answering(answer)).verdict
    }

    #[test]
    fn answers_are_compared_as_wholes() {
        for (expected, answer, passes) in [
            (json!("Paris"), " Paris\n", true),
            (json!("Paris"), "paris", false),
            // Sets of words once made these equal in another tool.
            (json!("the cat ate the dog"), "the dog ate the cat", false),
            (json!("yes yes no"), "yes no", false),
            (json!(1), "1.0", true),
            (json!(1), "true", false),
            (json!(true), "1", false),
            (json!("1"), "1", true),
            (json!({"a": 1, "b": 2}), r#"{"b": 2.0, "a": 1}"#, true),
            (json!({"a": 1}), "not json", false),
            (json!(null), "null", true),
        ] {
            let wanted = if passes { Verdict::Pass } else { Verdict::Fail };
            assert_eq!(verdict(expected.clone(), answer, json!({})), wanted, "{expected} against {answer}");
        }
    }

    #[test]
    fn case_of_letters_is_ignored_only_when_asked() {
        assert_eq!(verdict(json!("Paris"), "PARIS", json!({"ignore_case": true})), Verdict::Pass);
    }

    #[test]
    fn a_case_without_expectation_is_refused_early_and_an_error_late() {
        let scorer = build("exact", serde_json::Map::new()).unwrap();
        assert!(scorer.check(&Case::named("a")).is_err());
        assert_eq!(scorer.score(&Case::named("a"), &sample::answering("x")).verdict, Verdict::Error);
    }
}
