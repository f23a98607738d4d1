//! Other people's words for what a span says, turned into ours.
//!
//! Place in the flow: span -> **dialect** -> row. Each reader fills what is still missing, in order of trust: the
//! current `gen_ai.*` names, then the dialect that the span's markers show, then the outdated `gen_ai.*` names.
//! Nothing is taken away from a span: its attributes are kept whole beside the columns.

mod gen_ai;
mod langfuse;
mod openinference;
mod openllmetry;
mod pydantic_ai;
mod said;
mod tree;
mod vercel;

pub use said::{Said, conversation, shown};

use crate::attribute as name;
use crate::span::Span;
use serde_json::{Map, Value};

/// The scope that SDKs of providers use for spans of their own, beside those of an instrumentation.
const SDK_SCOPES: [&str; 1] = ["com.anthropic.sdk."];
/// Scopes of imported files are this and the name of the format.
pub const IMPORT_SCOPE: &str = "loopdeck.import.";

/// Who wrote a span's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// This program.
    Loopdeck,
    /// OpenInference (Arize).
    OpenInference,
    /// OpenLLMetry (Traceloop), and the `gen_ai.*` names of before 2025.
    OpenLlmetry,
    /// pydantic-ai and Logfire.
    PydanticAi,
    /// The Vercel AI SDK's own names.
    Vercel,
    /// Langfuse.
    Langfuse,
    /// The current registry, or nothing about models at all.
    GenAi,
}

/// What a span says about a run, in our words; what it does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is the column of the same name")]
pub struct Reading {
    pub operation: Option<String>,
    pub agent: Option<String>,
    pub answer: Option<String>,
    pub session_id: Option<String>,
    pub user_id: Option<String>,
    pub prompt_name: Option<String>,
    pub prompt_version: Option<String>,
    pub provider: Option<String>,
    pub request_model: Option<String>,
    pub response_model: Option<String>,
    pub response_id: Option<String>,
    pub finish_reason: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cache_read_tokens: Option<i64>,
    pub cache_write_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    pub ttft_ms: Option<f64>,
    pub tool_name: Option<String>,
    pub call_id: Option<String>,
    pub arguments: Option<String>,
    pub result: Option<String>,
    pub said: Vec<Said>,
}

impl Dialect {
    /// Tells the dialect of a span from its markers.
    #[must_use]
    pub fn of(span: &Span) -> Self {
        let has = |name: &str| span.attributes.contains_key(name);
        let starts = |prefix: &str| span.attributes.keys().any(|key| key.starts_with(prefix));
        let scope = span.scope.as_str();
        if scope == name::SCOPE || scope.starts_with(IMPORT_SCOPE) {
            Self::Loopdeck
        } else if has("openinference.span.kind") {
            Self::OpenInference
        } else if has("traceloop.span.kind")
            || has("llm.request.type")
            || scope.starts_with("opentelemetry.instrumentation.")
        {
            Self::OpenLlmetry
        } else if scope == "ai" || has("ai.operationId") {
            Self::Vercel
        } else if scope == "pydantic-ai" || scope.starts_with("logfire") {
            Self::PydanticAi
        } else if starts("langfuse.") {
            Self::Langfuse
        } else {
            Self::GenAi
        }
    }

    /// The word of the column `source_dialect`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loopdeck => "loopdeck",
            Self::OpenInference => "openinference",
            Self::OpenLlmetry => "openllmetry",
            Self::PydanticAi => "pydantic_ai",
            Self::Vercel => "vercel",
            Self::Langfuse => "langfuse",
            Self::GenAi => "gen_ai",
        }
    }
}

/// The name of the dialect, or of the format an imported span came from.
#[must_use]
pub fn label(span: &Span) -> &str {
    span.scope.strip_prefix(IMPORT_SCOPE).unwrap_or_else(|| Dialect::of(span).as_str())
}

/// Whether a span is a provider's SDK telling again what an instrumentation tells.
#[must_use]
pub fn is_echo(span: &Span) -> bool {
    SDK_SCOPES.iter().any(|scope| span.scope.starts_with(scope))
}

