//! The run's own span: who it is, where it may go, how it ended.
//!
//! Place in the flow: part of tape -> spans.

use super::{INTERNAL, close, fail, number, set, set_some};
use crate::attribute as name;
use crate::attribute::operation;
use crate::fact::{Resumed, RunStarted};
use crate::id::RunId;
use crate::outcome::{Outcome, RunStatus};
use crate::span::{Span, SpanStatus};
use serde_json::{Map, json};
use std::collections::BTreeMap;

pub(super) fn root(started: &RunStarted, at_ns: i64) -> Span {
    let mut resource = Map::new();
    resource.insert(
        name::SERVICE_NAME.to_owned(),
        json!(started.service.clone().unwrap_or_else(|| name::SCOPE.to_owned())),
    );
    let mut insert = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            resource.insert(key.to_owned(), json!(value));
        }
    };
    insert(name::ENVIRONMENT, &started.environment);
    insert(name::SERVICE_VERSION, &started.release);
    let mut span = Span {
        trace_id: started.trace_id,
        span_id: started.run_id.span(operation::INVOKE_AGENT, 0, 0),
        parent_span_id: started.parent_span_id,
        name: format!("{} {}", operation::INVOKE_AGENT, started.agent),
        kind: INTERNAL,
        started_at_ns: Some(at_ns),
        ended_at_ns: None,
        open: true,
        status: SpanStatus::default(),
        attributes: Map::new(),
        events: Vec::new(),
        links: Vec::new(),
        resource,
        scope: name::SCOPE.to_owned(),
        scope_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    describe(&mut span, started);
    span
}

fn describe(span: &mut Span, started: &RunStarted) {
    set(span, name::OPERATION_NAME, operation::INVOKE_AGENT);
    set(span, name::AGENT_NAME, started.agent.as_str());
    set(span, name::REQUEST_MODEL, started.model.as_str());
    set(span, name::RUN_ID, started.run_id.as_str());
    set(span, name::RUN_SOURCE, "tape");
    set(span, name::RUN_STATUS, RunStatus::Running.as_str());
    set(span, name::RUN_TASK, started.task.as_str());
    set(span, name::RUN_PROMPT_HASH, started.prompt_hash.to_string());
    set_some(span, name::PARENT_RUN_ID, started.parent_run_id.as_ref().map(RunId::as_str));
    set_some(span, name::PROMPT_NAME, started.prompt_name.as_deref());
    set_some(span, name::PROMPT_VERSION, started.prompt_version.as_deref());
    set_some(span, name::CONVERSATION_ID, started.session_id.as_deref());
    set_some(span, name::SESSION_ID, started.session_id.as_deref());
    set_some(span, name::USER_ID, started.user_id.as_deref());
    set_some(span, name::RUN_TASK_ID, started.task_id.as_deref());
    set_some(span, name::RUN_TRIAL, started.trial);
    set_some(span, name::REPLAY_OF, started.replay_of.as_ref().map(RunId::as_str));
    set_some(span, name::REPLAY_MODE, started.replay_mode.as_deref());
    if !started.tags.is_empty() {
        set(span, name::RUN_TAGS, json!(started.tags));
    }
    limits(span, &started.limits);
}

fn limits(span: &mut Span, limits: &BTreeMap<String, f64>) {
    for (limit, value) in limits {
        set(span, &format!("{}{limit}.limit", name::BUDGET_PREFIX), number(*value));
    }
}

/// A run that goes on has not ended, whatever was said before.
pub(super) fn reopen(root: &mut Span, resumed: &Resumed) {
    root.open = true;
    root.ended_at_ns = None;
    root.status = SpanStatus::default();
    for ended in [
        name::ERROR_TYPE,
        name::STOP_REASON,
        name::STOP_TRIGGER,
        name::STOP_ALIASES,
        name::STOP_EVIDENCE,
        name::RUN_ANSWER,
    ] {
        root.attributes.remove(ended);
    }
    set(root, name::RUN_STATUS, RunStatus::Running.as_str());
    limits(root, &resumed.limits);
}

pub(super) fn end(root: &mut Span, at_ns: i64, outcome: &Outcome) {
    close(root, at_ns);
    set(root, name::RUN_STATUS, outcome.status.as_str());
    set(root, name::RUN_TURNS, outcome.turns);
    set(root, name::STOP_REASON, outcome.stop_reason.as_str());
    set(root, name::STOP_TRIGGER, outcome.trigger.as_str());
    let aliases: Vec<&str> = outcome.stop_reason.aliases().collect();
    if !aliases.is_empty() {
        set(root, name::STOP_ALIASES, json!(aliases));
    }
    set(root, name::STOP_EVIDENCE, serde_json::to_string(&outcome.evidence).unwrap_or_default());
    set_some(root, name::RUN_ANSWER, outcome.answer.as_deref());
    match outcome.status {
        RunStatus::Completed | RunStatus::Paused | RunStatus::Running => {}
        RunStatus::Stopped | RunStatus::Failed | RunStatus::Aborted => {
            fail(root, outcome.stop_reason.as_str(), &outcome.evidence.detail);
        }
    }
}
