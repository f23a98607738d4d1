//! A streamed OpenAI Responses answer, gathered.
//!
//! Place in the flow: chunks of bytes -> events -> the response object of the last event -> [`Response`]. That
//! object is whole; only where a server leaves its output out are the items taken that came before it.

use super::decode::object;
use super::{incomplete, malformed};
use crate::model::sse::{SseEvent, SseParser};
use crate::model::{DecodeError, Delta, StreamDecoder, fault};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trace::message::Response;

/// Gathers one streamed answer.
#[derive(Debug, Default)]
pub struct ResponsesStream {
    sse: SseParser,
    /// Finished items by their place in the output.
    items: BTreeMap<u64, Value>,
    last: Option<Value>,
}

impl StreamDecoder for ResponsesStream {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, DecodeError> {
        let mut deltas = Vec::new();
        for event in self.sse.push(bytes).map_err(|error| malformed(error.to_string()))? {
            deltas.extend(self.event(&event)?);
        }
        Ok(deltas)
    }

    fn finish(mut self: Box<Self>) -> Result<Response, DecodeError> {
        if let Some(event) = std::mem::take(&mut self.sse).finish() {
            // What the stream breaks off in is not worth more than the rest of it.
            self.event(&event).map_err(|error| match error {
                DecodeError::Malformed { why, .. } => {
                    incomplete(format!("it breaks off inside an event: {why}"))
                }
                other => other,
            })?;
        }
        let mut last = self.last.ok_or_else(|| incomplete("no response.completed came"))?;
        if last["output"].as_array().is_none_or(Vec::is_empty) {
            last["output"] = self.items.into_values().collect();
        }
        object(&last)
    }
}

impl ResponsesStream {
    fn event(&mut self, event: &SseEvent) -> Result<Option<Delta>, DecodeError> {
        let text = event.data.trim();
        if text.is_empty() || text == "[DONE]" {
            return Ok(None);
        }
        let mut data: Value = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        // The type inside is the truth; the event's name repeats it, and some proxies drop it.
        let kind = data["type"].as_str().unwrap_or(&event.name).to_owned();
        match kind.as_str() {
            "error" => return Err(provider(&data)),
            "response.completed" | "response.incomplete" | "response.failed" => {
                let last = data["response"].take();
                if !last.is_object() {
                    return Err(malformed(format!("{kind} has no response")));
                }
                self.last = Some(last);
            }
            "response.output_item.added" if data["item"]["type"] == "function_call" => {
                let name = data["item"]["name"].as_str().unwrap_or_default().to_owned();
                return Ok(Some(Delta::ToolCall { name }));
            }
            "response.output_item.done" => {
                let place = data["output_index"].as_u64().unwrap_or(self.items.len() as u64);
                self.items.insert(place, data["item"].take());
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                return Ok(visible(&data["delta"], Delta::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                return Ok(visible(&data["delta"], Delta::Reasoning));
            }
            // Pieces of arguments, which the finished item repeats; progress of the provider's own tools; novelties.
            // An error of a gateway has no type.
            _ if data["error"].is_object() => return Err(provider(&data)),
            _ => {}
        }
        Ok(None)
    }
}

/// An error event carries its words itself, or in an object as the other wires do.
fn provider(data: &Value) -> DecodeError {
    let inner = &data["error"];
    let error = match inner.is_object() {
        true => inner.clone(),
        false => json!({"code": data["code"], "message": data["message"]}),
    };
    DecodeError::Provider(fault::of_error_object(&error))
}

fn visible(text: &Value, delta: fn(String) -> Delta) -> Option<Delta> {
    text.as_str().filter(|text| !text.is_empty()).map(|text| delta(text.to_owned()))
}
