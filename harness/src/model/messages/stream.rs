//! A streamed Anthropic Messages answer, gathered.
//!
//! Place in the flow: chunks of bytes -> events -> blocks -> [`Response`]. The JSON of tool input is only
//! gathered; it is read after `message_stop`.

use super::decode::part;
use super::{finish, incomplete, malformed, usage};
use crate::model::sse::{SseEvent, SseParser};
use crate::model::{DecodeError, Delta, StreamDecoder, fault};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trace::message::Response;

/// Members of a block whose deltas are pieces of text.
const APPENDED: [&str; 4] = ["text", "thinking", "content", "data"];

/// Gathers one streamed answer.
#[derive(Debug, Default)]
pub struct MessagesStream {
    sse: SseParser,
    id: Option<String>,
    model: Option<String>,
    blocks: BTreeMap<u64, Block>,
    stop_reason: Option<String>,
    usage: Map<String, Value>,
    stopped: bool,
}

/// A content block that is being written: as it began, with what was added since.
#[derive(Debug)]
struct Block {
    value: Value,
    input: String,
}

impl StreamDecoder for MessagesStream {
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
        if !self.stopped {
            return Err(incomplete("no message_stop came"));
        }
        Ok(Response {
            response_id: self.id,
            response_model: self.model,
            parts: self.blocks.into_values().filter_map(|block| block.into_part()).collect(),
            finish: finish(self.stop_reason.as_deref()),
            finish_raw: self.stop_reason,
            usage: usage(&Value::Object(self.usage)),
        })
    }
}

impl MessagesStream {
    fn event(&mut self, event: &SseEvent) -> Result<Option<Delta>, DecodeError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(None);
        }
        let data: Value = serde_json::from_str(&event.data).map_err(|error| malformed(error.to_string()))?;
        // The type inside is the truth; the event's name repeats it, and some proxies drop it.
        match data["type"].as_str().unwrap_or(&event.name) {
            "error" => return Err(DecodeError::Provider(fault::of_error_object(&data["error"]))),
            "message_start" => self.start(&data["message"]),
            "content_block_start" => return Ok(self.open(&data)),
            "content_block_delta" => return self.extend(&data),
            "message_delta" => self.close(&data),
            "message_stop" => self.stopped = true,
            // `content_block_stop`, `ping` and events of the future.
            _ => {}
        }
        Ok(None)
    }

    fn start(&mut self, message: &Value) {
        let text = |name: &str| message[name].as_str().map(str::to_owned);
        self.id = text("id").or(self.id.take());
        self.model = text("model").or(self.model.take());
        self.count(&message["usage"]);
    }

    fn open(&mut self, data: &Value) -> Option<Delta> {
        let value = data["content_block"].clone();
        let delta = match value["type"].as_str() {
            Some("tool_use") => {
                Some(Delta::ToolCall { name: value["name"].as_str().unwrap_or_default().to_owned() })
            }
            Some("text") => visible(&value["text"], Delta::Text),
            Some("thinking") => visible(&value["thinking"], Delta::Reasoning),
            _ => None,
        };
        self.blocks.insert(index(data), Block { value, input: String::new() });
        delta
    }

    fn extend(&mut self, data: &Value) -> Result<Option<Delta>, DecodeError> {
        let delta = &data["delta"];
        let block = self
            .blocks
            .get_mut(&index(data))
            .ok_or_else(|| malformed(format!("a delta for block {} that never began", data["index"])))?;
        match delta["type"].as_str() {
            Some("input_json_delta") => {
                block.input.push_str(delta["partial_json"].as_str().unwrap_or_default());
                Ok(None)
            }
            kind => {
                block.take_in(delta);
                Ok(match kind {
                    Some("text_delta") => visible(&delta["text"], Delta::Text),
                    Some("thinking_delta") => visible(&delta["thinking"], Delta::Reasoning),
                    _ => None,
                })
            }
        }
    }

    fn close(&mut self, data: &Value) {
        if let Some(reason) = data["delta"]["stop_reason"].as_str() {
            self.stop_reason = Some(reason.to_owned());
        }
        self.count(&data["usage"]);
    }

    /// Counts in a stream are totals so far: the later one holds.
    fn count(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }
}

impl Block {
    /// Adds a delta's members to the block's members of the same name: text is appended, the rest is set.
    fn take_in(&mut self, delta: &Value) {
        let Some(block) = self.value.as_object_mut() else { return };
        for (name, value) in delta.as_object().into_iter().flatten().filter(|(name, _)| *name != "type") {
            match (block.get_mut(name), value) {
                (Some(Value::String(text)), Value::String(more)) if APPENDED.contains(&name.as_str()) => {
                    text.push_str(more);
                }
                _ if name == "citation" => cite(block, value),
                _ => {
                    block.insert(name.clone(), value.clone());
                }
            }
        }
    }

    fn into_part(mut self) -> Option<trace::message::Part> {
        let is_call = self.value["type"] == "tool_use";
        if self.input.is_empty() {
            let input = self.value.get("input").filter(|input| !input.is_null());
            self.input = input.map(Value::to_string).unwrap_or_default();
        } else if !is_call {
            // The provider's own tools carry input too; broken input is kept as text.
            let input = serde_json::from_str(&self.input).unwrap_or_else(|_| json!(self.input));
            self.value["input"] = input;
        }
        part(self.value, self.input)
    }
}

fn cite(block: &mut Map<String, Value>, citation: &Value) {
    match block.get_mut("citations") {
        Some(Value::Array(citations)) => citations.push(citation.clone()),
        _ => {
            block.insert("citations".to_owned(), json!([citation]));
        }
    }
}

fn index(data: &Value) -> u64 {
    data["index"].as_u64().unwrap_or(0)
}

fn visible(text: &Value, delta: fn(String) -> Delta) -> Option<Delta> {
    text.as_str().filter(|text| !text.is_empty()).map(|text| delta(text.to_owned()))
}
