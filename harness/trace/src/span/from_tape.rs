//! Tape -> spans: `invoke_agent` over `turn` over `chat` and `execute_tool`, with the facts' own times.
//!
//! Place in the flow: fact -> tape -> **span** -> row. A pure fold: the same tape always gives the same spans, so
//! they can be derived again at any time. What has not ended yet is marked open.

mod context;
mod person;
mod root;
mod said;

use super::{Span, SpanEvent, SpanStatus};
use crate::attribute as name;
use crate::attribute::operation;
use crate::fact::{Fact, ModelAnswered, ModelAsked, RunStarted, ToolFinished, ToolStarted, Waited};
use crate::id::{CallKey, RunId, SpanId};
use crate::message::{Message, Part, Role, ToolResult, Usage};
use crate::outcome::ToolStatus;
use crate::tape::{Line, Tape};
use root::{end, reopen, root};
use said::messages_json;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;

/// The spans of a tape; none before its run has started.
#[must_use]
pub fn from_tape(tape: &Tape) -> Vec<Span> {
    let mut lines = tape.lines().iter();
    let first = lines.next();
    let Some(Line { at_ns, fact: Fact::RunStarted(started), .. }) = first else { return Vec::new() };
    let mut fold = Fold {
        tape,
        started,
        root: root(started, *at_ns),
        risks: risks(tape, started),
        turns: BTreeMap::new(),
        tools: BTreeMap::new(),
        summaries: Vec::new(),
        results: started.earlier.clone(),
        position: 0,
        last_at_ns: *at_ns,
    };
    for line in lines {
        fold.take(line);
    }
    fold.spans()
}

struct Fold<'a> {
    tape: &'a Tape,
    started: &'a RunStarted,
    root: Span,
    /// What each tool can do to the world, by its name.
    risks: BTreeMap<String, String>,
    turns: BTreeMap<u32, Turn>,
    tools: BTreeMap<CallKey, Span>,
    summaries: Vec<Span>,
    /// Results since the last request: they are among the next request's new messages.
    results: Vec<Message>,
    /// How many messages the conversation has.
    position: usize,
    last_at_ns: i64,
}

/// One turn while it is put together.
struct Turn {
    span: Span,
    chat: Span,
    attempts: u32,
    usage: Usage,
    tool_names: Vec<String>,
    arguments: Vec<String>,
    statuses: Vec<&'static str>,
    last_at_ns: i64,
}

