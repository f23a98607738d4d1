//! A conversation as spans: the agent, one chat span an assistant message, one tool span a result.

use super::ImportedRun;
use super::chat::{Chat, ChatCall, ChatMessage, TAU_BENCH_MAX_TURNS};
use crate::attribute::{self as name, operation};
use crate::dialect::{IMPORT_SCOPE, Said, conversation};
use crate::id::{CallKey, Hash, RunId, SpanId, TraceId};
use crate::ops::Score;
use crate::outcome::{Evidence, StopReason, ToolStatus};
use crate::span::{Span, SpanStatus};
use serde_json::{Map, Value, json};

/// The run that a conversation is.
pub(super) fn run(chat: &Chat<'_>, content: Hash, repeat: u64) -> ImportedRun {
    let id = Hash::of(format!("{}\u{0}{content}\u{0}{repeat}", chat.source).as_bytes());
    let mut trace = [0; 16];
    trace.copy_from_slice(&id.bytes()[16..]);
    let run_id = RunId::new(id.short());
    let mut builder = Builder { chat, run_id: &run_id, trace_id: TraceId::new(trace), spans: Vec::new() };
    builder.walk();
    ImportedRun { spans: builder.spans, scores: scores(chat, &run_id), source: chat.source, run_id }
}

struct Builder<'a> {
    chat: &'a Chat<'a>,
    run_id: &'a RunId,
    trace_id: TraceId,
    spans: Vec<Span>,
}

/// A call that has no result yet.
struct Open<'a> {
    key: CallKey,
    call: &'a ChatCall<'a>,
}

impl<'a> Builder<'a> {
    fn walk(&mut self) {
        let chat = self.chat;
        let (mut turn, mut told) = (0_u32, 0_usize);
        let mut open: Vec<Open<'a>> = Vec::new();
        for (position, message) in chat.messages.iter().enumerate() {
            match message.role {
                "assistant" => {
                    turn += 1;
                    self.chat_span(turn, told, position);
                    told = position + 1;
                    let calls = (0..).zip(&message.calls);
                    open.extend(calls.map(|(index, call)| Open { key: CallKey { turn, index }, call }));
                }
                "tool" | "function" => {
                    // Ids are used again for other calls: the nearest open call with the id is the one answered.
                    if let Some(place) = open.iter().rposition(|one| answers(message, one.call)) {
                        let one = open.remove(place);
                        self.tool_span(one.key, one.call, Some(&message.text));
                    }
                }
                _ => {}
            }
        }
        for one in open {
            self.tool_span(one.key, one.call, None);
        }
        self.agent_span(turn, told);
    }

    fn span(&self, what: &str, key: CallKey, attributes: Map<String, Value>) -> Span {
        let is_root = what == operation::INVOKE_AGENT;
        let mut span = Span {
            trace_id: self.trace_id,
            span_id: self.run_id.span(what, key.turn, key.index),
            parent_span_id: (!is_root).then(|| self.root()),
            name: what.to_owned(),
            kind: 1,
            started_at_ns: None,
            ended_at_ns: None,
            open: false,
            status: SpanStatus::default(),
            attributes,
            events: Vec::new(),
            links: Vec::new(),
            resource: Map::new(),
            scope: format!("{IMPORT_SCOPE}{}", self.chat.source),
            scope_version: String::new(),
        };
        span.attributes.insert(name::OPERATION_NAME.to_owned(), what.into());
        span.attributes.insert(name::RUN_ID.to_owned(), self.run_id.as_str().into());
        if !is_root {
            span.attributes.insert(name::TURN_INDEX.to_owned(), key.turn.into());
        }
        span
    }

    fn root(&self) -> SpanId {
        self.run_id.span(operation::INVOKE_AGENT, 0, 0)
    }

    /// What is new since the last call goes in, the message itself comes out.
    fn chat_span(&mut self, turn: u32, told: usize, position: usize) {
        let mut attributes = self.said(told, position);
        attributes.insert(name::OUTPUT_MESSAGES.to_owned(), values(&self.chat.messages[position..=position]));
        if let Some(model) = self.chat.model {
            attributes.insert(name::REQUEST_MODEL.to_owned(), model.into());
        }
        let span = self.span(operation::CHAT, CallKey { turn, index: 0 }, attributes);
        self.spans.push(span);
    }

