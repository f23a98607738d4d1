//! What the rules see of a run, from its rows.

use crate::id::{CallKey, Hash, RunId, SpanId};
use crate::outcome::{Evidence, RunStatus, StopReason, ToolStatus};
use crate::rule::{CallSeen, RunSeen};
use crate::store::{Table, TableError};
use serde::Deserialize;

/// One run as rules see it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunActivity {
    /// The run.
    pub run_id: RunId,
    /// The agent's name, if the source tells it.
    pub agent: Option<String>,
    /// The service, if the source tells it.
    pub service: Option<String>,
    /// Its state; `None` where nobody tells how it ended.
    pub status: Option<RunStatus>,
    /// Why it ended; `None` while it goes on.
    pub stop_reason: Option<StopReason>,
    /// What our loop said about the stop.
    pub stop_evidence: Option<Evidence>,
    /// Model turns so far.
    pub turns: u32,
    /// Its turn budget, if it has one.
    pub max_turns: Option<u32>,
    /// Tokens so far, as far as told.
    pub tokens: Option<u64>,
    /// Its token budget, if it has one.
    pub max_tokens: Option<u64>,
    /// Its tool calls, in order.
    pub calls: Vec<CallSeen>,
}

impl RunActivity {
    /// The run in the form that [`crate::rule::of_run`] takes.
    #[must_use]
    pub fn seen(&self) -> RunSeen<'_> {
        // A run that ended without telling how has a reason, `unknown`; one that goes on has none.
        let untold = self.stop_reason.map_or(RunStatus::Running, StopReason::status);
        RunSeen {
            run_id: &self.run_id,
            agent: self.agent.as_deref(),
            status: self.status.unwrap_or(untold),
            stop_reason: self.stop_reason,
            stop_evidence: self.stop_evidence.as_ref(),
            turns: self.turns,
            max_turns: self.max_turns,
            tokens: self.tokens,
            max_tokens: self.max_tokens,
            calls: &self.calls,
        }
    }
}

#[derive(Deserialize)]
struct Row {
    run_id: RunId,
    agent: Option<String>,
    service: Option<String>,
    status: Option<String>,
    stop_reason: Option<String>,
    stop_evidence: Option<String>,
    turns: u64,
    max_turns: Option<i64>,
    tokens: Option<u64>,
    max_tokens: Option<i64>,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    turn: i64,
    call_index: i64,
    span_id: SpanId,
    tool_name: Option<String>,
    args_hash: Option<String>,
    result_hash: Option<String>,
    status: Option<String>,
    tokens: Option<u64>,
}

/// The answer to [`super::run_activity`], read. Words that are none of ours count as not told.
///
/// # Errors
/// When the table is not such an answer.
pub fn activities(answer: &Table) -> Result<Vec<RunActivity>, TableError> {
    Ok(answer.read::<Row>()?.into_iter().map(activity).collect())
}

fn activity(row: Row) -> RunActivity {
    RunActivity {
        run_id: row.run_id,
        agent: row.agent,
        service: row.service,
        status: row.status.as_deref().and_then(RunStatus::from_word),
        stop_reason: row.stop_reason.as_deref().and_then(StopReason::from_word),
        stop_evidence: row.stop_evidence.and_then(|text| serde_json::from_str(&text).ok()),
        turns: u32::try_from(row.turns).unwrap_or(u32::MAX),
        max_turns: row.max_turns.and_then(|limit| u32::try_from(limit).ok()),
        tokens: row.tokens,
        max_tokens: row.max_tokens.and_then(|limit| u64::try_from(limit).ok()),
        calls: row.calls.into_iter().map(call).collect(),
    }
}

fn call(row: Call) -> CallSeen {
    let hash = |text: Option<String>| text.and_then(|text| text.parse::<Hash>().ok());
    let place = |number: i64| u32::try_from(number).unwrap_or_default();
    CallSeen {
        key: CallKey { turn: place(row.turn), index: place(row.call_index) },
        // Arguments that nobody recorded are equal to no others.
        args_hash: hash(row.args_hash).unwrap_or_else(|| Hash::of(row.span_id.bytes())),
        span: row.span_id,
        tool_name: row.tool_name.unwrap_or_else(|| "unknown".to_owned()),
        result_hash: hash(row.result_hash),
        status: row.status.as_deref().and_then(ToolStatus::from_word).unwrap_or(ToolStatus::UnknownOutcome),
        tokens: row.tokens,
    }
}
