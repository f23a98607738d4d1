//! The schedule of the rules: every second, over the runs that changed.
//!
//! Place in the flow: row -> rule -> **watch** -> alert -> ops log. The rules are those of the loop
//! (`trace::rule`); this room only gives them rows and a clock. State is in the ops log, so a restart forgets
//! nothing; a change that cannot be appended now is kept and appended later.

mod seen;

use crate::alert::{Alert, Board, Problem};
use crate::clock;
use crate::server::{Server, blocking};
use seen::SeenRun;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::id::RunId;
use trace::ops::{AlertChange, AlertState, Op};
use trace::outcome::{Evidence, ToolStatus};
use trace::rule::error_rate::{self, CallCounts};
use trace::rule::{self};
use trace::store::{QueryError, Store, TableError};

const ROUND: Duration = Duration::from_secs(1);
/// Runs looked at in one step, which bounds memory.
const RUNS_A_STEP: usize = 200;
/// Rows of one answer; more than any step can have calls for.
const ROWS: usize = 1_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The rules could not be evaluated this time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The index did not answer.
    #[error("the index did not answer the rules: {0}")]
    Query(#[from] QueryError),
    /// Its answer is not what the rules read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The thread that did it died.
    #[error("the thread of the rules died: {0}")]
    Thread(#[from] std::io::Error),
}

/// How far the rules have looked, and what the ops log has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    row_id: Option<i64>,
    unsaved: Vec<AlertChange>,
}

/// Evaluates until it is stopped, between two rounds.
pub(crate) async fn evaluate(server: Arc<Server>, stop: CancellationToken) {
    let mut watch = Watch::default();
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let working = Arc::clone(&server);
        let mut taken = std::mem::take(&mut watch);
        let done = blocking(move || {
            let outcome = taken.round(&working, clock::now_ns());
            Ok::<_, WatchError>((taken, outcome))
        })
        .await;
        let outcome = done.and_then(|(returned, outcome)| {
            watch = returned;
            outcome
        });
        if let Err(why) = outcome {
            server.counters.evaluation_failures.add(1);
            tracing::error!(%why, "the rules were not evaluated");
        }
    }
}

impl Watch {
    /// Evaluates all rules once. Blocks.
    pub(crate) fn round(&mut self, server: &Server, now_ns: i64) -> Result<(), WatchError> {
        let looked = self.look(server, now_ns);
        let resolve_after_ns = nanos(server.settings.alerts.resolve_after_s);
        self.unsaved.extend(server.board().settle(resolve_after_ns, now_ns));
        self.save(server);
        looked?;
        server.counters.evaluated_at.set(now_ns);
        Ok(())
    }

    fn look(&mut self, server: &Server, now_ns: i64) -> Result<(), WatchError> {
        let mut after = match self.row_id {
            Some(row_id) => row_id,
            None => first_place(server, now_ns)?,
        };
        loop {
            let changed: Vec<ChangedRun> =
                server.ask(include_str!("../sql/changed_runs.sql"), &[after.into()], RUNS_A_STEP)?.read()?;
            let Some(last) = changed.last() else { break };
            after = last.last_row_id;
            let ids: Vec<&str> = changed.iter().map(|one| one.run_id.as_str()).collect();
            for run in seen::runs(server, &ids)? {
                self.judge(server, &run, now_ns);
            }
            self.row_id = Some(after);
        }
        self.row_id = Some(after);
        self.rates(server, now_ns)
    }

    fn judge(&mut self, server: &Server, run: &SeenRun, now_ns: i64) {
        let rules = server.settings.rules(run.agent());
        for finding in rule::of_run(&run.seen(), &rules) {
            let problem = Problem::of(&finding, run.agent());
            let change = server.board().see(problem, run.run_id(), finding.evidence, now_ns);
            self.unsaved.extend(change);
        }
    }