impl Fold<'_> {
    fn run(&self) -> &RunId {
        &self.started.run_id
    }

    fn take(&mut self, line: &Line) {
        // A clock that was set back, or another machine's that is behind: no span ends before it begins.
        let at_ns = line.at_ns.max(self.last_at_ns);
        self.last_at_ns = at_ns;
        if let Some(turn) = line.fact.turn().and_then(|turn| self.turns.get_mut(&turn)) {
            turn.last_at_ns = at_ns;
        }
        match &line.fact {
            Fact::ModelAsked(fact) => self.asked(at_ns, fact),
            Fact::ModelAnswered(fact) => self.answered(at_ns, fact),
            Fact::ToolStarted(fact) => self.tool_started(at_ns, fact),
            Fact::ToolFinished(fact) => self.tool_finished(at_ns, fact),
            Fact::RunEnded(fact) => end(&mut self.root, at_ns, &fact.outcome),
            Fact::Resumed(fact) => reopen(&mut self.root, fact),
            Fact::Waited(fact) => self.waited(fact),
            Fact::SummaryAsked(fact) => self.summary_asked(at_ns, fact),
            Fact::SummaryAnswered(fact) => self.summary_answered(at_ns, fact),
            Fact::Compacted(fact) => self.compacted(at_ns, fact),
            Fact::PersonAsked(fact) => self.person_asked(at_ns, fact),
            Fact::PersonAnswered(fact) => self.person_answered(at_ns, fact),
            Fact::RunStarted(_) | Fact::Cancelled(_) => {}
        }
    }

    fn asked(&mut self, at_ns: i64, fact: &ModelAsked) {
        let mut new: Vec<Message> = self.results.drain(..).chain(fact.said.iter().cloned()).collect();
        let first_position = self.position;
        if first_position == 0 {
            // What was said before this run follows the instructions.
            new.sort_by_key(|message| message.role != Role::System);
        }
        self.position += new.len();
        if let Some(turn) = self.turns.get_mut(&fact.turn) {
            turn.attempts = fact.attempt;
            return;
        }
        let turn_id = self.run().span(operation::TURN, fact.turn, 0);
        let mut span = self.child(operation::TURN.to_owned(), turn_id, self.root.span_id, at_ns);
        set(&mut span, name::SPAN_KIND, operation::TURN);
        set(&mut span, name::TURN_INDEX, fact.turn);
        let chat_id = self.run().span(operation::CHAT, fact.turn, 0);
        let mut chat =
            self.child(format!("{} {}", operation::CHAT, self.started.model), chat_id, turn_id, at_ns);
        chat.kind = CLIENT;
        set(&mut chat, name::OPERATION_NAME, operation::CHAT);
        set(&mut chat, name::PROVIDER_NAME, self.started.provider.as_str());
        set(&mut chat, name::REQUEST_MODEL, self.started.model.as_str());
        set(&mut chat, name::TURN_INDEX, fact.turn);
        set(&mut chat, name::CONTEXT_HEAD, fact.head.to_string());
        set(&mut chat, name::FIRST_POSITION, first_position);
        set(&mut chat, name::INPUT_MESSAGES, messages_json(&new, None));
        if fact.stream {
            set(&mut chat, name::REQUEST_STREAM, true);
        }
        self.turns.insert(
            fact.turn,
            Turn {
                span,
                chat,
                attempts: fact.attempt,
                usage: Usage::default(),
                tool_names: Vec::new(),
                arguments: Vec::new(),
                statuses: Vec::new(),
                last_at_ns: at_ns,
            },
        );
    }

    fn answered(&mut self, at_ns: i64, fact: &ModelAnswered) {
        let Some(turn) = self.turns.get_mut(&fact.turn) else { return };
        let chat = &mut turn.chat;
        set(chat, name::MODEL_ATTEMPTS, turn.attempts);
        if let Some(fault) = &fact.fault {
            chat.events.push(SpanEvent {
                name: "loopdeck.attempt_failed".to_owned(),
                at_ns,
                attributes: Map::from_iter([
                    ("attempt".to_owned(), json!(fact.attempt)),
                    (name::ERROR_TYPE.to_owned(), json!(fault.class.as_str())),
                    ("message".to_owned(), json!(fault.message)),
                ]),
            });
            fail(chat, fault.class.as_str(), &fault.message);
        }
        close(chat, at_ns);
        let Some(response) = &fact.response else { return };
        // A retry that worked is no error of the call.
        chat.status = SpanStatus::default();
        chat.attributes.remove(name::ERROR_TYPE);
        turn.usage = response.usage;
        usage(chat, &response.usage);
        set_some(chat, name::RESPONSE_ID, response.response_id.as_deref());
        set_some(chat, name::RESPONSE_MODEL, response.response_model.as_deref());
        set_some(chat, name::COST_USD, fact.cost_usd);
        set_some(chat, name::TIME_TO_FIRST_CHUNK, fact.ttft_ms().map(|ms| ms / 1e3));
        let finish = response.finish_raw.clone().unwrap_or_default();
        set(chat, name::OUTPUT_MESSAGES, messages_json(&[response.message()], Some(&finish)));
        set(chat, name::FINISH_REASONS, json!([finish]));
        self.position += 1;
    }

    /// The attempt that failed before the pause tells how long it was.
    fn waited(&mut self, fact: &Waited) {
        let chat = self.turns.get_mut(&fact.turn).map(|turn| &mut turn.chat);
        if let Some(event) = chat.and_then(|chat| chat.events.last_mut()) {
            event.attributes.insert("delay_ms".to_owned(), json!(fact.ms));
        }
    }

    fn tool_started(&mut self, at_ns: i64, fact: &ToolStarted) {
        let id = self.run().span(operation::EXECUTE_TOOL, fact.key.turn, fact.key.index);
        let mut span = self.tool(fact.key, &fact.tool_name, &fact.call_id, id, at_ns);
        // What people were asked and said before stays with the call.
        span.events = self.tools.remove(&fact.key).map(|asked| asked.events).unwrap_or_default();
        self.tools.insert(fact.key, span);
    }

    fn tool(&self, key: CallKey, tool_name: &str, call_id: &str, id: SpanId, at_ns: i64) -> Span {
        let parent = self.run().span(operation::TURN, key.turn, 0);
        let mut span = self.child(format!("{} {tool_name}", operation::EXECUTE_TOOL), id, parent, at_ns);
        set(&mut span, name::OPERATION_NAME, operation::EXECUTE_TOOL);
        set(&mut span, name::TOOL_NAME, tool_name);
        set(&mut span, name::TOOL_TYPE, "function");
        set(&mut span, name::TOOL_CALL_ID, call_id);
        set(&mut span, name::AGENT_NAME, self.started.agent.as_str());
        set(&mut span, name::TURN_INDEX, key.turn);
        set(&mut span, name::CALL_INDEX, key.index);
        set_some(&mut span, name::TOOL_RISK, self.risks.get(tool_name).map(String::as_str));
        span
    }

    fn tool_finished(&mut self, at_ns: i64, fact: &ToolFinished) {
        let id = self.run().span(operation::EXECUTE_TOOL, fact.key.turn, fact.key.index);
        let ran = self.tools.remove(&fact.key);
        // Results of a stage are recorded in call order after the whole stage: the true end is the tool's own.
        let ended_at_ns = ran.as_ref().and_then(|span| span.started_at_ns).map_or(at_ns, |start| {
            start.saturating_add(i64::try_from(fact.latency_ns).unwrap_or(i64::MAX)).min(at_ns)
        });
        let mut span = ran.unwrap_or_else(|| self.tool(fact.key, &fact.tool_name, &fact.call_id, id, at_ns));
        let result = self.tape.text(&fact.result).unwrap_or_default();
        set(&mut span, name::TOOL_ARGUMENTS, fact.arguments.as_str());
        set(&mut span, name::TOOL_RESULT, result);
        set(&mut span, name::TOOL_STATUS, fact.status.as_str());
        set(&mut span, name::TOOL_ARGS_HASH, fact.args_hash.to_string());
        set(&mut span, name::TOOL_RESULT_HASH, fact.result_hash.to_string());
        set(&mut span, name::TOOL_ATTEMPTS, fact.attempts);
        set_some(&mut span, name::TOOL_ERROR_CLASS, fact.error_class.map(|class| class.as_str()));
        set_some(&mut span, name::TOOL_FAILURE_STAGE, fact.failure_stage.map(|stage| stage.as_str()));
        set_some(&mut span, name::TOOL_PERMISSION, fact.permission.as_deref());
        set_some(&mut span, name::TOOL_TRUNCATED, (fact.shown != fact.result).then_some(true));
        set_some(&mut span, name::CHILD_RUN_ID, fact.child.as_ref().map(|child| child.run_id.as_str()));
        set_some(
            &mut span,
            name::CHILD_STOP_REASON,
            fact.child.as_ref().map(|child| child.stop_reason.as_str()),
        );
        match fact.status {
            // A denial is a decision, not an error of the call.
            ToolStatus::Ok | ToolStatus::Denied => {}
            _ => fail(&mut span, fact.error_class.map_or(fact.status.as_str(), |class| class.as_str()), ""),
        }
        close(&mut span, ended_at_ns);
        self.tools.insert(fact.key, span);
        if let Some(turn) = self.turns.get_mut(&fact.key.turn) {
            turn.tool_names.push(fact.tool_name.clone());
            turn.arguments.push(fact.arguments.clone());
            turn.statuses.push(fact.status.as_str());
        }
        self.results.push(Message {
            role: Role::Tool,
            parts: vec![Part::ToolResult(ToolResult {
                call_id: fact.call_id.clone(),
                tool_name: fact.tool_name.clone(),
                content: fact.content.clone(),
                is_error: fact.status != ToolStatus::Ok,
            })],
        });
    }

    /// A span of this run that is still open.
    fn child(&self, span_name: String, span_id: SpanId, parent: SpanId, at_ns: i64) -> Span {
        let mut span = Span {
            span_id,
            parent_span_id: Some(parent),
            name: span_name,
            kind: INTERNAL,
            started_at_ns: Some(at_ns),
            ended_at_ns: None,
            open: true,
            status: SpanStatus::default(),
            attributes: Map::new(),
            events: Vec::new(),
            links: Vec::new(),
            ..self.root.clone()
        };
        set(&mut span, name::RUN_ID, self.run().as_str());
        span
    }

    fn spans(mut self) -> Vec<Span> {
        let (ended, last_at_ns) = (!self.root.open, self.last_at_ns);
        let last_turn = self.turns.keys().next_back().copied();
        let mut spans = vec![self.root];
        for (index, mut turn) in self.turns {
            if ended || last_turn != Some(index) {
                close(&mut turn.span, turn.last_at_ns);
            }
            if ended {
                lost(&mut turn.chat, turn.last_at_ns);
            }
            let span = &mut turn.span;
            set(span, name::TURN_TOOL_NAMES, json!(turn.tool_names));
            set(span, name::TURN_ARGUMENTS, json!(turn.arguments));
            set(span, name::TURN_TOOL_STATUSES, json!(turn.statuses));
            set_some(span, name::TURN_INPUT_TOKENS, turn.usage.input_tokens);
            set_some(span, name::TURN_OUTPUT_TOKENS, turn.usage.output_tokens);
            if let (Some(start), Some(end)) = (span.started_at_ns, span.ended_at_ns) {
                set(span, name::TURN_LATENCY_MS, (end - start) / 1_000_000);
            }
            spans.extend([turn.span, turn.chat]);
        }
        if ended {
            self.summaries.iter_mut().for_each(|summary| lost(summary, last_at_ns));
        }
        spans.extend(self.summaries);
        spans.extend(self.tools.into_values());
        spans
    }
}

