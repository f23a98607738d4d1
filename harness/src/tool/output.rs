//! What a tool gives back: a result, or a question to a person.
//!
//! Place in the flow: a tool that may ask answers with an [`Output`]; programs and endpoints write its JSON shape,
//! `{"needs_person": {"wants": "confirmation", "prompt": "Really?"}}`, with `confirmation` or `input`. The run then waits,
//! and the tool is called again with what the person said, or never. Only tools that say that they may ask are read so:
//! a file that happens to hold this shape asks nobody.

use crate::hands::Needs;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use trace::fact::Wants;

/// A result, or a question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<T> {
    /// It is done.
    Done(T),
    /// It needs words of a person.
    NeedsInput(String),
    /// It needs a person's yes.
    NeedsConfirmation(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    needs_person: Asked,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    wants: Wants,
    prompt: String,
}

impl<T: Serialize> Serialize for Output<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (wants, prompt) = match self {
            Self::Done(result) => return result.serialize(serializer),
            Self::NeedsInput(prompt) => (Wants::Input, prompt.clone()),
            Self::NeedsConfirmation(prompt) => (Wants::Confirmation, prompt.clone()),
        };
        Shape { needs_person: Asked { wants, prompt } }.serialize(serializer)
    }
}

/// The schema is that of the result: a question is no result.
impl<T: JsonSchema> JsonSchema for Output<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// The question in an answer of this shape; `None` where it is a result. Leave to run a call is for policy to ask.
#[must_use]
pub fn needs(answer: &str) -> Option<Needs> {
    let shape: Shape = serde_json::from_str(answer.trim()).ok()?;
    let Asked { wants, prompt } = shape.needs_person;
    (wants != Wants::Approval).then_some(Needs { wants, prompt })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_one_shape_and_everything_else_is_a_result() {
        let written = serde_json::to_string(&Output::<u32>::NeedsConfirmation("Really?".to_owned())).unwrap();
        assert_eq!(written, r#"{"needs_person":{"wants":"confirmation","prompt":"Really?"}}"#);
        assert_eq!(needs(&written).map(|needs| needs.wants), Some(Wants::Confirmation));
        assert_eq!(serde_json::to_string(&Output::Done(7)).unwrap(), "7");
        for result in [
            "",
            "7",
            "{}",
            r#"{"needs_person":true}"#,
            r#"{"needs_person":{"wants":"approval","prompt":"?"}}"#,
            r#"{"needs_person":{"wants":"input","prompt":"?"},"more":1}"#,
        ] {
            assert_eq!(needs(result), None, "{result}");
        }
    }
}
