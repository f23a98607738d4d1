//! A whole OpenAI Responses answer, read.
//!
//! Place in the flow: bytes -> [`response`] -> [`Response`]. The last event of a stream holds the same object, so
//! streamed and whole answers are read by the same code.

use super::{NAME, finish, malformed, usage};
use crate::model::{DecodeError, fault};
use serde_json::{Value, json};
use trace::message::{Part, Response, ToolCall};

/// Decodes the body of an answer that was not streamed.
///
/// # Errors
/// Where the body is no JSON, has no output, or is an error that came with a success status.
pub fn response(body: &[u8]) -> Result<Response, DecodeError> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    object(&answer)
}

/// Reads the response object.
pub(super) fn object(answer: &Value) -> Result<Response, DecodeError> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        return Err(DecodeError::Provider(fault::of_error_object(error)));
    }
    if answer["status"] == "failed" {
        return Err(DecodeError::Provider(fault::of_error_object(&json!("the response failed"))));
    }
    let output = answer["output"].as_array().ok_or_else(|| malformed("it has no output"))?;
    let parts: Vec<Part> = output.iter().flat_map(parts).collect();
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let word = text("/incomplete_details/reason").or_else(|| text("/status"));
    let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    Ok(Response {
        response_id: text("/id"),
        response_model: text("/model"),
        parts,
        finish: finish(word.as_deref(), has_calls, output.iter().any(is_refusal)),
        finish_raw: word,
        usage: usage(&answer["usage"]),
    })
}

fn is_refusal(item: &Value) -> bool {
    item["content"].as_array().into_iter().flatten().any(|block| block["type"] == "refusal")
}

fn parts(item: &Value) -> Vec<Part> {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("message") => item["content"].as_array().into_iter().flatten().filter_map(block).collect(),
        Some("function_call") => vec![Part::ToolCall(ToolCall {
            call_id: text("call_id"),
            tool_name: text("name"),
            arguments: if text("arguments").trim().is_empty() { "{}".to_owned() } else { text("arguments") },
        })],
        Some("reasoning") => vec![Part::Reasoning { text: thoughts(item), raw: Some(item.clone()) }],
        _ => vec![Part::Opaque { wire: NAME.to_owned(), raw: item.clone() }],
    }
}

/// A block of a message's content. Empty text says nothing; what is unknown goes back within a message.
fn block(block: &Value) -> Option<Part> {
    let text = match block["type"].as_str() {
        Some("output_text") => block["text"].as_str(),
        Some("refusal") => block["refusal"].as_str(),
        _ => {
            let raw = json!({"type": "message", "role": "assistant", "content": [block]});
            return Some(Part::Opaque { wire: NAME.to_owned(), raw });
        }
    };
    text.filter(|text| !text.is_empty()).map(|text| Part::Text { text: text.to_owned() })
}

/// The readable part of reasoning: its summary, or the text itself where an open model gives it.
fn thoughts(item: &Value) -> String {
    let texts = |name: &str| -> Vec<&str> {
        item[name].as_array().into_iter().flatten().filter_map(|one| one["text"].as_str()).collect()
    };
    [texts("summary"), texts("content")].concat().join("\n\n")
}
