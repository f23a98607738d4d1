//! The server's side of Gemini: a [`Response`] as the provider would send it.
//!
//! Place in the flow: scripted runs and the loopback provider speak with it, so that they are decoded like any
//! real answer. What the response leaves unknown is left out.

use super::encode::fragment;
use serde_json::{Map, Value, json};
use trace::message::{Finish, Message, Part, Response, Role, Usage};

/// Characters of text in one streamed piece.
const PIECE_CHARS: usize = 12;

/// The body of an answer that is not streamed.
#[must_use]
pub fn body(response: &Response) -> Value {
    piece(response, &parts(response), true)
}

/// The events of a streamed answer, each with its empty line.
#[must_use]
pub fn events(response: &Response) -> Vec<String> {
    let mut pieces: Vec<Value> =
        parts(response).into_iter().flat_map(streamed).map(|part| piece(response, &[part], false)).collect();
    pieces.push(piece(response, &[], true));
    pieces.iter().map(|piece| format!("data: {piece}\n\n")).collect()
}

/// The error object of this wire.
#[must_use]
pub fn error(status: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"code": status, "message": message, "status": kind}})
}

/// The parts as the model's message would be echoed; thoughts that were made up by a script are added.
fn parts(response: &Response) -> Vec<Value> {
    let parts = response.parts.iter().map(|part| match part {
        Part::Reasoning { text, raw: None } => {
            Part::Reasoning { text: text.clone(), raw: Some(json!({"text": text, "thought": true})) }
        }
        other => other.clone(),
    });
    let said = Message { role: Role::Assistant, parts: parts.collect() };
    let content: Value =
        fragment(&said).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    content["parts"].as_array().cloned().unwrap_or_default()
}

/// A part in pieces: only plain text and plain thoughts are cut.
fn streamed(part: Value) -> Vec<Value> {
    let is_plain =
        part.as_object().is_some_and(|part| part.keys().all(|name| name == "text" || name == "thought"));
    match part["text"].as_str().filter(|text| is_plain && !text.is_empty()) {
        Some(text) => {
            let chars: Vec<char> = text.chars().collect();
            let texts = chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect::<String>());
            let cut = texts.map(|text| {
                let mut piece = part.clone();
                piece["text"] = json!(text);
                piece
            });
            cut.collect()
        }
        None => vec![part],
    }
}

fn piece(response: &Response, parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let mut members = Map::new();
    if is_last {
        candidate["finishReason"] = json!(finish_word(response));
        members.extend(usage(&response.usage).map(|usage| ("usageMetadata".to_owned(), usage)));
    }
    members.insert("candidates".to_owned(), json!([candidate]));
    if let Some(id) = &response.response_id {
        members.insert("responseId".to_owned(), json!(id));
    }
    if let Some(model) = &response.response_model {
        members.insert("modelVersion".to_owned(), json!(model));
    }
    Value::Object(members)
}

fn finish_word(response: &Response) -> &str {
    match (&response.finish, response.finish_raw.as_deref()) {
        (_, Some(word)) => word,
        (Finish::EndTurn | Finish::ToolUse | Finish::StopSequence | Finish::PauseTurn, None) => "STOP",
        (Finish::Length | Finish::ContextFull, None) => "MAX_TOKENS",
        (Finish::Refusal, None) => "SAFETY",
        (Finish::Other(word), None) => word,
    }
}

fn usage(usage: &Usage) -> Option<Value> {
    let total = usage.total()?;
    let thoughts = usage.reasoning_tokens.unwrap_or(0);
    let members = [
        ("promptTokenCount", usage.input_tokens),
        ("candidatesTokenCount", usage.output_tokens.map(|tokens| tokens.saturating_sub(thoughts))),
        ("thoughtsTokenCount", usage.reasoning_tokens),
        ("cachedContentTokenCount", usage.cache_read_tokens),
        ("totalTokenCount", Some(total)),
    ];
    let known = members.into_iter().filter_map(|(name, tokens)| Some((name.to_owned(), json!(tokens?))));
    Some(Value::Object(known.collect()))
}
