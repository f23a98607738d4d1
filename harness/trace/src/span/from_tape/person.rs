//! What people were asked about a call and what they said, as events of its span: the audit outside the model.

use super::{Fold, set};
use crate::attribute as name;
use crate::attribute::operation;
use crate::fact::{PersonAnswered, PersonAsked};
use crate::span::SpanEvent;
use serde_json::{Map, Value, json};

impl Fold<'_> {
    /// A call that waits for a person is a span that has not ended.
    pub(super) fn person_asked(&mut self, at_ns: i64, fact: &PersonAsked) {
        let id = self.run().span(operation::EXECUTE_TOOL, fact.key.turn, fact.key.index);
        let mut span = self
            .tools
            .remove(&fact.key)
            .unwrap_or_else(|| self.tool(fact.key, &fact.tool_name, &fact.call_id, id, at_ns));
        set(&mut span, name::TOOL_ARGUMENTS, fact.arguments.as_str());
        set(&mut span, name::TOOL_ARGS_HASH, fact.args_hash.to_string());
        set(&mut span, name::TOOL_PERMISSION, format!("ask:{}", fact.rule));
        span.events.push(asked(at_ns, fact));
        self.tools.insert(fact.key, span);
    }

    pub(super) fn person_answered(&mut self, at_ns: i64, fact: &PersonAnswered) {
        if let Some(span) = self.tools.get_mut(&fact.key) {
            span.events.push(answered(at_ns, fact));
        }
    }
}

/// The question as an event.
fn asked(at_ns: i64, fact: &PersonAsked) -> SpanEvent {
    let attributes = [
        ("wants", json!(fact.wants.as_str())),
        ("prompt", json!(fact.prompt)),
        ("rule", json!(fact.rule)),
        ("token", json!(fact.token.to_string())),
        (name::TOOL_ARGS_HASH, json!(fact.args_hash.to_string())),
        ("expires_at_ns", json!(fact.expires_at_ns)),
    ];
    event("loopdeck.person_asked", at_ns, attributes.into_iter())
}

/// The answer as an event.
fn answered(at_ns: i64, fact: &PersonAnswered) -> SpanEvent {
    let known = [
        ("by", Some(json!(fact.by))),
        ("way", Some(json!(fact.way.as_str()))),
        ("token", Some(json!(fact.token.to_string()))),
        ("decided_at_ns", Some(json!(fact.decided_at_ns))),
        ("ruling", fact.ruling.map(|ruling| json!(ruling.as_str()))),
        ("said", fact.said.as_ref().map(|said| json!(said))),
        ("reason", fact.reason.as_ref().map(|reason| json!(reason))),
    ];
    let attributes = known.into_iter().filter_map(|(key, value)| Some((key, value?)));
    event("loopdeck.person_answered", at_ns, attributes)
}

fn event(word: &str, at_ns: i64, attributes: impl Iterator<Item = (&'static str, Value)>) -> SpanEvent {
    let attributes: Map<String, Value> = attributes.map(|(key, value)| (key.to_owned(), value)).collect();
    SpanEvent { name: word.to_owned(), at_ns, attributes }
}
