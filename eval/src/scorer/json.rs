//! `json`: the answer is JSON, and what it says is as expected.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`]. Five checks: `valid` (it parses), `schema` (what is expected
//! is a JSON Schema), `equals`, `subset` (it holds at least what is expected), `pointers` (what is expected is an
//! object of JSON pointers and values). Values are compared by meaning: 1 is 1.0, 1 is not true.

use super::matching::{Strictness, matches_arguments, matches_value};
use super::{FromOptions, Score, Scorer, excerpt, expectation::Expectation, final_answer};
use crate::case::Case;
use crate::statistic::real;
use crate::subject::Subject;
use jsonschema::Validator;
use serde::Deserialize;
use serde_json::Value;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    check: Check,
    value: Option<Value>,
    expected: Option<String>,
    /// Whether the JSON may stand in a Markdown code fence.
    #[serde(default)]
    fenced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Check {
    Valid,
    Schema,
    Equals,
    Subset,
    Pointers,
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Json {
    check: Check,
    expectation: Expectation,
    /// The schema, compiled once, where it is the same for every case.
    schema: Option<Validator>,
    fenced: bool,
}

impl FromOptions for Json {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        if options.check == Check::Valid && (options.value.is_some() || options.expected.is_some()) {
            return Err("check `valid` compares with nothing; leave out `value` and `expected`".to_owned());
        }
        let expectation = Expectation::new(options.value, options.expected)?;
        let mut scorer = Self { check: options.check, expectation, schema: None, fenced: options.fenced };
        if let Expectation::Fixed(value) = &scorer.expectation {
            scorer.accept(value)?;
            if scorer.check == Check::Schema {
                scorer.schema = Some(compiled(value)?);
            }
        }
        Ok(scorer)
    }
}

fn compiled(schema: &Value) -> Result<Validator, String> {
    match schema {
        Value::Object(members) if !members.is_empty() => {
            jsonschema::validator_for(schema).map_err(|error| format!("no usable JSON Schema: {error}"))
        }
        _ => {
            Err("the schema must be an object with at least one keyword; an empty one passes anything"
                .to_owned())
        }
    }
}

/// The JSON of an answer.
fn parsed(answer: &str, fenced: bool) -> Result<Value, Score> {
    let text = match fenced {
        true => unfenced(answer),
        false => answer.trim(),
    };
    serde_json::from_str(text).map_err(|error| {
        Score::fail("invalid_json", format!("the answer is no JSON ({error}): `{}`", excerpt(text)))
    })
}

/// The inside of the only code fence, or the whole where there is none.
fn unfenced(answer: &str) -> &str {
    let inside = || {
        let (_, rest) = answer.split_once("```")?;
        let (_, rest) = rest.split_once('\n')?;
        rest.split_once("```").map(|(inside, _)| inside)
    };
    inside().unwrap_or(answer).trim()
}

impl Json {
    /// Whether the expected value is of the form that the check needs.
    fn accept(&self, expected: &Value) -> Result<(), String> {
        match (self.check, expected) {
            (Check::Valid | Check::Equals, _) => Ok(()),
            (Check::Schema, schema) => compiled(schema).map(|_| ()),
            (Check::Subset, Value::Object(members)) if !members.is_empty() => Ok(()),
            (Check::Subset, _) => Err("check `subset` needs an object with at least one member".to_owned()),
            (Check::Pointers, Value::Object(pointers)) if !pointers.is_empty() => {
                match pointers.keys().find(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
                    Some(pointer) => Err(format!("`{pointer}` is no JSON pointer; write `/{pointer}`")),
                    None => Ok(()),
                }
            }
            (Check::Pointers, _) => {
                Err("check `pointers` needs an object such as {\"/total\": 3}".to_owned())
            }
        }
    }

    fn judge(&self, expected: &Value, found: &Value) -> Score {
        match (self.check, expected) {
            (Check::Valid, _) => Score::pass("the answer is JSON"),
            (Check::Schema, schema) => self.judge_schema(schema, found),
            (Check::Subset, _) => {
                simple(matches_arguments(expected, found, Strictness::Superset), expected, found)
            }
            (Check::Pointers, Value::Object(pointers)) => judge_pointers(pointers, found),
            (Check::Equals | Check::Pointers, _) => simple(matches_value(expected, found), expected, found),
        }
    }

    fn judge_schema(&self, schema: &Value, found: &Value) -> Score {
        let own;
        let validator = match &self.schema {
            Some(validator) => validator,
            None => match compiled(schema) {
                Ok(validator) => {
                    own = validator;
                    &own
                }
                Err(problem) => return Score::error("no_expected", problem),
            },
        };
        match validator.iter_errors(found).next() {
            None => Score::pass("the answer fits the schema"),
            Some(error) => {
                let reason = format!("at `{}`: {}", error.instance_path(), excerpt(&error.to_string()));
                Score::fail("schema", reason)
            }
        }
    }
}

fn simple(matched: bool, expected: &Value, found: &Value) -> Score {
    match matched {
        true => Score::pass("the JSON is as expected"),
        false => {
            let (expected, found) = (expected.to_string(), found.to_string());
            Score::fail("mismatch", format!("expected {}, got {}", excerpt(&expected), excerpt(&found)))
        }
    }
}

