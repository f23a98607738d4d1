//! `/`: what is wrong, in ten seconds.
//!
//! Place in the flow: the first page of whoever is on call: what fires, why runs end, which wait for a person, the
//! worst and the latest runs, the tools.

use super::spell::{self, path_segment};
use super::{Foot, PageError, alerts};
use crate::column;
use crate::server::Server;
use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use trace::question;

const WORST: usize = 10;
const LATEST: usize = 25;
const TOOLS: usize = 25;
const HOUR_US: i64 = 3_600_000_000;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    window: String,
    firing: Vec<alerts::AlertLine>,
    numbers: Vec<(&'static str, String)>,
    reasons: Vec<Reason>,
    waiting: Vec<RunLine>,
    worst: Vec<RunLine>,
    latest: Vec<RunLine>,
    tools: Vec<ToolLine>,
    foot: Foot,
}

struct Reason {
    name: String,
    runs: u64,
    percent: u64,
}

struct RunLine {
    href: String,
    run_id: String,
    agent: String,
    model: String,
    status: String,
    sign: &'static str,
    stop_reason: String,
    turns: String,
    calls: String,
    tokens: String,
    started_at: String,
    duration: String,
}

struct ToolLine {
    name: String,
    calls: u64,
    errors: String,
    p95: String,
    runs: u64,
}

/// The one row of `overview.sql`; a list without entries is absent.
#[derive(Default, Deserialize)]
struct Answer {
    numbers: Option<Numbers>,
    reasons: Option<Vec<ReasonRow>>,
    waiting: Option<Vec<RunRow>>,
    worst: Option<Vec<RunRow>>,
    latest: Option<Vec<RunRow>>,
}

#[derive(Deserialize)]
struct Numbers {
    runs: u64,
    completed: u64,
    running: u64,
    p95_ms: Option<f64>,
    #[serde(deserialize_with = "column::whole")]
    tokens: Option<u64>,
    cost_usd: Option<f64>,
    unpriced: u64,
}

#[derive(Deserialize)]
struct ReasonRow {
    stop_reason: Option<String>,
    status: Option<String>,
    runs: u64,
}

#[derive(Deserialize)]
struct RunRow {
    run_id: String,
    agent: Option<String>,
    model: Option<String>,
    status: Option<String>,
    stop_reason: Option<String>,
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
    started_at: Option<String>,
    duration_ms: Option<f64>,
    #[serde(deserialize_with = "column::whole")]
    tokens: Option<u64>,
}

#[derive(Deserialize)]
struct ToolRow {
    tool_name: Option<String>,
    calls: u64,
    errors: u64,
    error_rate: Option<f64>,
    p95_latency_ms: Option<f64>,
    runs: u64,
}

/// The page. Blocks.
pub(super) fn render(server: &Server, hours: Option<u32>, now_ns: i64) -> Result<String, PageError> {
    let since_us = hours.map(|hours| now_ns / 1000 - i64::from(hours) * HOUR_US);
    let params = [since_us.map_or(Value::Null, Value::from), WORST.into(), LATEST.into()];
    let answer: Vec<Answer> = server.ask(include_str!("../../sql/overview.sql"), &params, 1)?.read()?;
    let Answer { numbers, reasons, waiting, worst, latest } = answer.into_iter().next().unwrap_or_default();
    let since_ns = since_us.map(|us| us * 1000);
    let tools: Vec<ToolRow> = server.store.ask(&question::tool_stats(since_ns))?.read()?;
    let page = Overview {
        window: hours.map_or_else(|| "all runs".to_owned(), |hours| format!("runs of the last {hours} h")),
        firing: alerts::lines(server, now_ns).into_iter().filter(|line| line.is_firing).collect(),
        numbers: numbers.as_ref().map(figures).unwrap_or_default(),
        reasons: shares(reasons.unwrap_or_default()),
        waiting: waiting.into_iter().flatten().map(RunRow::line).collect(),
        worst: worst.into_iter().flatten().map(RunRow::line).collect(),
        latest: latest.into_iter().flatten().map(RunRow::line).collect(),
        tools: tools.into_iter().take(TOOLS).map(ToolRow::line).collect(),
        foot: Foot::of(server, now_ns),
    };
    Ok(page.render()?)
}

fn figures(numbers: &Numbers) -> Vec<(&'static str, String)> {
    let ended = numbers.runs - numbers.running;
    let undone = ended.saturating_sub(numbers.completed);
    let priced = numbers.runs > numbers.unpriced;
    vec![
        ("runs", spell::count(Some(numbers.runs))),
        ("running", spell::count(Some(numbers.running))),
        ("ended without success", format!("{undone} of {ended}")),
        ("p95 run time", spell::duration(numbers.p95_ms)),
        ("tokens", spell::count(numbers.tokens)),
        (
            "cost",
            format!(
                "{} ({} unpriced)",
                spell::dollars(numbers.cost_usd.filter(|_| priced)),
                numbers.unpriced
            ),
        ),
    ]
}

/// One line a reason: a run that still goes on has none.
fn shares(rows: Vec<ReasonRow>) -> Vec<Reason> {
    let all: u64 = rows.iter().map(|row| row.runs).sum();
    let mut reasons: Vec<Reason> = Vec::new();
    for row in rows {
        let name = row.stop_reason.or(row.status).unwrap_or_else(|| "unknown".to_owned());
        match reasons.iter_mut().find(|reason| reason.name == name) {
            Some(reason) => reason.runs += row.runs,
            None => reasons.push(Reason { name, runs: row.runs, percent: 0 }),
        }
    }
    reasons.iter_mut().for_each(|reason| reason.percent = (reason.runs * 100).div_ceil(all.max(1)));
    reasons.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.name.cmp(&b.name)));
    reasons
}

impl RunRow {
    fn line(self) -> RunLine {
        let status = self.status.unwrap_or_default();
        let turns = spell::count(self.turns);
        let errors = self.tool_errors.filter(|errors| *errors > 0).map(|errors| format!(", {errors} failed"));
        let repeats =
            self.repeated_calls.filter(|repeats| *repeats > 0).map(|repeats| format!(", {repeats} repeated"));
        RunLine {
            href: format!("/runs/{}", path_segment(&self.run_id)),
            run_id: spell::cut(&self.run_id, 16),
            agent: spell::text(self.agent.as_deref()),
            model: spell::text(self.model.as_deref()),
            sign: spell::sign(&status),
            status: spell::text(Some(&status)),
            stop_reason: spell::text(self.stop_reason.as_deref()),
            turns: self.max_turns.map_or(turns.clone(), |max| format!("{turns}/{max}")),
            calls: format!(
                "{}{}{}",
                spell::count(self.tool_calls),
                errors.unwrap_or_default(),
                repeats.unwrap_or_default()
            ),
            tokens: spell::count(self.tokens),
            started_at: self.started_at.map_or_else(|| spell::UNKNOWN.to_owned(), |at| spell::cut(&at, 19)),
            duration: spell::duration(self.duration_ms),
        }
    }
}

impl ToolRow {
    fn line(self) -> ToolLine {
        ToolLine {
            name: spell::cut(&spell::text(self.tool_name.as_deref()), 80),
            calls: self.calls,
            errors: format!("{} ({})", self.errors, spell::percent(self.error_rate)),
            p95: spell::duration(self.p95_latency_ms),
            runs: self.runs,
        }
    }
}
