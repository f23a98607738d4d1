//! Where a scorer finds what is expected: in its own options, or in the case.
//!
//! Place in the flow: scorers that compare hold one [`Expectation`], made of their options `value` and `expected`.

use crate::case::Case;
use serde_json::Value;

/// The source of an expected value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expectation {
    /// The option `value`: the same for every case.
    Fixed(Value),
    /// The case's `expected`, or the part of it at this JSON pointer (option `expected`).
    Case(String),
}

impl Expectation {
    /// Takes the two options that every comparing scorer has.
    pub(super) fn new(value: Option<Value>, expected: Option<String>) -> Result<Self, String> {
        match (value, expected) {
            (Some(_), Some(_)) => Err("`value` and `expected` exclude each other; keep one".to_owned()),
            (Some(value), None) => Ok(Self::Fixed(value)),
            (None, None) => Ok(Self::Case(String::new())),
            (None, Some(pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
                Ok(Self::Case(pointer))
            }
            (None, Some(pointer)) => Err(format!(
                "`expected` must be a JSON pointer such as `/{pointer}` into the case's `expected`"
            )),
        }
    }

    /// The expected value for this case.
    pub(super) fn of<'a>(&'a self, case: &'a Case) -> Result<&'a Value, String> {
        let pointer = match self {
            Self::Fixed(value) => return Ok(value),
            Self::Case(pointer) => pointer,
        };
        let Some(expected) = &case.expected else {
            return Err(format!("case `{}` has no `expected` to compare with", case.id));
        };
        expected
            .pointer(pointer)
            .ok_or_else(|| format!("case `{}` has nothing at `{pointer}` of its `expected`", case.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_expected_value_comes_from_the_options_or_from_a_part_of_the_case() {
        let case = Case { expected: Some(json!({"answer": "42"})), ..Case::named("a") };
        let of = |value, pointer: Option<&str>| {
            Expectation::new(value, pointer.map(str::to_owned)).and_then(|one| one.of(&case).cloned())
        };
        assert_eq!(of(Some(json!(1)), None), Ok(json!(1)));
        assert_eq!(of(None, Some("/answer")), Ok(json!("42")));
        assert_eq!(of(None, None), Ok(json!({"answer": "42"})));
        assert!(of(None, Some("/other")).unwrap_err().contains("nothing at `/other`"));
        assert!(of(None, Some("answer")).unwrap_err().contains("JSON pointer"));
        assert!(of(Some(json!(1)), Some("/a")).is_err());
    }

    #[test]
    fn a_case_that_expects_nothing_is_told_so() {
        let error = Expectation::Case(String::new()).of(&Case::named("a")).unwrap_err();
        assert_eq!(error, "case `a` has no `expected` to compare with");
    }
}
