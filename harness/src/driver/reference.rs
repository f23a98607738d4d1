//! `$$r1`, `$$r2`, ...: results that later calls name instead of repeating them.
//!
//! Place in the flow: where `[loop] references` is on, each result is kept under the next name, in the order of the
//! tape, and a name in an argument becomes the value right before the call is checked, decided about and carried
//! out. The conversation and the tape keep the name as the model wrote it; the hash of the arguments is that of what
//! the tool was given.

use super::Driver;
use crate::machine::Planned;
use crate::tool::situation::Situation;
use serde_json::Value;
use std::borrow::Cow;
use trace::canonical::canonical;
use trace::fact::Fact;
use trace::message::ToolCall;
use trace::tape::{Line, Tape};

/// What the model is told about references.
pub(crate) const PROMPT: &str = include_str!("../../prompt/references.txt");

/// The first `$$name` in a text: what stands before it, the name, and what comes after.
fn first_name(said: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = said[from..].find("$$").map(|at| from + at) {
        let rest = &said[at + 2..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Some((&said[..at], &rest[..end], &rest[end..]));
        }
        from = at + 1;
    }
    None
}

/// The results of a run so far, as JSON values where they are JSON and as text where not.
#[derive(Debug, Default)]
pub(super) struct References(Vec<Value>);

impl References {
    /// Those of a recorded run, as far as these lines go.
    pub(super) fn of_tape(tape: &Tape, lines: &[Line]) -> Self {
        let mut references = Self::default();
        for line in lines {
            if let Fact::ToolFinished(fact) = &line.fact {
                references.keep(tape.text(&fact.result).unwrap_or_default());
            }
        }
        references
    }

    /// Keeps a result; its name from now on.
    pub(super) fn keep(&mut self, result: &str) -> String {
        self.0.push(serde_json::from_str(result).unwrap_or_else(|_| Value::from(result)));
        format!("$$r{}", self.0.len())
    }

    /// Every name with its value.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, &Value)> {
        (1..).zip(&self.0).map(|(number, value)| (format!("$$r{number}"), value))
    }

    fn value(&self, name: &str) -> Result<&Value, String> {
        let place = name.strip_prefix('r').and_then(|number| number.parse::<usize>().ok());
        let found = place.and_then(|place| self.0.get(place.checked_sub(1)?));
        found.ok_or_else(|| match self.0.len() {
            0 => format!("there is no result named $${name}: no call has a result yet"),
            known => format!("there is no result named $${name}; there are $$r1 to $$r{known}"),
        })
    }

    /// The arguments with values for names; `as_text` gives every value as text.
    fn resolved(&self, arguments: &Value, as_text: bool) -> Result<Value, String> {
        Ok(match arguments {
            Value::String(said) => self.text(said, as_text)?,
            Value::Array(all) => {
                Value::Array(all.iter().map(|one| self.resolved(one, as_text)).collect::<Result<_, _>>()?)
            }
            Value::Object(all) => {
                let pairs = all.iter().map(|(key, one)| Ok((key.clone(), self.resolved(one, as_text)?)));
                Value::Object(pairs.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn text(&self, said: &str, as_text: bool) -> Result<Value, String> {
        if let Some(("", name, "")) = first_name(said)
            && !as_text
        {
            return self.value(name).cloned();
        }
        let (mut text, mut rest) = (String::new(), said);
        while let Some((before, name, after)) = first_name(rest) {
            text.push_str(before);
            match self.value(name)? {
                Value::String(value) => text.push_str(value),
                value => text.push_str(&canonical(value)),
            }
            rest = after;
        }
        Ok(Value::from(text + rest))
    }
}

impl Driver<'_> {
    /// The call as the tool is given it: a name that is the whole argument becomes the value, or its text where the
    /// tool's schema wants text.
    ///
    /// # Errors
    /// Names a reference that there is not.
    pub(super) fn resolved(&self, one: &Planned) -> Result<Planned, String> {
        let mut one = one.clone();
        if let Cow::Owned(arguments) = self.effective(&one.call)? {
            one.call.arguments = arguments;
        }
        Ok(one)
    }

    /// What the model is shown of a result, under the name that the result has from now on.
    pub(super) fn named(&mut self, shown: String, result: &str) -> String {
        match self.setup.config.loop_.references {
            true => format!("{} = {shown}", self.references.keep(result)),
            false => shown,
        }
    }

    /// The run as it stands, for a tool that wants to see it.
    pub(super) fn situation(&self, one: &Planned) -> Option<Situation> {
        let tool = self.setup.toolbox.tool(&one.call.tool_name)?;
        tool.wants_situation().then(|| Situation {
            run_id: self.run_id.clone(),
            turn: one.key.turn,
            messages: self.run.state().messages.clone(),
            references: self.references.all().map(|(name, value)| (name, value.clone())).collect(),
        })
    }

    /// The arguments with their references resolved.
    pub(super) fn effective<'c>(&self, call: &'c ToolCall) -> Result<Cow<'c, str>, String> {
        if !self.setup.config.loop_.references || first_name(&call.arguments).is_none() {
            return Ok(Cow::Borrowed(&call.arguments));
        }
        // What is no JSON has no references; the check of the arguments says so.
        let Ok(arguments) = serde_json::from_str(&call.arguments) else {
            return Ok(Cow::Borrowed(&call.arguments));
        };
        let [values, text] = [false, true].map(|as_text| self.references.resolved(&arguments, as_text));
        let (values, text) = (canonical(&values?), canonical(&text?));
        let fits = |arguments: &str| self.setup.toolbox.validate(&call.tool_name, arguments).is_ok();
        Ok(Cow::Owned(if !fits(&values) && fits(&text) { text } else { values }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_become_values_and_what_is_no_name_stays() {
        let mut references = References::default();
        assert_eq!(references.keep(r#"{"b": 1, "a": [2]}"#), "$$r1");
        assert_eq!(references.keep("plain text"), "$$r2");
        for (arguments, as_text, wanted) in [
            (json!({"x": "$$r1"}), false, json!({"x": {"a": [2], "b": 1}})),
            (json!({"x": "$$r1"}), true, json!({"x": r#"{"a":[2],"b":1}"#})),
            (json!({"x": ["$$r2", 3]}), false, json!({"x": ["plain text", 3]})),
            (json!("see $$r2 and $$r1"), false, json!(r#"see plain text and {"a":[2],"b":1}"#)),
            (json!({"$$r1": "$5 and $$ and $$5"}), false, json!({"$$r1": "$5 and $$ and $$5"})),
        ] {
            assert_eq!(references.resolved(&arguments, as_text), Ok(wanted), "{arguments}");
        }
        for unknown in ["$$r3", "$$r0", "$$total", "a $$r9"] {
            let why = references.resolved(&json!({ "x": unknown }), false).unwrap_err();
            assert!(why.contains("there are $$r1 to $$r2"), "{unknown}: {why}");
        }
    }
}