fn judge_pointers(pointers: &serde_json::Map<String, Value>, found: &Value) -> Score {
    let wrong: Vec<String> = pointers
        .iter()
        .filter_map(|(pointer, expected)| match found.pointer(pointer) {
            Some(value) if matches_value(expected, value) => None,
            Some(value) => {
                Some(format!("`{pointer}` is {}, expected {expected}", excerpt(&value.to_string())))
            }
            None => Some(format!("`{pointer}` is not there, expected {expected}")),
        })
        .collect();
    match wrong.is_empty() {
        true => Score::pass(format!("{0} of {0} pointers are as expected", pointers.len())),
        false => {
            let right = real((pointers.len() - wrong.len()) as u64) / real(pointers.len() as u64);
            Score::fail("mismatch", wrong.join("; ")).valued(right)
        }
    }
}

impl Scorer for Json {
    fn check(&self, case: &Case) -> Result<(), String> {
        match self.check {
            Check::Valid => Ok(()),
            _ => self.accept(self.expectation.of(case)?),
        }
    }

    fn score(&self, case: &Case, subject: &Subject) -> Score {
        let checked = self.check(case).and_then(|()| match self.check {
            Check::Valid => Ok(&Value::Null),
            _ => self.expectation.of(case),
        });
        let expected = match checked {
            Ok(expected) => expected,
            Err(problem) => return Score::error("no_expected", problem),
        };
        let found = final_answer(subject).and_then(|answer| parsed(answer, self.fenced));
        match found {
            Ok(found) => self.judge(expected, &found),
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

    fn score(options: Value, answer: &str) -> Score {
        let scorer = build("json", options.as_object().unwrap().clone()).unwrap();
        scorer.score(&Case::named("a"), &sample::answering(answer))
    }

    #[test]
    fn each_check_has_answers_that_pass_and_answers_that_fail() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        for (options, answer, passes) in [
            (json!({"check": "valid"}), "[1]", true),
            (json!({"check": "valid"}), "here: [1]", false),
            (json!({"check": "valid"}), "```json\n[1]\n```", false),
            (json!({"check": "valid", "fenced": true}), "So:\n```json\n[1]\n```\nbye", true),
            (json!({"check": "valid", "fenced": true}), "[1]", true),
            (json!({"check": "valid"}), "NaN", false),
            (json!({"check": "schema", "value": schema}), r#"{"n": 1}"#, true),
            (json!({"check": "schema", "value": schema}), r#"{"n": "1"}"#, false),
            (json!({"check": "equals", "value": {"n": 1}}), r#"{"n": 1.0}"#, true),
            (json!({"check": "equals", "value": {"n": 1}}), r#"{"n": true}"#, false),
            (json!({"check": "equals", "value": {"n": 1}}), r#"{"n": 1, "m": 2}"#, false),
            (json!({"check": "subset", "value": {"n": 1}}), r#"{"n": 1, "m": 2}"#, true),
            (json!({"check": "subset", "value": {"n": 1}}), r#"{"m": 2}"#, false),
            (json!({"check": "subset", "value": {"n": 1}}), "[1]", false),
            (json!({"check": "pointers", "value": {"/a/0": 1}}), r#"{"a": [1]}"#, true),
            (json!({"check": "pointers", "value": {"/a/1": null}}), r#"{"a": [1]}"#, false),
            (json!({"check": "pointers", "value": {"/a": {"any_of": [1, 2]}}}), r#"{"a": 2}"#, true),
        ] {
            let wanted = if passes { Verdict::Pass } else { Verdict::Fail };
            let score = score(options.clone(), answer);
            assert_eq!(score.verdict, wanted, "{options} against {answer}: {}", score.reason);
        }
    }

    #[test]
    fn a_failure_names_the_place() {
        let missing = score(json!({"check": "pointers", "value": {"/a": 1, "/b": 2}}), r#"{"a": 1}"#);
        assert_eq!(missing.value, Some(0.5));
        insta::assert_snapshot!(missing.reason, @"`/b` is not there, expected 2");
        let schema = json!({"check": "schema", "value": {"properties": {"n": {"type": "integer"}}}});
        insta::assert_snapshot!(score(schema, r#"{"n": "x"}"#).reason, @r#"at `/n`: "x" is not of type "integer""#);
    }

    #[test]
    fn expectations_that_could_not_fail_or_not_work_are_refused() {
        for options in [
            json!({"check": "schema", "value": {}}),
            json!({"check": "schema", "value": {"type": "no such type"}}),
            json!({"check": "schema", "value": {"$ref": "http://127.0.0.1:1/schema.json"}}),
            json!({"check": "subset", "value": {}}),
            json!({"check": "pointers", "value": {"a": 1}}),
            json!({"check": "pointers", "value": {}}),
            json!({"check": "valid", "value": 1}),
        ] {
            assert!(build("json", options.as_object().unwrap().clone()).is_err(), "{options}");
        }
    }
}
