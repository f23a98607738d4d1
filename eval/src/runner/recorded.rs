//! Stored runs as subjects: an eval that calls no model, needs no key and costs nothing.
//!
//! Place in the flow: rows -> **subject** -> score. A run belongs to the case that its `task_id` names, or to a case
//! of its own where it has none; the runs of a case are its repeats, by their `trial`.

use super::{Execute, Infrastructure, Trial};
use crate::case::Case;
use crate::subject::{Subject, ToolCall};
use crate::suite::Suite;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use trace::id::{CallKey, Hash, RunId};
use trace::outcome::{RunStatus, StopReason, ToolStatus};
use trace::reader::{Reader, ReaderError};
use trace::store::TableError;

/// The most stored runs that one eval judges.
pub const MAX_RUNS: usize = 20_000;
/// The most tool calls of these runs.
pub const MAX_CALLS: usize = 2_000_000;

const RUNS_SQL: &str = include_str!("../../sql/recorded_runs.sql");
const CALLS_SQL: &str = include_str!("../../sql/recorded_calls.sql");
/// The line of both statements where the suite's condition goes.
const CONDITION: &str = "    true\n";

/// Stored runs, grouped into cases and repeats.
#[derive(Debug, Default)]
pub struct Recorded {
    runs: BTreeMap<String, BTreeMap<u32, Subject>>,
    /// The cases in the order of the rows.
    order: Vec<String>,
}

/// Why stored runs cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The question got no answer.
    #[error("the stored runs cannot be read: {0}; check `recorded.where`, a condition on the view `runs`")]
    Query(#[from] ReaderError),
    /// There are more than can be held.
    #[error("the condition finds more than {most} {what}; make `recorded.where` narrower")]
    TooMany {
        /// The limit.
        most: usize,
        /// Of what.
        what: &'static str,
    },
    /// A row is not of the form that this program reads.
    #[error("{0}; the database may be of another version")]
    Row(#[from] TableError),
}

/// A row of `recorded_runs.sql`.
#[derive(Debug, Clone, Deserialize)]
struct RunRow {
    run_id: String,
    task_id: Option<String>,
    trial: Option<u32>,
    status: Option<String>,
    stop_reason: Option<String>,
    answer: Option<String>,
    turns: Option<u64>,
    duration_ms: Option<f64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_usd: Option<f64>,
    reward: Option<f64>,
}

/// A row of `recorded_calls.sql`.
#[derive(Debug, Clone, Deserialize)]
struct CallRow {
    run_id: String,
    turn: Option<i64>,
    call_index: Option<i64>,
    tool_name: Option<String>,
    arguments: Option<String>,
    status: Option<String>,
    args_hash: Option<Hash>,
    result_hash: Option<Hash>,
}

impl Recorded {
    /// Reads the runs that meet a SQL condition on the view `runs`.
    ///
    /// # Errors
    /// Where the question is not answered, too many rows meet the condition, or a row has another form.
    pub async fn read(condition: &str, reader: &Reader) -> Result<Self, RecordedError> {
        let runs: Vec<RunRow> = rows("runs", MAX_RUNS, &with_condition(RUNS_SQL, condition), reader).await?;
        let calls = rows("tool calls", MAX_CALLS, &with_condition(CALLS_SQL, condition), reader).await?;
        Ok(Self::from_rows(runs, calls))
    }

    fn from_rows(mut runs: Vec<RunRow>, mut calls: Vec<CallRow>) -> Self {
        calls.sort_by(|a, b| (&a.run_id, a.turn, a.call_index).cmp(&(&b.run_id, b.turn, b.call_index)));
        let mut calls_of: HashMap<String, Vec<ToolCall>> = HashMap::new();
        for call in calls {
            calls_of.entry(call.run_id.clone()).or_default().push(call.tool_call());
        }
        runs.sort_by_key(|run| run.sort_key());
        let mut tasks: BTreeMap<String, Vec<RunRow>> = BTreeMap::new();
        let mut order = Vec::new();
        for run in runs {
            let task = run.task_id.clone().unwrap_or_else(|| run.run_id.clone());
            if !tasks.contains_key(&task) {
                order.push(task.clone());
            }
            tasks.entry(task).or_default().push(run);
        }
        let mut numbered = |runs: Vec<RunRow>| {
            let repeats = repeats(&runs);
            let subjects = runs.into_iter().map(|run| {
                let tool_calls = calls_of.remove(&run.run_id).unwrap_or_default();
                run.subject(tool_calls)
            });
            repeats.into_iter().zip(subjects.collect::<Vec<_>>()).collect()
        };
        let runs = tasks.into_iter().map(|(task, runs)| (task, numbered(runs))).collect();
        Self { runs, order }
    }

    /// How many runs there are.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.values().map(BTreeMap::len).sum()
    }
}

