//! The server's side of OpenAI Responses: a [`Response`] as the provider would send it.
//!
//! Place in the flow: scripted runs and the loopback provider speak with it, so that they are decoded like any
//! real answer. What the response leaves unknown is left out.

use serde_json::{Map, Value, json};
use trace::message::{Finish, Part, Response, Usage};

/// Characters of text or arguments in one streamed piece.
const PIECE_CHARS: usize = 12;

/// The body of an answer that is not streamed.
#[must_use]
pub fn body(response: &Response) -> Value {
    let mut answer = envelope(response);
    let (status, reason) = status(response);
    answer.insert("status".to_owned(), json!(status));
    answer.insert("incomplete_details".to_owned(), reason.map_or(Value::Null, |why| json!({"reason": why})));
    answer.insert("output".to_owned(), items(response).collect());
    answer.extend(usage(&response.usage).map(|usage| ("usage".to_owned(), usage)));
    Value::Object(answer)
}

/// The events of a streamed answer, each with its empty line.
#[must_use]
pub fn events(response: &Response) -> Vec<String> {
    let mut begun = envelope(response);
    begun.insert("status".to_owned(), json!("in_progress"));
    begun.insert("output".to_owned(), json!([]));
    let mut events = vec![event("response.created", json!({"response": begun}))];
    for (index, item) in items(response).enumerate() {
        let at = json!({"output_index": index, "item_id": item["id"]});
        let added =
            event("response.output_item.added", json!({"output_index": index, "item": opening(&item)}));
        events.push(added);
        for (kind, text) in streamed(&item) {
            events.extend(pieces(&text).map(|piece| {
                let mut data = at.clone();
                data["delta"] = json!(piece);
                event(kind, data)
            }));
        }
        events.push(event("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    let last = if status(response).0 == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(event(last, json!({"response": body(response)})));
    events
}

/// The error object of this wire.
#[must_use]
pub fn error(kind: &str, message: &str) -> Value {
    crate::model::chat::speak::error(kind, message)
}

fn event(kind: &str, mut data: Value) -> String {
    data["type"] = json!(kind);
    format!("event: {kind}\ndata: {data}\n\n")
}

/// An item as it begins: without what its deltas bring.
fn opening(item: &Value) -> Value {
    let mut opening = item.clone();
    for (name, empty) in [("content", json!([])), ("summary", json!([])), ("arguments", json!(""))] {
        if opening.get(name).is_some() {
            opening[name] = empty;
        }
    }
    opening
}

/// The texts of an item with the kind of their deltas.
fn streamed(item: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("message") => {
            let block = &item["content"][0];
            vec![match block["type"].as_str() {
                Some("refusal") => ("response.refusal.delta", text(&block["refusal"])),
                _ => ("response.output_text.delta", text(&block["text"])),
            }]
        }
        Some("function_call") => vec![("response.function_call_arguments.delta", text(&item["arguments"]))],
        Some("reasoning") => {
            let summary = item["summary"].as_array().into_iter().flatten();
            summary.map(|one| ("response.reasoning_summary_text.delta", text(&one["text"]))).collect()
        }
        _ => Vec::new(),
    }
}

fn envelope(response: &Response) -> Map<String, Value> {
    let mut members = Map::from_iter([("object".to_owned(), json!("response"))]);
    if let Some(id) = &response.response_id {
        members.insert("id".to_owned(), json!(id));
    }
    if let Some(model) = &response.response_model {
        members.insert("model".to_owned(), json!(model));
    }
    members
}

fn items(response: &Response) -> impl Iterator<Item = Value> + '_ {
    let (refused, cut) = (response.finish == Finish::Refusal, status(response).0 == "incomplete");
    response.parts.iter().enumerate().filter_map(move |(at, part)| match part {
        Part::Text { text } => {
            let block = match refused && !cut {
                true => json!({"type": "refusal", "refusal": text}),
                false => json!({"type": "output_text", "text": text, "annotations": []}),
            };
            Some(json!({"type": "message", "id": format!("msg_{at}"), "role": "assistant", "content": [block]}))
        }
        Part::ToolCall(call) => Some(json!({
            "type": "function_call",
            "id": format!("fc_{at}"),
            "call_id": call.call_id,
            "name": call.tool_name,
            "arguments": call.arguments,
        })),
        Part::Reasoning { raw: Some(raw), .. } | Part::Opaque { raw, .. } => Some(raw.clone()),
        Part::Reasoning { text, raw: None } => {
            let summary = json!([{"type": "summary_text", "text": text}]);
            Some(json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": summary}))
        }
        Part::ToolResult(_) => None,
    })
}

/// The status, and the reason where it is `incomplete`.
fn status(response: &Response) -> (&str, Option<&str>) {
    let word = match (&response.finish, response.finish_raw.as_deref()) {
        (_, Some(word)) => word,
        (Finish::Length, None) => "max_output_tokens",
        (Finish::Refusal, None) => "content_filter",
        (Finish::ContextFull, None) => "context_window",
        (Finish::Other(word), None) => word,
        (_, None) => "completed",
    };
    match word {
        "completed" | "complete" | "cancelled" | "queued" | "in_progress" => (word, None),
        reason => ("incomplete", Some(reason)),
    }
}

fn usage(usage: &Usage) -> Option<Value> {
    let total = usage.total()?;
    let members = |pairs: &[(&str, Option<u64>)]| -> Map<String, Value> {
        pairs.iter().filter_map(|(name, tokens)| Some(((*name).to_owned(), json!((*tokens)?)))).collect()
    };
    let mut all = members(&[
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("total_tokens", Some(total)),
    ]);
    let read = [("cached_tokens", usage.cache_read_tokens), ("cache_write_tokens", usage.cache_write_tokens)];
    all.insert("input_tokens_details".to_owned(), Value::Object(members(&read)));
    let written = [("reasoning_tokens", usage.reasoning_tokens)];
    all.insert("output_tokens_details".to_owned(), Value::Object(members(&written)));
    Some(Value::Object(all))
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}