fn risks(tape: &Tape, started: &RunStarted) -> BTreeMap<String, String> {
    let specs = tape.text(&started.tools).and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    let text = |spec: &Value, key: &str| Some(spec[key].as_str()?.to_owned());
    let risk = |spec: Value| Some((text(&spec, "name")?, text(&spec, "risk")?));
    specs.into_iter().flatten().filter_map(risk).collect()
}

fn close(span: &mut Span, at_ns: i64) {
    span.open = false;
    span.ended_at_ns = Some(at_ns);
}

/// Closes the span of a model call whose answer nobody heard, because the process died.
fn lost(span: &mut Span, at_ns: i64) {
    if span.open {
        fail(span, ToolStatus::UnknownOutcome.as_str(), "the process ended before an answer was recorded");
        close(span, at_ns);
    }
}

fn fail(span: &mut Span, error_type: &str, message: &str) {
    span.status = SpanStatus { code: 2, message: message.to_owned() };
    set(span, name::ERROR_TYPE, error_type);
}

fn set(span: &mut Span, key: &str, value: impl Into<Value>) {
    span.attributes.insert(key.to_owned(), value.into());
}

fn set_some(span: &mut Span, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        set(span, key, value);
    }
}

fn usage(span: &mut Span, usage: &Usage) {
    set_some(span, name::INPUT_TOKENS, usage.input_tokens);
    set_some(span, name::OUTPUT_TOKENS, usage.output_tokens);
    set_some(span, name::CACHE_READ_TOKENS, usage.cache_read_tokens);
    set_some(span, name::CACHE_WRITE_TOKENS, usage.cache_write_tokens);
    set_some(span, name::REASONING_TOKENS, usage.reasoning_tokens);
}

/// A limit as an integer where it is one.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "integral and small")]
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => json!(value as i64),
        false => json!(value),
    }
}
