//! The questions this program asks of its index, each one `sql/question/NAME.sql` of the same name.
//!
//! Place in the flow: row -> **question** -> page, command or rule. A question is plain data: [`crate::store`]
//! answers it in this process, [`crate::reader`] also over HTTP. Instants are nanoseconds since 1970.

mod activity;
mod find;

pub use activity::{RunActivity, activities};
pub use find::{FindError, one_run};

use crate::id::RunId;
use serde_json::{Value, json};

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The statement.
    pub sql: &'static str,
    /// Its parameters, `$1` first.
    pub params: Vec<Value>,
    /// How many rows at most come back.
    pub limit: usize,
}

/// Rows that a question about one run brings at most: beyond it the answer says that it is truncated.
const RUN_ROWS: usize = 100_000;

/// Which runs are meant; an absent field admits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// In this state.
    pub status: Option<String>,
    /// Stopped for this reason.
    pub stop_reason: Option<String>,
    /// From this source: `run`, `record`, `otlp`, `import`.
    pub source: Option<String>,
    /// Of this case.
    pub task_id: Option<String>,
    /// Started since then.
    pub since_ns: Option<i64>,
}

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../sql/question/", $name, ".sql"))
    };
}

/// The newest runs: rows of the view `runs`.
#[must_use]
pub fn latest_runs(limit: usize, filter: &RunFilter) -> Question {
    let params = vec![
        json!(filter.agent),
        json!(filter.status),
        json!(filter.stop_reason),
        json!(filter.source),
        json!(filter.task_id),
        micros(filter.since_ns),
    ];
    Question { sql: sql!("latest_runs"), params, limit }
}

/// The runs that a text can mean: an id, a trace id, a session id, `latest` or the start of an id. Read the answer
/// with [`one_run`].
#[must_use]
pub fn find_run(text: &str) -> Question {
    Question { sql: sql!("find_run"), params: vec![json!(text)], limit: 10 }
}

/// One run: its row of the view `runs`.
#[must_use]
pub fn run(run_id: &RunId) -> Question {
    of_run(sql!("run"), run_id)
}

/// The runs that a run started as parts of itself, in order of time:
/// `run_id, agent, stop_reason, turns, tool_calls, input_tokens, output_tokens, cost_usd`.
#[must_use]
pub fn children(run_id: &RunId) -> Question {
    of_run(sql!("children"), run_id)
}

/// The turns of a run, in order.
#[must_use]
pub fn turns(run_id: &RunId) -> Question {
    of_run(sql!("turns"), run_id)
}

/// The tool calls of a run, in order.
#[must_use]
pub fn tool_calls(run_id: &RunId) -> Question {
    of_run(sql!("tool_calls"), run_id)
}

/// The model calls of a run, in order.
#[must_use]
pub fn model_calls(run_id: &RunId) -> Question {
    of_run(sql!("model_calls"), run_id)
}

/// The conversation of a run, in order.
#[must_use]
pub fn messages(run_id: &RunId) -> Question {
    of_run(sql!("messages"), run_id)
}

/// The spans of a run, in order of time.
#[must_use]
pub fn spans(run_id: &RunId) -> Question {
    of_run(sql!("spans"), run_id)
}

/// The scores of a run.
#[must_use]
pub fn run_scores(run_id: &RunId) -> Question {
    of_run(sql!("run_scores"), run_id)
}

/// What people said about a run.
#[must_use]
pub fn annotations(run_id: &RunId) -> Question {
    of_run(sql!("annotations"), run_id)
}

/// How many runs ended for which reason: `stop_reason, status, runs, tokens, cost_usd`.
#[must_use]
pub fn stop_reasons(since_ns: Option<i64>) -> Question {
    Question { sql: sql!("stop_reasons"), params: vec![micros(since_ns)], limit: 1000 }
}

/// The alerts that hold now: rows of the view `alerts`.
#[must_use]
pub fn firing_alerts() -> Question {
    Question { sql: sql!("firing_alerts"), params: Vec::new(), limit: 1000 }
}

/// The alerts that hold now or ended since then: rows of the view `alerts`.
#[must_use]
pub fn alert_history(since_ns: Option<i64>) -> Question {
    Question { sql: sql!("alert_history"), params: vec![micros(since_ns)], limit: 1000 }
}

/// Silences that hold at an instant.
#[must_use]
pub fn active_silences(now_ns: i64) -> Question {
    Question { sql: sql!("active_silences"), params: vec![micros(Some(now_ns))], limit: 1000 }
}

/// Calls, errors and latency of each tool:
/// `tool_name, calls, errors, denied, error_rate, p50_latency_ms, p95_latency_ms, runs`.
#[must_use]
pub fn tool_stats(since_ns: Option<i64>) -> Question {
    Question { sql: sql!("tool_stats"), params: vec![micros(since_ns)], limit: 10_000 }
}

/// What rules need of each run that was active since then. Read the answer with [`activities`].
#[must_use]
pub fn run_activity(since_ns: Option<i64>) -> Question {
    Question { sql: sql!("run_activity"), params: vec![micros(since_ns)], limit: 10_000 }
}

/// Scores of a suite, of an eval, or of both: rows of the view `scores`.
#[must_use]
pub fn scores(suite: Option<&str>, eval_id: Option<&str>) -> Question {
    Question { sql: sql!("scores"), params: vec![json!(suite), json!(eval_id)], limit: 1_000_000 }
}

fn of_run(sql: &'static str, run_id: &RunId) -> Question {
    Question { sql, params: vec![json!(run_id)], limit: RUN_ROWS }
}

fn micros(ns: Option<i64>) -> Value {
    json!(ns.map(|ns| ns.div_euclid(1000)))
}

/// Every question, with parameters that some row could answer: what the tests run.
#[cfg(test)]
pub(crate) fn all() -> Vec<(&'static str, Question)> {
    let run_id = RunId::new("0");
    vec![
        ("latest_runs", latest_runs(5, &RunFilter { agent: Some("a".to_owned()), ..RunFilter::default() })),
        ("find_run", find_run("latest")),
        ("run", run(&run_id)),
        ("children", children(&run_id)),
        ("turns", turns(&run_id)),
        ("tool_calls", tool_calls(&run_id)),
        ("model_calls", model_calls(&run_id)),
        ("messages", messages(&run_id)),
        ("spans", spans(&run_id)),
        ("run_scores", run_scores(&run_id)),
        ("annotations", annotations(&run_id)),
        ("stop_reasons", stop_reasons(Some(1))),
        ("firing_alerts", firing_alerts()),
        ("alert_history", alert_history(Some(1))),
        ("active_silences", active_silences(1)),
        ("tool_stats", tool_stats(None)),
        ("run_activity", run_activity(Some(1))),
        ("scores", scores(Some("s"), None)),
    ]
}
