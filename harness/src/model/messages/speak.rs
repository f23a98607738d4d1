//! The server's side of Anthropic Messages: a [`Response`] as the provider would send it.
//!
//! Place in the flow: scripted runs and the loopback provider speak with it, so that they are decoded like any
//! real answer. What the response leaves unknown is left out.

use serde_json::{Map, Value, json};
use trace::message::{Finish, Part, Response, ToolCall, Usage};

/// Characters of text or input in one streamed piece.
const PIECE_CHARS: usize = 12;

/// The body of an answer that is not streamed.
#[must_use]
pub fn body(response: &Response) -> Value {
    let mut message = envelope(response);
    message.insert("content".to_owned(), response.parts.iter().filter_map(block).collect());
    message.insert("stop_reason".to_owned(), stop_word(response));
    message.insert("stop_sequence".to_owned(), Value::Null);
    message.insert("usage".to_owned(), Value::Object(usage(&response.usage)));
    Value::Object(message)
}

/// The events of a streamed answer, each with its empty line.
#[must_use]
pub fn events(response: &Response) -> Vec<String> {
    let mut message = envelope(response);
    message.insert("content".to_owned(), json!([]));
    message.insert("stop_reason".to_owned(), Value::Null);
    let mut read = usage(&response.usage);
    read.remove("output_tokens");
    message.insert("usage".to_owned(), Value::Object(read));
    let mut events = vec![event(&json!({"type": "message_start", "message": message}))];
    events.push(event(&json!({"type": "ping"})));
    let blocks = response.parts.iter().filter_map(|part| Some((part, block(part)?)));
    for (index, (part, block)) in blocks.enumerate() {
        let (opening, deltas) = streamed(part, block);
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": opening})));
        events.extend(
            deltas
                .iter()
                .map(|delta| event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))),
        );
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
    }
    let mut last =
        json!({"type": "message_delta", "delta": {"stop_reason": stop_word(response)}, "usage": {}});
    if let Some(tokens) = response.usage.output_tokens {
        last["usage"]["output_tokens"] = json!(tokens);
    }
    events.push(event(&last));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

/// The error object of this wire.
#[must_use]
pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// How a block begins, and the deltas that make it whole.
fn streamed(part: &Part, mut block: Value) -> (Value, Vec<Value>) {
    match part {
        Part::Text { text } => {
            block["text"] = json!("");
            (block, pieces(text).map(|piece| json!({"type": "text_delta", "text": piece})).collect())
        }
        Part::ToolCall(call) => {
            block["input"] = json!({});
            let deltas = pieces(&call.arguments)
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect();
            (block, deltas)
        }
        Part::Reasoning { text, .. } if block["type"] == "thinking" => {
            let signature = block["signature"].clone();
            block["thinking"] = json!("");
            let mut deltas: Vec<Value> =
                pieces(text).map(|piece| json!({"type": "thinking_delta", "thinking": piece})).collect();
            if signature.is_string() {
                block["signature"] = json!("");
                deltas.push(json!({"type": "signature_delta", "signature": signature}));
            }
            (block, deltas)
        }
        _ => (block, Vec::new()),
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn envelope(response: &Response) -> Map<String, Value> {
    let mut members =
        Map::from_iter([("type".to_owned(), json!("message")), ("role".to_owned(), json!("assistant"))]);
    if let Some(id) = &response.response_id {
        members.insert("id".to_owned(), json!(id));
    }
    if let Some(model) = &response.response_model {
        members.insert("model".to_owned(), json!(model));
    }
    members
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Reasoning { raw: Some(raw), .. } | Part::Opaque { raw, .. } => Some(raw.clone()),
        Part::Reasoning { text, raw: None } => Some(json!({"type": "thinking", "thinking": text})),
        Part::ToolCall(ToolCall { call_id, tool_name, arguments }) => {
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            Some(json!({"type": "tool_use", "id": call_id, "name": tool_name, "input": input}))
        }
        Part::ToolResult(_) => None,
    }
}

fn stop_word(response: &Response) -> Value {
    let word = match &response.finish {
        _ if response.finish_raw.is_some() => response.finish_raw.as_deref().unwrap_or_default(),
        Finish::EndTurn => "end_turn",
        Finish::ToolUse => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Refusal => "refusal",
        Finish::PauseTurn => "pause_turn",
        Finish::ContextFull => "model_context_window_exceeded",
        Finish::StopSequence => "stop_sequence",
        Finish::Other(word) => word,
    };
    if word.is_empty() { Value::Null } else { json!(word) }
}

/// Input in the wire's three disjoint parts.
fn usage(usage: &Usage) -> Map<String, Value> {
    let cached = usage.cache_read_tokens.unwrap_or(0).saturating_add(usage.cache_write_tokens.unwrap_or(0));
    let mut members = Map::new();
    let mut put = |name: &str, tokens: Option<u64>| {
        members.extend(tokens.map(|tokens| (name.to_owned(), json!(tokens))));
    };
    put("input_tokens", usage.input_tokens.map(|tokens| tokens.saturating_sub(cached)));
    put("cache_read_input_tokens", usage.cache_read_tokens);
    put("cache_creation_input_tokens", usage.cache_write_tokens);
    put("output_tokens", usage.output_tokens);
    members
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}