/// The statement for this condition, which keeps its own lines: so a comment at its end hides nothing.
fn with_condition(sql: &str, condition: &str) -> String {
    sql.replacen(CONDITION, &format!("{condition}\n"), 1)
}

async fn rows<T: DeserializeOwned>(
    what: &'static str,
    most: usize,
    sql: &str,
    reader: &Reader,
) -> Result<Vec<T>, RecordedError> {
    let table = reader.query(sql, &[], most).await?;
    match table.truncated {
        true => Err(RecordedError::TooMany { most, what }),
        false => Ok(table.read()?),
    }
}

/// The repeat of each run of a task: its trial where every run has one of its own, else its place.
fn repeats(runs: &[RunRow]) -> Vec<u32> {
    let trials: BTreeSet<u32> = runs.iter().filter_map(|run| run.trial).collect();
    match trials.len() == runs.len() {
        true => runs.iter().filter_map(|run| run.trial).collect(),
        false => (0..).take(runs.len()).collect(),
    }
}

impl RunRow {
    /// Orders runs by task (numbers by value), then trial, then id.
    fn sort_key(&self) -> (Option<u64>, Option<String>, Option<u32>, String) {
        let number = self.task_id.as_deref().and_then(|task| task.parse().ok());
        (number, self.task_id.clone(), self.trial, self.run_id.clone())
    }

    fn subject(self, tool_calls: Vec<ToolCall>) -> Subject {
        let stop_reason =
            self.stop_reason.as_deref().and_then(StopReason::from_word).unwrap_or(StopReason::Unknown);
        let status =
            self.status.as_deref().and_then(RunStatus::from_word).unwrap_or_else(|| stop_reason.status());
        Subject {
            run_id: RunId::new(self.run_id),
            answer: self.answer,
            stop_reason,
            status,
            tool_calls,
            turns: self.turns,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cost_usd: self.cost_usd,
            latency_ms: self.duration_ms,
            reward: self.reward,
        }
    }
}

impl CallRow {
    fn tool_call(self) -> ToolCall {
        ToolCall {
            tool_name: self.tool_name.unwrap_or_default(),
            arguments: self.arguments,
            status: self.status.as_deref().and_then(ToolStatus::from_word),
            key: CallKey { turn: place(self.turn), index: place(self.call_index) },
            args_hash: self.args_hash,
            result_hash: self.result_hash,
        }
    }
}

/// A place in a run; 0 where the source does not tell it.
fn place(number: Option<i64>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

impl Execute for Recorded {
    /// Every stored run of the suite's cases; of all tasks where the suite has no cases. A case without a stored
    /// run keeps one trial, which will be an ERROR: what is missing is never passed over.
    fn trials(&self, suite: &Suite) -> Vec<Trial> {
        let cases: Vec<Arc<Case>> = match suite.cases.is_empty() {
            true => self.order.iter().map(|task| Arc::new(Case::named(task))).collect(),
            false => suite.cases.iter().cloned().map(Arc::new).collect(),
        };
        let trials_of = |case: Arc<Case>| {
            let stored = self.runs.get(&case.id).map(|runs| runs.keys().copied().collect());
            let repeats: Vec<u32> = stored.unwrap_or_else(|| vec![0]);
            repeats.into_iter().map(move |repeat| Trial { case: Arc::clone(&case), repeat })
        };
        cases.into_iter().flat_map(trials_of).collect()
    }

    fn execute<'a>(&'a self, case: &'a Case, repeat: u32) -> BoxFuture<'a, Result<Subject, Infrastructure>> {
        let found = self.runs.get(&case.id).and_then(|runs| runs.get(&repeat)).cloned();
        let missing = || Infrastructure::new(format!("no stored run has the task id `{}`", case.id));
        Box::pin(std::future::ready(found.ok_or_else(missing)))
    }

    fn notes(&self, suite: &Suite) -> Vec<String> {
        if suite.cases.is_empty() {
            return Vec::new();
        }
        let known: BTreeSet<&str> = suite.cases.iter().map(|case| case.id.as_str()).collect();
        let others = self.runs.iter().filter(|(task, _)| !known.contains(task.as_str()));
        match others.map(|(_, runs)| runs.len()).sum::<usize>() {
            0 => Vec::new(),
            left => vec![format!("{left} of {} stored runs belong to no case of the suite", self.runs())],
        }
    }
}

#[cfg(test)]
mod tests;
