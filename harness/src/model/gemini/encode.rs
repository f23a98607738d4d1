//! Messages of a conversation as Gemini's contents.
//!
//! Place in the flow: called by [`super::Gemini`] for each new message of a request; the texts become fragments.
//! All results of a turn are one content of the user, in the order of their calls.

use super::{NAME, given_id};
use crate::model::ToolOffer;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use trace::message::{Message, Part, Role, ToolCall, ToolResult};

/// Members of a part that stand beside its content, and make no part alone.
const BESIDE: [&str; 3] = ["thoughtSignature", "partMetadata", "videoMetadata"];

/// A tool in the body's `functionDeclarations`. The older `parameters` take only a subset of JSON Schema.
#[must_use]
pub fn tool(offer: &ToolOffer) -> Value {
    json!({
        "name": offer.name,
        "description": offer.description,
        "parametersJsonSchema": offer.input_schema,
    })
}

/// The message as a content; none where nothing of it belongs among the contents.
#[must_use]
pub fn fragment(message: &Message) -> Option<String> {
    let role = match message.role {
        Role::System => return None,
        Role::User | Role::Tool => "user",
        Role::Assistant => "model",
    };
    let parts = pieces(&message.parts);
    if parts.is_empty() {
        return None;
    }
    serde_json::to_string(&Content { role, parts }).ok()
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'a str,
    parts: Vec<Piece<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Kept(&'a Value),
    Plain(Map<String, Value>),
    Call {
        #[serde(rename = "functionCall")]
        call: Call<'a>,
        #[serde(flatten)]
        beside: Map<String, Value>,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Box<RawValue>,
}

fn pieces(parts: &[Part]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // What stands beside the part that comes next.
    let mut beside: Option<&Value> = None;
    for part in parts {
        let members = || beside.and_then(Value::as_object).cloned().unwrap_or_default();
        let piece = match part {
            Part::Opaque { wire, raw } if wire == NAME && stands_beside(raw) => {
                pieces.extend(beside.replace(raw).map(Piece::Kept));
                continue;
            }
            Part::Opaque { wire, raw } if wire == NAME => Some(Piece::Kept(raw)),
            Part::Reasoning { raw: Some(raw), .. } if raw["thought"] == true => Some(Piece::Kept(raw)),
            Part::Text { text } if text.is_empty() => None,
            Part::Text { text } => Some(Piece::Plain(with(members(), "text", json!(text)))),
            Part::ToolCall(call) => function_call(call).map(|call| Piece::Call { call, beside: members() }),
            Part::ToolResult(result) => {
                Some(Piece::Plain(with(Map::new(), "functionResponse", answer(result))))
            }
            Part::Reasoning { .. } | Part::Opaque { .. } => None,
        };
        // Before a part that carries its own, it was a part by itself.
        if let (Some(Piece::Kept(_)), Some(raw)) = (&piece, beside) {
            pieces.push(Piece::Kept(raw));
        }
        if piece.is_some() {
            beside = None;
        }
        pieces.extend(piece);
    }
    pieces.extend(beside.map(Piece::Kept));
    pieces
}

/// Whether an opaque part holds nothing but what stands beside another.
pub(super) fn stands_beside(raw: &Value) -> bool {
    raw.as_object().is_some_and(|raw| raw.keys().all(|name| BESIDE.contains(&name.as_str())))
}

fn with(mut members: Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    members.insert(name.to_owned(), value);
    members
}

/// The arguments, byte for byte where they are an object; the wire takes nothing else, so broken text is wrapped.
fn function_call(call: &ToolCall) -> Option<Call<'_>> {
    let text = call.arguments.trim();
    let object = text.starts_with('{').then(|| RawValue::from_string(text.to_owned()).ok()).flatten();
    let args = object.or_else(|| to_raw_value(&json!({"invalid_arguments": call.arguments})).ok())?;
    Some(Call { id: given_id(&call.call_id), name: &call.tool_name, args })
}

/// A result; the wire wants an object, and names these members for text and failure.
fn answer(result: &ToolResult) -> Value {
    let member = if result.is_error { "error" } else { "output" };
    let mut answer = json!({"name": result.tool_name, "response": {member: result.content}});
    if let Some(id) = given_id(&result.call_id) {
        answer["id"] = json!(id);
    }
    answer
}
