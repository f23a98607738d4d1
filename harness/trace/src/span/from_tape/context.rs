//! Summaries and smaller views, as spans tell them.
//!
//! Place in the flow: part of tape -> spans. A summary is one more model call of the turn before; that the model
//! is shown less is an event of the run.

use super::{CLIENT, Fold, close, fail, lost, set, set_some, usage};
use crate::attribute as name;
use crate::attribute::operation;
use crate::fact::{Compacted, ModelAnswered, ModelAsked};
use crate::span::SpanEvent;
use serde_json::{Map, json};

/// What tells a summary's span from that of its turn's call.
const SUMMARY: &str = "summary";

impl Fold<'_> {
    pub(super) fn summary_asked(&mut self, at_ns: i64, fact: &ModelAsked) {
        if let Some(before) = self.summaries.last_mut() {
            lost(before, at_ns);
        }
        let index = u32::try_from(self.summaries.len()).unwrap_or(u32::MAX);
        let id = self.run().span(SUMMARY, fact.turn, index);
        let mut span = self.child(format!("{} {SUMMARY}", operation::CHAT), id, self.root.span_id, at_ns);
        span.kind = CLIENT;
        set(&mut span, name::OPERATION_NAME, operation::CHAT);
        set(&mut span, name::CONTEXT_HEAD, fact.head.to_string());
        // It is made of what came before, and no turn of its own.
        set(&mut span, name::TURN_INDEX, fact.turn.saturating_sub(1).max(1));
        self.summaries.push(span);
    }

    pub(super) fn summary_answered(&mut self, at_ns: i64, fact: &ModelAnswered) {
        let Some(span) = self.summaries.last_mut() else { return };
        set(span, name::MODEL_ATTEMPTS, fact.attempt);
        if let Some(fault) = &fact.fault {
            fail(span, fault.class.as_str(), &fault.message);
        }
        if let Some(response) = &fact.response {
            usage(span, &response.usage);
            set_some(span, name::RESPONSE_ID, response.response_id.as_deref());
            set_some(span, name::RESPONSE_MODEL, response.response_model.as_deref());
            set_some(span, name::REQUEST_MODEL, response.response_model.as_deref());
            set_some(span, name::COST_USD, fact.cost_usd);
        }
        close(span, at_ns);
    }

    pub(super) fn compacted(&mut self, at_ns: i64, fact: &Compacted) {
        self.root.events.push(SpanEvent {
            name: "loopdeck.compacted".to_owned(),
            at_ns,
            attributes: Map::from_iter([
                ("turn".to_owned(), json!(fact.turn)),
                ("strategy".to_owned(), json!(fact.strategy)),
                ("trigger".to_owned(), json!(fact.trigger)),
                ("before_tokens".to_owned(), json!(fact.before_tokens)),
                ("after_tokens".to_owned(), json!(fact.after_tokens)),
            ]),
        });
    }
}
