//! `/runs/{id}`: why this run ended, and what it did turn by turn.
//!
//! Place in the flow: the page behind every link of an alert. Identical turns in a row are one row with a count:
//! forty equal rows hide the one that matters.

mod asking;
mod row;

use super::fit::{Fit, fit, weight};
use super::spell::{self, path_segment};
use super::{Foot, PageError};
use crate::asked::Asked;
use crate::column;
use crate::server::Server;
use crate::watch::evidence;
use askama::Template;
use asking::QuestionView;
use row::{CallRow, TurnLine, TurnRow};
use serde::Deserialize;
use serde_json::Value;
use trace::question;

/// Rows of turns, calls and messages read at most: a page is for people.
const ROWS: usize = 2000;
/// Messages read at most.
const MESSAGES: usize = 200;
/// Bytes of turns and of messages on the page; with the rest they stay below 100 KB.
const TURN_BYTES: usize = 40_000;
const MESSAGE_BYTES: usize = 30_000;
/// Characters of task and answer.
const TEXT: usize = 1500;

/// Who looks at the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Viewer<'a> {
    /// Whether the browser is the owner's.
    pub(super) is_owner: bool,
    /// The name to begin a decision with.
    pub(super) user: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "run.html")]
struct Run {
    run_id: String,
    sign: &'static str,
    verdict: String,
    detail: String,
    next: String,
    question: Option<QuestionView>,
    unread: String,
    facts: Vec<(&'static str, String)>,
    replay_of: Option<(String, String)>,
    task: String,
    answer: String,
    turns: Fit<TurnLine>,
    messages: Fit<MessageLine>,
    truncated: bool,
    foot: Foot,
}

struct MessageLine {
    turn: String,
    role: String,
    content: String,
    cut: bool,
}

#[derive(Deserialize)]
struct RunRow {
    run_id: String,
    trace_id: Option<String>,
    agent: Option<String>,
    service: Option<String>,
    model: Option<String>,
    started_at: Option<String>,
    duration_ms: Option<f64>,
    status: Option<String>,
    stop_reason: Option<String>,
    stop_evidence: Option<Value>,
    #[serde(deserialize_with = "column::whole")]
    turns: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    max_turns: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    tool_calls: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    tool_errors: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    repeated_calls: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    output_tokens: Option<u64>,
    cost_usd: Option<f64>,
    source: Option<String>,
    source_dialect: Option<String>,
    replay_of: Option<String>,
    task: Option<String>,
    answer: Option<String>,
}

#[derive(Deserialize)]
struct MessageRow {
    #[serde(deserialize_with = "column::whole")]
    turn: Option<u32>,
    role: Option<String>,
    content: Option<String>,
    length: Option<usize>,
}

/// The page of the one run that the name means, for this viewer. Blocks.
pub(super) fn render(
    server: &Server,
    name: &str,
    viewer: Viewer<'_>,
    now_ns: i64,
) -> Result<String, PageError> {
    let run_id = question::one_run(name, &server.store.ask(&question::find_run(name))?)?;
    let rows: Vec<RunRow> = server.store.ask(&question::run(&run_id))?.read()?;
    let Some(row) = rows.into_iter().next() else {
        return question::one_run(name, &trace::store::Table::default())
            .map(|_| String::new())
            .map_err(Into::into);
    };
    let params = [Value::from(run_id.as_str())];
    let turns: Vec<TurnRow> = server.store.ask(&question::turns(&run_id))?.read()?;
    let calls = server.ask(include_str!("../../sql/run_calls.sql"), &params, ROWS)?;
    let messages = server.ask(include_str!("../../sql/run_messages.sql"), &params, MESSAGES)?;
    let truncated = calls.truncated || messages.truncated;
    let calls: Vec<CallRow> = calls.read()?;
    let messages: Vec<MessageRow> = messages.read()?;
    let lines = row::lines(turns, calls);
    let evidence = evidence(row.stop_evidence.clone());
    let (question, unread) = match waits(&row).then(|| Asked::of_run(&server.home, &run_id)) {
        Some(Ok(Some(asked))) => (Some(asking::view(&row.run_id, &asked, viewer, now_ns)), String::new()),
        Some(Err(why)) => (None, why.to_string()),
        Some(Ok(None)) | None => (None, String::new()),
    };
    let page = Run {
        sign: spell::sign(row.status.as_deref().unwrap_or_default()),
        verdict: verdict(&row),
        detail: evidence.as_ref().map_or_else(|| repeats(&lines), |evidence| evidence.detail.clone()),
        next: evidence.and_then(|evidence| evidence.next_safe_action).unwrap_or_default(),
        question,
        unread,
        facts: facts(&row),
        replay_of: row.replay_of.clone().map(|id| (format!("/runs/{}", path_segment(&id)), id)),
        task: row.task.as_deref().map(|text| spell::cut(text, TEXT)).unwrap_or_default(),
        answer: row.answer.as_deref().map(|text| spell::cut(text, TEXT)).unwrap_or_default(),
        turns: fit(lines, TurnLine::weight, TURN_BYTES),
        messages: fit(
            messages.into_iter().map(MessageRow::line).collect(),
            MessageLine::weight,
            MESSAGE_BYTES,
        ),
        truncated,
        run_id: row.run_id,
        foot: Foot::of(server, now_ns),
    };
    Ok(page.render()?)
}

/// Whether a tape of ours may hold a question.
fn waits(row: &RunRow) -> bool {
    row.source.as_deref() == Some("tape") && row.status.as_deref() == Some("paused")
}

/// One line: the state, the reason, the turns.
fn verdict(row: &RunRow) -> String {
    let status = row.status.as_deref().unwrap_or("state unknown");
    let reason = row.stop_reason.as_deref().filter(|reason| *reason != status);
    let turns = spell::count(row.turns);
    let of = row.max_turns.map_or_else(String::new, |max| format!(" of {max}"));
    match reason {
        Some(reason) => format!("{status}: {reason}, {turns}{of} turns"),
        None => format!("{status}, {turns}{of} turns"),
    }
}

/// What the turns themselves show, where nobody left evidence.
fn repeats(lines: &[TurnLine]) -> String {
    let Some(longest) = lines.iter().filter(|line| line.times > 1).max_by_key(|line| line.times) else {
        return String::new();
    };
    let names: Vec<&str> = longest.calls.iter().map(|call| call.tool_name.as_str()).collect();
    format!(
        "turns {}: {} ×{} with the same arguments and result",
        longest.turns,
        names.join(", "),
        longest.times
    )
}

fn facts(row: &RunRow) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| spell::text(text.as_deref());
    let calls = format!(
        "{} ({} failed, {} repeated)",
        spell::count(row.tool_calls),
        spell::count(row.tool_errors),
        spell::count(row.repeated_calls)
    );
    vec![
        ("agent", text(&row.agent)),
        ("service", text(&row.service)),
        ("model", text(&row.model)),
        ("started at", text(&row.started_at)),
        ("duration", spell::duration(row.duration_ms)),
        ("tool calls", calls),
        ("input tokens", spell::count(row.input_tokens)),
        ("output tokens", spell::count(row.output_tokens)),
        ("cost", spell::dollars(row.cost_usd)),
        ("trace", text(&row.trace_id)),
        ("source", format!("{} / {}", text(&row.source), text(&row.source_dialect))),
    ]
}

impl MessageLine {
    fn weight(&self) -> usize {
        const FRAME: usize = 120;
        FRAME + weight(&self.role) + weight(&self.content)
    }
}

impl MessageRow {
    fn line(self) -> MessageLine {
        let content = self.content.unwrap_or_default();
        MessageLine {
            turn: self.turn.map_or_else(|| spell::UNKNOWN.to_owned(), |turn| turn.to_string()),
            role: spell::text(self.role.as_deref()),
            cut: self.length.unwrap_or(0) > content.chars().count(),
            content,
        }
    }
}
