//! The messages a span carries, each a blob that is kept once.

use crate::attribute::{self, operation};
use crate::dialect::{Said, shown};
use crate::id::Hash;
use crate::span::Span;
use serde_json::Value;

/// Where a message can stand; anything else was not written by us.
const PLACES: std::ops::Range<i64> = 0..1 << 40;

/// One row of the table `message`, with its blob.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRow {
    /// Place in the conversation, 0-based.
    pub position: i64,
    /// Who speaks.
    pub role: String,
    /// The hash of role and parts.
    pub blob: Hash,
    /// What a person reads.
    pub content: String,
    /// The parts as JSON; `None` where the message is one plain text.
    pub parts: Option<String>,
}

/// Model calls carry the conversation; an agent's span repeats it, except in our own form, where it carries what
/// was said after the last call.
pub(super) fn rows(
    span: &Span,
    operation_name: Option<&str>,
    ours: bool,
    said: Vec<Said>,
) -> Vec<MessageRow> {
    let carries = match operation_name {
        Some(operation::CHAT | "text_completion" | "generate_content") => true,
        Some(operation::INVOKE_AGENT) => ours,
        _ => false,
    };
    if !carries {
        return Vec::new();
    }
    let first = span
        .attributes
        .get(attribute::FIRST_POSITION)
        .and_then(Value::as_i64)
        .filter(|at| ours && PLACES.contains(at));
    let first = first.unwrap_or(0);
    (first..).zip(said).map(|(position, one)| row(position, &one)).collect()
}

fn row(position: i64, said: &Said) -> MessageRow {
    let plain = matches!(said.parts.as_slice(), [only] if is_plain_text(only));
    MessageRow {
        position,
        role: said.role.clone(),
        blob: said.blob(),
        content: shown(&said.parts),
        parts: (!plain).then(|| Value::Array(said.parts.clone()).to_string()),
    }
}

fn is_plain_text(part: &Value) -> bool {
    part.as_object().is_some_and(|map| map.len() == 2 && map.get("type").is_some_and(|kind| kind == "text"))
}
