//! `/metrics`: the index and the server's own counters in Prometheus' text format.
//!
//! Place in the flow: row and counter -> **metric** -> somebody's Prometheus. Label values come from spans that
//! anybody may send, so they are escaped.

use crate::clock;
use crate::column;
use crate::counter::Counters;
use crate::server::Server;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trace::store::{QueryError, TableError};

/// More series than this are not told: label values come from outside.
const SERIES: usize = 2000;

/// The index did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricError {
    /// It refused.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Its answer is not what is read here.
    #[error(transparent)]
    Table(#[from] TableError),
}

#[derive(Deserialize)]
struct Runs {
    status: String,
    stop_reason: String,
    runs: u64,
    #[serde(deserialize_with = "column::whole")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Tools {
    tool_name: String,
    status: String,
    calls: u64,
}

/// The whole text. Blocks.
pub(crate) fn text(server: &Server, now_ns: i64) -> Result<String, MetricError> {
    let runs: Vec<Runs> = server.ask(include_str!("../sql/metric_runs.sql"), &[], SERIES)?.read()?;
    let tools: Vec<Tools> = server.ask(include_str!("../sql/metric_tools.sql"), &[], SERIES)?.read()?;
    let mut out = String::new();
    of_runs(&mut out, &runs);
    let rows =
        tools.iter().map(|one| (vec![("tool_name", &*one.tool_name), ("status", &*one.status)], one.calls));
    family(&mut out, "loopdeck_tool_calls", "gauge", "Tool calls in the index, by how they ended.", rows);
    of_alerts(&mut out, server);
    of_server(&mut out, &server.counters, now_ns);
    Ok(out)
}

fn of_runs(out: &mut String, runs: &[Runs]) {
    let rows =
        runs.iter().map(|one| (vec![("status", &*one.status), ("stop_reason", &*one.stop_reason)], one.runs));
    family(out, "loopdeck_runs", "gauge", "Runs in the index, by how they ended.", rows);
    let sum = |pick: fn(&Runs) -> Option<u64>| runs.iter().filter_map(pick).sum();
    let tokens = [("input", sum(|one| one.input_tokens)), ("output", sum(|one| one.output_tokens))];
    let rows = tokens.into_iter().map(|(kind, count)| (vec![("kind", kind)], count));
    family(out, "loopdeck_tokens", "gauge", "Tokens of the runs in the index, as far as told.", rows);
}

fn of_alerts(out: &mut String, server: &Server) {
    let mut firing: BTreeMap<&str, u64> = trace::rule::NAMES.iter().map(|rule| (*rule, 0)).collect();
    let board = server.board();
    for alert in board.alerts().filter(|alert| alert.is_firing()) {
        *firing.entry(&alert.problem.rule).or_default() += 1;
    }
    let rows = firing.iter().map(|(rule, count)| (vec![("rule", *rule)], *count));
    family(out, "loopdeck_alerts_firing", "gauge", "Alerts that fire now.", rows);
}

fn of_server(out: &mut String, counters: &Counters, now_ns: i64) {
    let requests = [
        ("accepted", &counters.requests_accepted),
        ("refused", &counters.requests_refused),
        ("deferred", &counters.requests_deferred),
    ];
    let rows = requests.into_iter().map(|(result, counter)| (vec![("result", result)], counter.get()));
    family(out, "loopdeck_otlp_requests_total", "counter", "OTLP requests by what became of them.", rows);
    let spans = [("accepted", &counters.spans_accepted), ("rejected", &counters.spans_rejected)];
    let rows = spans.into_iter().map(|(result, counter)| (vec![("result", result)], counter.get()));
    family(out, "loopdeck_otlp_spans_total", "counter", "Spans received by OTLP.", rows);
    for (name, help, value) in [
        ("loopdeck_spans_indexed_total", "Spans that the index has taken.", &counters.spans_indexed),
        (
            "loopdeck_index_failures_total",
            "Times that the index could not catch up.",
            &counters.index_failures,
        ),
        ("loopdeck_evaluation_failures_total", "Times that the rules failed.", &counters.evaluation_failures),
        ("loopdeck_deliveries_total", "Notifications that a webhook took.", &counters.deliveries),
        ("loopdeck_delivery_failures_total", "Notifications to be sent again.", &counters.delivery_failures),
    ] {
        family(out, name, "counter", help, [(Vec::new(), value.get())]);
    }
    let pending = counters.deliveries_pending.get();
    family(out, "loopdeck_deliveries_pending", "gauge", "Notifications that wait.", [(Vec::new(), pending)]);
    let lag_ms = u64::try_from(counters.lag_ms(now_ns)).unwrap_or(0);
    family(out, "loopdeck_ingest_lag_ms", "gauge", "Age of what is not indexed yet.", [(Vec::new(), lag_ms)]);
    if let Some(at_ns) = counters.evaluated_at.get() {
        let seconds = u64::try_from(at_ns / 1_000_000_000).unwrap_or(0);
        let help = "When the rules were last evaluated, in seconds since 1970.";
        family(out, "loopdeck_last_evaluation_timestamp_seconds", "gauge", help, [(Vec::new(), seconds)]);
    }
}

fn family<'a>(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    rows: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, u64)>,
) {
    // Writing into a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in rows {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let _ = match labels.is_empty() {
            true => writeln!(out, "{name} {value}"),
            false => writeln!(out, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Whether the server is fit to be used, and if not why: the index keeps up and the rules run.
pub(crate) fn readiness(counters: &Counters, now_ns: i64) -> Result<(), String> {
    const STALE_NS: i64 = 30_000_000_000;
    for (what, at) in [
        ("the index was last up to date", &counters.indexed_at),
        ("the rules last ran", &counters.evaluated_at),
    ] {
        match at.get() {
            Some(at_ns) if now_ns - at_ns < STALE_NS => {}
            Some(at_ns) => return Err(format!("{what} at {}", clock::spelled(at_ns))),
            None => return Err(format!("{what}: not yet")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_label_stays_inside_its_quotes() {
        let mut out = String::new();
        family(&mut out, "m", "gauge", "h", [(vec![("tool_name", "a\"} 9\n# \\")], 1)]);
        insta::assert_snapshot!(out, @r##"
        # HELP m h
        # TYPE m gauge
        m{tool_name="a\"} 9\n# \\"} 1
        "##);
    }
}
