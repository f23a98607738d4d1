//! The server's side of Chat Completions: a [`Response`] as a provider would send it.
//!
//! Place in the flow: scripted runs and the loopback provider speak with it, so that they are decoded like any
//! real answer. What the response leaves unknown is left out.

use super::encode::REASONING_MEMBERS;
use serde_json::{Map, Value, json};
use trace::message::{Finish, Part, Response, Usage, joined_text, tool_calls};

/// Characters of text or arguments in one streamed piece.
const PIECE_CHARS: usize = 12;

/// The body of an answer that is not streamed.
#[must_use]
pub fn body(response: &Response) -> Value {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    message.extend(reasoning(response));
    message.insert("content".to_owned(), content(response));
    let calls: Vec<Value> = calls(response).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    let mut answer = envelope(response, "chat.completion");
    answer.insert(
        "choices".to_owned(),
        json!([{"index": 0, "message": message, "finish_reason": finish_word(response)}]),
    );
    answer.extend(usage(&response.usage));
    Value::Object(answer)
}

/// The events of a streamed answer, each with its empty line.
#[must_use]
pub fn events(response: &Response) -> Vec<String> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(reasoning(response).map(|(name, value)| json!({name: value})));
    match content(response) {
        Value::String(text) => deltas.extend(pieces(&text).map(|piece| json!({"content": piece}))),
        Value::Array(blocks) => deltas.extend(blocks.iter().map(|block| json!({"content": [block]}))),
        _ => {}
    }
    for (index, call) in calls(response).enumerate() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
        let mut opening = call;
        opening["index"] = json!(index);
        opening["function"]["arguments"] = json!("");
        deltas.push(json!({"tool_calls": [opening]}));
        deltas.extend(
            pieces(&arguments)
                .map(|piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})),
        );
    }
    let mut events: Vec<String> = deltas.iter().map(|delta| chunk(response, delta, &Value::Null)).collect();
    events.push(chunk(response, &json!({}), &finish_word(response)));
    if let Some(usage) = usage(&response.usage) {
        let mut last = envelope(response, "chat.completion.chunk");
        last.insert("choices".to_owned(), json!([]));
        last.extend([usage]);
        events.push(event(&Value::Object(last)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// The error object of this wire.
#[must_use]
pub fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

fn chunk(response: &Response, delta: &Value, finish_reason: &Value) -> String {
    let mut chunk = envelope(response, "chat.completion.chunk");
    let choice = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    chunk.insert("choices".to_owned(), choice);
    event(&Value::Object(chunk))
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn envelope(response: &Response, object: &str) -> Map<String, Value> {
    let mut members =
        Map::from_iter([("object".to_owned(), json!(object)), ("created".to_owned(), json!(0))]);
    if let Some(id) = &response.response_id {
        members.insert("id".to_owned(), json!(id));
    }
    if let Some(model) = &response.response_model {
        members.insert("model".to_owned(), json!(model));
    }
    members
}

fn content(response: &Response) -> Value {
    let blocks: Vec<Value> = response
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Opaque { raw, .. } => Some(raw.clone()),
            Part::Reasoning { raw: Some(raw), .. } if raw["thinking"].is_array() => Some(raw.clone()),
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            _ => None,
        })
        .collect();
    if blocks.iter().any(|block| block["type"] != "text") {
        return Value::Array(blocks);
    }
    match joined_text(&response.parts) {
        text if text.is_empty() => Value::Null,
        text => Value::String(text),
    }
}

fn calls(response: &Response) -> impl Iterator<Item = Value> + '_ {
    tool_calls(&response.parts).map(|call| {
        json!({
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.tool_name, "arguments": call.arguments},
        })
    })
}

fn reasoning(response: &Response) -> impl Iterator<Item = (String, Value)> + '_ {
    response.parts.iter().flat_map(|part| match part {
        Part::Reasoning { text, raw: None } => vec![("reasoning_content".to_owned(), json!(text))],
        Part::Reasoning { raw: Some(Value::Object(raw)), .. } => raw
            .iter()
            .filter(|(name, _)| REASONING_MEMBERS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        _ => Vec::new(),
    })
}

fn finish_word(response: &Response) -> Value {
    let word = match &response.finish {
        _ if response.finish_raw.is_some() => response.finish_raw.as_deref().unwrap_or_default(),
        Finish::EndTurn | Finish::StopSequence | Finish::PauseTurn => "stop",
        Finish::ToolUse => "tool_calls",
        Finish::Length => "length",
        Finish::Refusal => "content_filter",
        Finish::ContextFull => "model_length",
        Finish::Other(word) => word,
    };
    if word.is_empty() { Value::Null } else { json!(word) }
}

fn usage(usage: &Usage) -> Option<(String, Value)> {
    let total = usage.total()?;
    let mut members = Map::from_iter([("total_tokens".to_owned(), json!(total))]);
    let mut put = |name: &str, tokens: Option<u64>| {
        members.extend(tokens.map(|tokens| (name.to_owned(), json!(tokens))));
    };
    put("prompt_tokens", usage.input_tokens);
    put("completion_tokens", usage.output_tokens);
    let details = |pairs: &[(&str, Option<u64>)]| -> Map<String, Value> {
        pairs.iter().filter_map(|(name, tokens)| Some(((*name).to_owned(), json!((*tokens)?)))).collect()
    };
    let read = details(&[
        ("cached_tokens", usage.cache_read_tokens),
        ("cache_write_tokens", usage.cache_write_tokens),
    ]);
    let written = details(&[("reasoning_tokens", usage.reasoning_tokens)]);
    for (name, details) in [("prompt_tokens_details", read), ("completion_tokens_details", written)] {
        if !details.is_empty() {
            members.insert(name.to_owned(), Value::Object(details));
        }
    }
    Some(("usage".to_owned(), Value::Object(members)))
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}
