//! A streamed Chat Completions answer, gathered.
//!
//! Place in the flow: chunks of bytes -> events -> one message of the shape that is not streamed, which
//! [`super::decode`] then reads. Nothing is parsed out of arguments before the answer is complete.

use super::decode::{Gathered, assemble, provider_error, thinking_text};
use super::{incomplete, malformed};
use crate::model::sse::{SseEvent, SseParser};
use crate::model::{DecodeError, Delta, StreamDecoder};
use serde_json::{Map, Value, json};
use trace::message::Response;

/// Gathers one streamed answer.
#[derive(Debug, Default)]
pub struct ChatStream {
    sse: SseParser,
    id: Option<String>,
    model: Option<String>,
    message: Map<String, Value>,
    calls: Vec<CallSlot>,
    finish_reason: Option<String>,
    usage: Value,
    done: bool,
}

/// A tool call that is being written.
#[derive(Debug, Default)]
struct CallSlot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl StreamDecoder for ChatStream {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, DecodeError> {
        let mut deltas = Vec::new();
        for event in self.sse.push(bytes).map_err(|error| malformed(error.to_string()))? {
            self.event(&event, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn finish(mut self: Box<Self>) -> Result<Response, DecodeError> {
        if let Some(event) = std::mem::take(&mut self.sse).finish() {
            // What the stream breaks off in is not worth more than the rest of it.
            self.event(&event, &mut Vec::new()).map_err(|error| match error {
                DecodeError::Malformed { why, .. } => {
                    incomplete(format!("it breaks off inside an event: {why}"))
                }
                other => other,
            })?;
        }
        if self.finish_reason.is_none() && !self.done {
            return Err(incomplete("neither a finish_reason nor [DONE] came"));
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(CallSlot::whole).collect();
            self.message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        Ok(assemble(&Gathered {
            id: self.id.as_deref(),
            model: self.model.as_deref(),
            message: &self.message,
            finish_reason: self.finish_reason.as_deref(),
            usage: &self.usage,
        }))
    }
}

impl ChatStream {
    fn event(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
        }
        if self.done || data.is_empty() {
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| malformed(error.to_string()))?;
        provider_error(&chunk)?;
        if event.name == "error" {
            return provider_error(&json!({"error": chunk}));
        }
        first(&mut self.id, &chunk["id"]);
        first(&mut self.model, &chunk["model"]);
        // Groq tells usage in a member of its own.
        for usage in [&chunk["x_groq"]["usage"], &chunk["usage"]] {
            if usage.is_object() {
                self.usage = usage.clone();
            }
        }
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                self.choice(choice, deltas);
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Value, deltas: &mut Vec<Delta>) {
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.to_owned());
        }
        // A few servers send the whole message in one chunk.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        for (name, value) in delta.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("content" | "refusal", Value::String(text)) => {
                    append(&mut self.message, name, text);
                    push_delta(deltas, text, Delta::Text);
                }
                ("reasoning_content" | "reasoning", Value::String(text)) => {
                    append(&mut self.message, name, text);
                    push_delta(deltas, text, Delta::Reasoning);
                }
                ("content" | "reasoning_details", Value::Array(items)) => self.items(name, items, deltas),
                ("tool_calls", Value::Array(calls)) => {
                    calls.iter().for_each(|call| self.call(call, deltas));
                }
                _ => {}
            }
        }
    }

    /// Content that comes as blocks: neighbours of one type are one block, as in the whole answer.
    fn items(&mut self, name: &str, items: &[Value], deltas: &mut Vec<Delta>) {
        for item in items {
            match item["type"].as_str() {
                Some("text") => push_delta(deltas, item["text"].as_str().unwrap_or_default(), Delta::Text),
                Some("thinking") => push_delta(deltas, &thinking_text(item), Delta::Reasoning),
                _ => {}
            }
            let slot = self.message.entry(name).or_insert_with(|| json!([]));
            if let Value::String(text) = slot {
                *slot = if text.is_empty() { json!([]) } else { json!([{"type": "text", "text": text}]) };
            }
            match slot {
                Value::Array(blocks) if name == "content" => add_block(blocks, item),
                // Reasoning details are signed one by one and go back as they came.
                Value::Array(details) => details.push(item.clone()),
                _ => {}
            }
        }
    }

    fn call(&mut self, call: &Value, deltas: &mut Vec<Delta>) {
        let function = &call["function"];
        let slot = self.slot(call["index"].as_u64(), call["id"].as_str().unwrap_or_default());
        if let Some(id) = call["id"].as_str().filter(|_| slot.id.is_empty()) {
            slot.id = id.to_owned();
        }
        // Some servers repeat the name with every piece.
        if let Some(name) = function["name"].as_str().filter(|name| !name.is_empty() && *name != slot.name) {
            slot.name.push_str(name);
            deltas.push(Delta::ToolCall { name: slot.name.clone() });
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(piece) => slot.arguments.push_str(piece),
            whole => slot.arguments = whole.to_string(),
        }
    }

    /// The call that a piece belongs to: by index; an id that differs begins another call all the same, because
    /// some servers number every call 0, and others send no index at all.
    fn slot(&mut self, index: Option<u64>, id: &str) -> &mut CallSlot {
        let same_id = |slot: &CallSlot| id.is_empty() || slot.id.is_empty() || slot.id == id;
        let found = match index {
            Some(_) => self.calls.iter().rposition(|slot| slot.index == index && same_id(slot)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|slot| slot.id == id),
        };
        let at = found.unwrap_or_else(|| {
            self.calls.push(CallSlot { index, ..CallSlot::default() });
            self.calls.len() - 1
        });
        &mut self.calls[at]
    }
}

impl CallSlot {
    fn whole(&self) -> Value {
        json!({"id": self.id, "function": {"name": self.name, "arguments": self.arguments}})
    }
}

fn first(slot: &mut Option<String>, value: &Value) {
    if let (None, Some(text)) = (&slot, value.as_str().filter(|text| !text.is_empty())) {
        *slot = Some(text.to_owned());
    }
}

fn append(message: &mut Map<String, Value>, name: &str, piece: &str) {
    match message.get_mut(name) {
        Some(Value::String(text)) => text.push_str(piece),
        // Blocks came before: Mistral's thinking is followed by plain pieces of text.
        Some(Value::Array(blocks)) if !piece.is_empty() => {
            add_block(blocks, &json!({"type": "text", "text": piece}));
        }
        Some(_) => {}
        None => {
            message.insert(name.to_owned(), Value::String(piece.to_owned()));
        }
    }
}

/// Adds a block, or its text to the block before it where both are of one type.
fn add_block(blocks: &mut Vec<Value>, item: &Value) {
    let joined = blocks.last_mut().is_some_and(|last| last["type"] == item["type"] && join(last, item));
    if !joined {
        blocks.push(item.clone());
    }
}

/// Appends a block's text or thinking to that of another; says whether it could.
fn join(last: &mut Value, item: &Value) -> bool {
    if let (Some(Value::String(text)), Some(more)) = (last.get_mut("text"), item["text"].as_str()) {
        text.push_str(more);
        return true;
    }
    match (last.get_mut("thinking"), item["thinking"].as_array()) {
        (Some(Value::Array(pieces)), Some(more)) => {
            more.iter().for_each(|piece| add_block(pieces, piece));
            true
        }
        _ => false,
    }
}

fn push_delta(deltas: &mut Vec<Delta>, text: &str, delta: fn(String) -> Delta) {
    if !text.is_empty() {
        deltas.push(delta(text.to_owned()));
    }
}
