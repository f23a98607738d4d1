//! Rows -> what the rules look at.
//!
//! Place in the flow: the schedule asks for the runs that changed; the loop builds the same from its own facts.

use super::{ROWS, WatchError, evidence, list};
use crate::column;
use crate::server::Server;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use trace::id::{CallKey, Hash, RunId, SpanId};
use trace::outcome::{Evidence, RunStatus, StopReason, ToolStatus};
use trace::rule::{CallSeen, RunSeen};

/// A stored run as the rules see it.
#[derive(Debug)]
pub(super) struct SeenRun {
    row: RunRow,
    run_id: RunId,
    stop_evidence: Option<Evidence>,
    calls: Vec<CallSeen>,
}

#[derive(Debug, Deserialize)]
struct RunRow {
    run_id: String,
    agent: Option<String>,
    status: Option<String>,
    stop_reason: Option<String>,
    stop_evidence: Option<Value>,
    #[serde(deserialize_with = "column::whole")]
    turns: Option<u32>,
    #[serde(deserialize_with = "column::whole")]
    max_turns: Option<u32>,
    #[serde(deserialize_with = "column::whole")]
    tokens: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    max_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CallRow {
    run_id: String,
    #[serde(deserialize_with = "column::whole")]
    turn: Option<u32>,
    #[serde(deserialize_with = "column::whole")]
    call_index: Option<u32>,
    span_id: SpanId,
    tool_name: Option<String>,
    #[serde(deserialize_with = "column::parsed")]
    args_hash: Option<Hash>,
    #[serde(deserialize_with = "column::parsed")]
    result_hash: Option<Hash>,
    status: Option<String>,
    #[serde(deserialize_with = "column::whole")]
    tokens: Option<u64>,
}

/// These runs, with their calls in order.
pub(super) fn runs(server: &Server, run_ids: &[&str]) -> Result<Vec<SeenRun>, WatchError> {
    let rows: Vec<RunRow> =
        server.ask(include_str!("../../sql/seen_runs.sql"), &list(run_ids), ROWS)?.read()?;
    let calls: Vec<CallRow> =
        server.ask(include_str!("../../sql/seen_calls.sql"), &list(run_ids), ROWS)?.read()?;
    let mut by_run: HashMap<String, Vec<CallSeen>> = HashMap::new();
    for call in calls {
        if let Some((run_id, seen)) = call.seen() {
            by_run.entry(run_id).or_default().push(seen);
        }
    }
    Ok(rows
        .into_iter()
        .map(|row| SeenRun {
            run_id: RunId::new(row.run_id.as_str()),
            stop_evidence: evidence(row.stop_evidence.clone()),
            calls: by_run.remove(&row.run_id).unwrap_or_default(),
            row,
        })
        .collect())
}

impl CallRow {
    /// A call without a tool's name cannot be too often anything; one without arguments is like no other.
    fn seen(self) -> Option<(String, CallSeen)> {
        let args_known = self.args_hash.is_some();
        let seen = CallSeen {
            key: CallKey { turn: self.turn.unwrap_or(0), index: self.call_index.unwrap_or(0) },
            span: self.span_id,
            tool_name: self.tool_name?,
            args_hash: self.args_hash.unwrap_or_else(|| Hash::of(self.span_id.bytes())),
            result_hash: self.result_hash.filter(|_| args_known),
            status: self
                .status
                .and_then(|word| ToolStatus::from_word(&word))
                .unwrap_or(ToolStatus::UnknownOutcome),
            tokens: self.tokens,
        };
        Some((self.run_id, seen))
    }
}

impl SeenRun {
    pub(super) fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub(super) fn agent(&self) -> Option<&str> {
        self.row.agent.as_deref()
    }

    pub(super) fn seen(&self) -> RunSeen<'_> {
        let row = &self.row;
        let word = |text: &Option<String>| text.as_deref().and_then(StopReason::from_word);
        let stop_reason = word(&row.stop_reason);
        RunSeen {
            run_id: &self.run_id,
            agent: self.agent(),
            status: row.status.as_deref().and_then(RunStatus::from_word).unwrap_or(RunStatus::Failed),
            stop_reason,
            stop_evidence: self.stop_evidence.as_ref(),
            turns: row.turns.unwrap_or(0),
            max_turns: row.max_turns,
            tokens: row.tokens,
            max_tokens: row.max_tokens,
            calls: &self.calls,
        }
    }
}