    fn rates(&mut self, server: &Server, now_ns: i64) -> Result<(), WatchError> {
        let settings = &server.settings.alerts.error_rate;
        let from_us = (now_ns - nanos(settings.window_s)) / 1000;
        let rows: Vec<WindowCalls> =
            server.ask(include_str!("../sql/window_calls.sql"), &[from_us.into()], ROWS)?.read()?;
        let mut board = server.board();
        let high = by_tool(&rows).into_iter().filter_map(|(tool_name, counts)| {
            let mut problem = Problem {
                rule: error_rate::RULE.to_owned(),
                agent: None,
                tool_name: Some(tool_name.to_owned()),
                args_hash: None,
            };
            let finding = error_rate::find(Some(tool_name), counts, board.is_firing(&problem), settings)?;
            problem.tool_name = finding.tool_name;
            Some((problem, finding.evidence))
        });
        let high: Vec<_> = high.collect();
        self.unsaved.extend(board.measure(high, now_ns));
        Ok(())
    }

    /// Appends the changes in order; from the first that cannot be appended on, they wait.
    fn save(&mut self, server: &Server) {
        while let Some(change) = self.unsaved.first() {
            if let Err(why) = server.ops.append(&Op::AlertChange(Box::new(change.clone()))) {
                tracing::error!(%why, "an alert's change waits to be appended");
                return;
            }
            self.unsaved.remove(0);
        }
    }
}

#[derive(Deserialize)]
struct ChangedRun {
    run_id: String,
    last_row_id: i64,
}

#[derive(Deserialize)]
struct WindowCalls {
    tool_name: String,
    status: String,
    calls: u64,
}

#[derive(Deserialize)]
struct Remembered {
    rule: String,
    state: AlertState,
    agent: Option<String>,
    tool_name: Option<String>,
    args_hash: Option<String>,
    runs: Option<Vec<RunId>>,
    evidence: Option<Value>,
    fired_at_us: i64,
    resolved_at_us: Option<i64>,
    changed_at_us: i64,
}

fn by_tool(rows: &[WindowCalls]) -> BTreeMap<&str, CallCounts> {
    let mut tools: BTreeMap<&str, CallCounts> = BTreeMap::new();
    for row in rows {
        let counts = tools.entry(&row.tool_name).or_default();
        counts.calls += row.calls;
        if ToolStatus::from_word(&row.status).is_some_and(error_rate::is_failure) {
            counts.errors += row.calls;
        }
    }
    tools
}

/// Where the first look begins: what happened within the time in which an alert would still hold.
fn first_place(server: &Server, now_ns: i64) -> Result<i64, WatchError> {
    let from_us = (now_ns - nanos(server.settings.alerts.resolve_after_s)) / 1000;
    let table = server.ask(include_str!("../sql/recent_place.sql"), &[from_us.into()], 1)?;
    Ok(table.column("row_id").next().and_then(Value::as_i64).unwrap_or(-1))
}

/// The alerts as the ops log remembers them.
pub(crate) fn board(store: &Store) -> Result<Board, String> {
    let table =
        store.query(include_str!("../sql/alert_board.sql"), &[], ROWS).map_err(|why| why.to_string())?;
    let rows: Vec<Remembered> = table.read().map_err(|why| why.to_string())?;
    Ok(Board::new(rows.into_iter().map(Remembered::alert)))
}

impl Remembered {
    fn alert(self) -> Alert {
        let problem = Problem {
            rule: self.rule,
            agent: self.agent,
            tool_name: self.tool_name,
            args_hash: self.args_hash,
        };
        let times = [self.fired_at_us * 1000, self.changed_at_us * 1000];
        let evidence = evidence(self.evidence);
        let resolved_at_ns = self.resolved_at_us.map(|at| at * 1000);
        Alert::remembered(problem, self.state, evidence, self.runs.unwrap_or_default(), times, resolved_at_ns)
    }
}

/// Evidence from a column, whether it holds JSON or the text of it.
pub(crate) fn evidence(value: Option<Value>) -> Option<Evidence> {
    match value? {
        Value::String(text) => serde_json::from_str(&text).ok(),
        value => serde_json::from_value(value).ok(),
    }
}

fn nanos(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX / SECOND_NS).saturating_mul(SECOND_NS)
}

/// Run ids as the one parameter that the queries take.
fn list(run_ids: &[&str]) -> [Value; 1] {
    [Value::String(json!(run_ids).to_string())]
}
