//! `contains`: the answer holds all of the expected texts, or any of them.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. The expected value is a text or a list of texts.

use super::{FromOptions, Score, Scorer, excerpt, expectation::Expectation, final_answer};
use crate::case::Case;
use crate::statistic::real;
use crate::subject::Subject;
use serde::Deserialize;
use serde_json::Value;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    value: Option<Value>,
    expected: Option<String>,
    /// Whether one of the texts is enough.
    #[serde(default)]
    mode: Mode,
    /// Whether letters of either case are the same.
    #[serde(default)]
    ignore_case: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    All,
    Any,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Contains {
    expectation: Expectation,
    mode: Mode,
    ignore_case: bool,
}

impl FromOptions for Contains {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        let expectation = Expectation::new(options.value, options.expected)?;
        if let Expectation::Fixed(value) = &expectation {
            texts(value)?;
        }
        Ok(Self { expectation, mode: options.mode, ignore_case: options.ignore_case })
    }
}

/// The texts to look for. None, or an empty one, would pass every answer and is refused.
fn texts(expected: &Value) -> Result<Vec<&str>, String> {
    let texts: Option<Vec<&str>> = match expected {
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        one => one.as_str().map(|text| vec![text]),
    };
    let texts = texts.ok_or("what is expected must be a text or a list of texts")?;
    match texts.is_empty() || texts.iter().any(|text| text.is_empty()) {
        true => Err("what is expected is empty, so every answer would pass; name a text".to_owned()),
        false => Ok(texts),
    }
}

impl Contains {
    fn holds(&self, answer: &str, text: &str) -> bool {
        match self.ignore_case {
            true => answer.to_lowercase().contains(&text.to_lowercase()),
            false => answer.contains(text),
        }
    }

    fn judge(&self, answer: &str, texts: &[&str]) -> Score {
        let missing: Vec<&str> = texts.iter().copied().filter(|text| !self.holds(answer, text)).collect();
        let found = texts.len() - missing.len();
        let share = real(found as u64) / real(texts.len() as u64);
        let told = format!("{found} of {} expected texts found", texts.len());
        match self.mode {
            Mode::All if missing.is_empty() => Score::pass(told),
            Mode::Any if found > 0 => Score::pass(told),
            Mode::All | Mode::Any => {
                let missing = missing.iter().map(|text| format!("`{}`", excerpt(text))).collect::<Vec<_>>();
                let reason =
                    format!("{told}; missing {} in `{}`", missing.join(", "), excerpt(answer.trim()));
                Score::fail("missing_text", reason).valued(share)
            }
        }
    }
}

impl Scorer for Contains {
    fn check(&self, case: &Case) -> Result<(), String> {
        texts(self.expectation.of(case)?).map(|_| ())
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let texts = match self.expectation.of(case).and_then(texts) {
            Ok(texts) => texts,
            Err(problem) => return Score::error("no_expected", problem),
        };
        match final_answer(subject) {
            Ok(answer) => self.judge(answer, &texts),
            Err(score) => score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::json;

    fn score(expected: Value, answer: &str, options: Value) -> Score {
        let scorer = build("contains", options.as_object().unwrap().clone()).unwrap();
        let case = Case { expected: Some(expected), ..Case::named("a") };
        scorer.score(&case, &sample::answering(answer))
    }

    #[test]
    fn all_means_all_and_any_means_one() {
        for (expected, options, passes) in [
            (json!("order 7"), json!({}), true),
            (json!(["order 7", "shipped"]), json!({}), true),
            (json!(["order 7", "lost"]), json!({}), false),
            (json!(["order 7", "lost"]), json!({"mode": "any"}), true),
            (json!(["lost", "found"]), json!({"mode": "any"}), false),
            (json!("ORDER"), json!({}), false),
            (json!("ORDER"), json!({"ignore_case": true}), true),
        ] {
            let wanted = if passes { Verdict::Pass } else { Verdict::Fail };
            assert_eq!(score(expected.clone(), "order 7 is shipped", options).verdict, wanted, "{expected}");
        }
    }

    #[test]
    fn a_failure_says_what_is_missing_and_how_much_is_there() {
        let score = score(json!(["order 7", "lost"]), "order 7", json!({}));
        assert_eq!(score.value, Some(0.5));
        insta::assert_snapshot!(score.reason, @"1 of 2 expected texts found; missing `lost` in `order 7`");
    }

    #[test]
    fn expecting_nothing_would_pass_everything_and_is_refused() {
        for expected in [json!([]), json!(""), json!(["a", ""]), json!(3)] {
            assert_eq!(score(expected.clone(), "anything", json!({})).verdict, Verdict::Error, "{expected}");
            let options = json!({"value": expected}).as_object().unwrap().clone();
            assert!(build("contains", options).is_err());
        }
    }
}
