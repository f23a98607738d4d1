//! A whole Anthropic Messages answer, read.
//!
//! Place in the flow: bytes -> [`response`] -> [`Response`]. The stream decoder turns its finished blocks into
//! parts by the same [`part`].

use super::{NAME, finish, malformed, usage};
use crate::model::{DecodeError, fault};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use trace::message::{Part, Response, ToolCall};

#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

/// Tool input as it was written, so that arguments keep their bytes.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// Decodes the body of an answer that was not streamed.
///
/// # Errors
/// Where the body is no JSON, has no content, or is an error that came with a success status.
pub fn response(body: &[u8]) -> Result<Response, DecodeError> {
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    if !answer.error.is_null() {
        return Err(DecodeError::Provider(fault::of_error_object(&answer.error)));
    }
    let content = answer.content.ok_or_else(|| malformed("it has no content"))?;
    let parts = content.into_iter().map(whole_part).collect::<Result<Vec<_>, _>>()?;
    Ok(Response {
        response_id: answer.id,
        response_model: answer.model,
        parts: parts.into_iter().flatten().collect(),
        finish: finish(answer.stop_reason.as_deref()),
        finish_raw: answer.stop_reason,
        usage: usage(&answer.usage),
    })
}

fn whole_part(block: &RawValue) -> Result<Option<Part>, DecodeError> {
    let in_block = |error: serde_json::Error| malformed(format!("in a content block: {error}"));
    let value: Value = serde_json::from_str(block.get()).map_err(in_block)?;
    let arguments = match value["type"].as_str() {
        Some("tool_use") => {
            serde_json::from_str::<Input<'_>>(block.get()).map_err(in_block)?.input.map(RawValue::get)
        }
        _ => None,
    };
    let arguments = arguments.unwrap_or_default().to_owned();
    Ok(part(value, arguments))
}

/// A finished block as a part; `arguments` is the text of a tool call's input.
///
/// An empty text block says nothing and the wire would not take it back, so it is no part.
pub(super) fn part(block: Value, arguments: String) -> Option<Part> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => Some(Part::Text { text: text("text") }).filter(|_| block["text"] != ""),
        Some("tool_use") => Some(Part::ToolCall(ToolCall {
            call_id: text("id"),
            tool_name: text("name"),
            arguments: if arguments.trim().is_empty() { "{}".to_owned() } else { arguments },
        })),
        Some("thinking") => Some(Part::Reasoning { text: text("thinking"), raw: Some(block) }),
        Some("redacted_thinking") => Some(Part::Reasoning { text: String::new(), raw: Some(block) }),
        _ => Some(Part::Opaque { wire: NAME.to_owned(), raw: block }),
    }
}