    fn tool_span(&mut self, key: CallKey, call: &ChatCall<'_>, result: Option<&str>) {
        let status = match result {
            None => ToolStatus::UnknownOutcome,
            Some(text) if is_error(text) => ToolStatus::Error,
            Some(_) => ToolStatus::Ok,
        };
        let attributes = filled([
            (name::TOOL_NAME, call.tool_name.into()),
            (name::TOOL_CALL_ID, call.id.into()),
            (name::TOOL_ARGUMENTS, call.arguments.as_str().into()),
            (name::TOOL_RESULT, json!(result)),
            (name::TOOL_STATUS, status.as_str().into()),
            (name::CALL_INDEX, key.index.into()),
        ]);
        let span = self.span(operation::EXECUTE_TOOL, key, attributes);
        self.spans.push(span);
    }

    /// The agent's span says how it ended, and carries what was said after the last call.
    fn agent_span(&mut self, turns: u32, told: usize) {
        let chat = self.chat;
        let stop = chat.stop_reason;
        let text_of =
            |role: &str| chat.messages.iter().find(|one| one.role == role).map(|one| one.text.as_str());
        let answer = chat.messages.iter().rfind(|one| one.role == "assistant" && !one.text.is_empty());
        let mut attributes = filled([
            (name::STOP_REASON, stop.as_str().into()),
            (
                name::RUN_STATUS,
                if stop == StopReason::Unknown { Value::Null } else { stop.status().as_str().into() },
            ),
            (name::STOP_EVIDENCE, evidence(chat, turns)),
            (name::RUN_TASK, json!(text_of("user"))),
            (name::RUN_ANSWER, json!(answer.map(|one| one.text.as_str()))),
            (name::RUN_TASK_ID, json!(chat.task_id)),
            (name::RUN_TRIAL, json!(chat.trial)),
            (name::RUN_SOURCE, "import".into()),
            (name::RUN_TURNS, turns.into()),
        ]);
        attributes.extend(self.said(told, chat.messages.len()));
        let span = self.span(operation::INVOKE_AGENT, CallKey { turn: 0, index: 0 }, attributes);
        self.spans.push(span);
    }

    fn said(&self, from: usize, to: usize) -> Map<String, Value> {
        filled([
            (name::FIRST_POSITION, from.into()),
            (name::INPUT_MESSAGES, values(&self.chat.messages[from..to])),
        ])
    }
}

fn answers(message: &ChatMessage<'_>, call: &ChatCall<'_>) -> bool {
    match message.value.get("tool_call_id").and_then(Value::as_str) {
        Some(id) => id == call.id,
        None => message.value.get("name").is_some_and(|tool| tool == call.tool_name),
    }
}

/// Files keep no status of a tool call: a result that begins so is an error, in any case of letters.
fn is_error(result: &str) -> bool {
    result.trim_start().get(..5).is_some_and(|head| head.eq_ignore_ascii_case("error"))
}

fn values(messages: &[ChatMessage<'_>]) -> Value {
    messages
        .iter()
        .flat_map(|message| conversation(message.value))
        .map(|said: Said| said.to_value())
        .collect()
}

fn evidence(chat: &Chat<'_>, turns: u32) -> Value {
    if chat.stop_reason != StopReason::MaxTurns {
        return Value::Null;
    }
    #[expect(clippy::cast_precision_loss, reason = "thirty")]
    let evidence = Evidence {
        rule: "max_turns".to_owned(),
        detail: format!(
            "{turns} assistant messages and no end: cut off at {TAU_BENCH_MAX_TURNS}, as tau-bench does"
        ),
        threshold: Some(TAU_BENCH_MAX_TURNS as f64),
        observed: Some(f64::from(turns)),
        spans: Vec::new(),
        tokens_wasted: None,
        next_safe_action: Some("read the last turns, then run the case again with a larger limit".to_owned()),
        resumable: false,
    };
    serde_json::to_string(&evidence).map_or(Value::Null, Value::String)
}

fn filled<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn scores(chat: &Chat<'_>, run_id: &RunId) -> Vec<Score> {
    let Some(reward) = chat.reward else { return Vec::new() };
    // A reward of 1 is what the benchmark counts as solved; its check allows for rounding in the same way.
    let solved = (reward - 1.0).abs() <= 1e-6;
    vec![Score {
        run_id: run_id.clone(),
        suite: if chat.source == "tau_bench" { "tau-bench" } else { chat.source }.to_owned(),
        case_id: chat.task_id.clone().unwrap_or_else(|| run_id.to_string()),
        repeat: chat.trial.unwrap_or(0),
        scorer: "reward".to_owned(),
        value: Some(reward),
        verdict: if solved { "pass" } else { "fail" }.to_owned(),
        label: None,
        reason: None,
        eval_id: None,
        at_ns: None,
    }]
}
