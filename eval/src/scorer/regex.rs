//! `regex`: the answer matches the expected pattern.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. Patterns are those of the crate `regex`: linear in time, so
//! no answer can stall a suite.

use super::{FromOptions, Score, Scorer, excerpt, expectation::Expectation, final_answer};
use crate::case::Case;
use crate::subject::Subject;
use ::regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    value: Option<Value>,
    expected: Option<String>,
    /// Whether the whole answer must match, white space around it aside, and not only a part of it.
    #[serde(default)]
    whole: bool,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Matches {
    expectation: Expectation,
    whole: bool,
}

impl FromOptions for Matches {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        let expectation = Expectation::new(options.value, options.expected)?;
        if let Expectation::Fixed(value) = &expectation {
            pattern(value, options.whole)?;
        }
        Ok(Self { expectation, whole: options.whole })
    }
}

/// The compiled pattern. One that also matches nothing at all would pass every answer and is refused.
fn pattern(expected: &Value, whole: bool) -> Result<Regex, String> {
    let text = expected.as_str().ok_or("what is expected must be a pattern (a text)")?;
    let pattern = match whole {
        true => Regex::new(&format!(r"\A(?:{text})\z")),
        false => Regex::new(text),
    };
    let pattern = pattern.map_err(|error| format!("`{text}` is no pattern: {error}"))?;
    match pattern.is_match("") {
        true => Err(format!("`{text}` matches an empty answer, so it proves nothing; make it stricter")),
        false => Ok(pattern),
    }
}

impl Scorer for Matches {
    fn check(&self, case: &Case) -> Result<(), String> {
        pattern(self.expectation.of(case)?, self.whole).map(|_| ())
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let pattern = match self.expectation.of(case).and_then(|expected| pattern(expected, self.whole)) {
            Ok(pattern) => pattern,
            Err(problem) => return Score::error("no_expected", problem),
        };
        match final_answer(subject) {
            Err(score) => score,
            Ok(answer) if pattern.is_match(answer.trim()) => Score::pass("the answer matches"),
            Ok(answer) => {
                Score::fail("no_match", format!("`{pattern}` does not match `{}`", excerpt(answer.trim())))
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

    fn verdict(pattern: &str, answer: &str, whole: bool) -> Verdict {
        let options = json!({"whole": whole}).as_object().unwrap().clone();
        let case = Case { expected: Some(json!(pattern)), ..Case::named("a") };
        build("regex", options).unwrap().score(&case, &sample::answering(answer)).verdict
    }

    #[test]
    fn a_pattern_matches_a_part_or_the_whole_answer() {
        for (pattern, answer, whole, wanted) in [
            (r"order \d+", "your order 17 is ready", false, Verdict::Pass),
            (r"order \d+", "your order 17 is ready", true, Verdict::Fail),
            (r"order \d+", " order 17\n", true, Verdict::Pass),
            // The alternatives stay together when the whole is asked for.
            ("yes|no", "yes, but no", true, Verdict::Fail),
            (r"ANSWER:\s*A\b", "ANSWER: A,", false, Verdict::Pass),
            (r"\$20\b", "it costs $20.", false, Verdict::Pass),
        ] {
            assert_eq!(verdict(pattern, answer, whole), wanted, "{pattern} against {answer}");
        }
    }

    #[test]
    fn a_pattern_that_matches_anything_or_nothing_sensible_is_an_error() {
        for pattern in [".*", "", "(", "a*"] {
            assert_eq!(verdict(pattern, "anything", false), Verdict::Error, "{pattern}");
            let options = json!({"value": pattern}).as_object().unwrap().clone();
            assert!(build("regex", options).is_err(), "{pattern}");
        }
    }
}