/// Reads a span in its dialect.
#[must_use]
pub fn read(span: &Span) -> Reading {
    let mut reading = Reading::default();
    let attributes = Attributes(&span.attributes);
    gen_ai::read(attributes, &mut reading);
    match Dialect::of(span) {
        Dialect::Loopdeck | Dialect::GenAi => {}
        Dialect::OpenInference => openinference::read(attributes, &mut reading),
        Dialect::OpenLlmetry => openllmetry::read(attributes, &mut reading),
        Dialect::PydanticAi => pydantic_ai::read(attributes, &mut reading),
        Dialect::Vercel => vercel::read(&span.name, attributes, &mut reading),
        Dialect::Langfuse => langfuse::read(attributes, &mut reading),
    }
    gen_ai::read_outdated(attributes, &mut reading);
    reading
}

/// A span's attributes, read by several names in order of preference.
#[derive(Debug, Clone, Copy)]
struct Attributes<'a>(&'a Map<String, Value>);

impl<'a> Attributes<'a> {
    fn first(self, names: &[&str]) -> Option<&'a Value> {
        names.iter().find_map(|name| self.0.get(*name)).filter(|value| !value.is_null())
    }

    /// Text that is there and not empty; numbers and truth values as text.
    fn text(self, names: &[&str]) -> Option<String> {
        match self.first(names)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Array(items) => items.first().and_then(Value::as_str).map(str::to_owned),
            Value::Object(_) | Value::Null => None,
            plain => Some(plain.to_string()),
        }
    }

    /// A whole number, also one spelled as text or as a double.
    fn int(self, names: &[&str]) -> Option<i64> {
        whole(self.first(names)?)
    }

    fn float(self, names: &[&str]) -> Option<f64> {
        let value = self.first(names)?;
        value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| number.is_finite())
    }

    /// A value that senders give as JSON or as JSON text.
    fn json(self, names: &[&str]) -> Option<Value> {
        Some(parsed(self.first(names)?))
    }

    /// A payload as text: text as it is, anything else as JSON text.
    fn payload(self, names: &[&str]) -> Option<String> {
        Some(match self.first(names)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
        // Beyond 2^53 a double no longer names one whole number.
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
    })
}

fn parsed(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

/// Arguments as JSON text; text that holds JSON text once more is opened.
fn arguments(text: String) -> String {
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::String(inner))
            if serde_json::from_str::<Value>(&inner).is_ok_and(|value| value.is_object()) =>
        {
            inner
        }
        _ => text,
    }
}

/// Fills what is still missing.
fn fill<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// The one word for why a model stopped, as [`crate::message::Finish`] spells it; unknown words stay.
fn finish(word: &str) -> String {
    let known = match word.to_ascii_lowercase().replace('-', "_").as_str() {
        "stop" | "end_turn" | "completed" | "complete" | "eos" => "end_turn",
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => "tool_use",
        "length" | "max_tokens" | "max_output_tokens" | "incomplete" => "length",
        "content_filter" | "refusal" | "safety" => "refusal",
        "pause_turn" => "pause_turn",
        "model_context_window_exceeded" | "context_full" => "context_full",
        "stop_sequence" => "stop_sequence",
        other => return other.to_owned(),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_however_they_are_spelled_and_never_guessed() {
        for (value, wanted) in [
            (json!(7), Some(7)),
            (json!("7"), Some(7)),
            (json!(7.0), Some(7)),
            (json!(7.5), None),
            (json!("many"), None),
        ] {
            assert_eq!(whole(&value), wanted, "{value}");
        }
    }

    #[test]
    fn arguments_encoded_twice_are_opened_once() {
        assert_eq!(arguments(r#""{\"a\":1}""#.to_owned()), r#"{"a":1}"#);
        assert_eq!(arguments(r#""plain""#.to_owned()), r#""plain""#);
        assert_eq!(arguments("{broken".to_owned()), "{broken");
    }

    #[test]
    fn every_providers_word_for_the_end_is_one_of_ours() {
        for (theirs, ours) in [
            ("stop", "end_turn"),
            ("tool_calls", "tool_use"),
            ("tool-calls", "tool_use"),
            ("MAX_TOKENS", "length"),
            ("weird", "weird"),
        ] {
            assert_eq!(finish(theirs), ours);
        }
    }
}
