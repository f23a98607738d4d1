//! Rows a second through the index (log -> row -> duplicate look-up -> append), against its parts alone: making
//! rows, writing the log, and DuckDB's bare Appender with the widest columns of the same rows.
//!
//! `cargo bench -p trace --bench row_append`

#![expect(clippy::expect_used, reason = "a bench that cannot set itself up has nothing to measure")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use std::hint::black_box;
use trace::home::Home;
use trace::id::{SpanId, TraceId};
use trace::inbox::{Body, Entry, Inbox};
use trace::row::{Origin, SpanRow, rows};
use trace::span::{Span, SpanStatus};
use trace::store::Store;

const SPANS: u64 = 10_000;
const SPANS_A_REQUEST: u64 = 100;

fn span(number: u64) -> Span {
    let attributes = json!({
        "gen_ai.operation.name": if number.is_multiple_of(2) { "chat" } else { "execute_tool" },
        "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 1200, "gen_ai.usage.output_tokens": 80,
        "gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": format!("{{\"query\":\"flights {number}\",\"limit\":10}}"),
        "gen_ai.tool.call.result": "x".repeat(300),
    });
    let mut trace = [1; 16];
    trace[..8].copy_from_slice(&(number / 10 + 1).to_be_bytes());
    let started = 1_700_000_000_000_000_000 + i64::try_from(number).unwrap_or(0) * 1_000_000;
    Span {
        trace_id: TraceId::new(trace),
        // Spread like the random ids of senders.
        span_id: SpanId::new((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()),
        parent_span_id: None,
        name: "span".to_owned(),
        kind: 1,
        started_at_ns: Some(started),
        ended_at_ns: Some(started + 500_000),
        open: false,
        status: SpanStatus::default(),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
        events: Vec::new(),
        links: Vec::new(),
        resource: serde_json::Map::new(),
        scope: "bench".to_owned(),
        scope_version: String::new(),
    }
}

fn filled() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = Home::open(folder.path().to_owned()).expect("a home");
    fill(&home);
    (folder, home)
}

fn fill(home: &Home) {
    let inbox = Inbox::new(home);
    for first in (0..SPANS).step_by(usize::try_from(SPANS_A_REQUEST).unwrap_or(1)) {
        let spans = (first..first + SPANS_A_REQUEST).map(span).collect();
        inbox.append(&Entry { at_ns: 1, body: Body::Otlp { spans } }).expect("room on the disk");
    }
}

/// The columns that make a row heavy, without schema, look-up, progress or messages.
fn bare_appender(rows: &[SpanRow]) -> duckdb::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    #[expect(
        clippy::disallowed_methods,
        reason = "the measure to hold the index against, on a file of its own"
    )]
    let connection = duckdb::Connection::open(folder.path().join("bare.duckdb"))?;
    connection.execute_batch(
        "CREATE TABLE bare (trace_id VARCHAR, span_id VARCHAR, run_id VARCHAR, name VARCHAR, operation VARCHAR, started BIGINT,
         model VARCHAR, input_tokens BIGINT, arguments VARCHAR, result VARCHAR, args_hash VARCHAR, attributes VARCHAR)",
    )?;
    let mut appender = connection.appender("bare")?;
    for row in rows {
        let said = &row.reading;
        appender.append_row(duckdb::params![
            row.trace_id,
            row.span_id,
            row.run_id,
            row.name,
            row.operation,
            row.started_at_ns,
            said.request_model,
            said.input_tokens,
            said.arguments,
            said.result,
            row.args_hash,
            row.attributes
        ])?;
    }
    appender.flush()?;
    drop(appender);
    Ok(folder)
}

fn row_append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row_append");
    group.throughput(Throughput::Elements(SPANS)).sample_size(10);
    group.bench_function("index", |bencher| {
        let opened = || {
            let (folder, home) = filled();
            let store = Store::open(&home).expect("a store");
            (folder, store)
        };
        bencher.iter_batched(
            opened,
            |(folder, store)| (store.catch_up().expect("indexed"), store, folder),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("rows_only", |bencher| {
        let spans: Vec<Span> = (0..SPANS).map(span).collect();
        bencher.iter(|| {
            spans.iter().map(|span| rows(black_box(span), Origin::Otlp).0.span_key).fold(0, |a, b| a ^ b)
        });
    });
    group.bench_function("bare_appender", |bencher| {
        let made: Vec<SpanRow> = (0..SPANS).map(|number| rows(&span(number), Origin::Otlp).0).collect();
        bencher.iter(|| bare_appender(black_box(&made)).expect("appended"));
    });
    group.bench_function("log_only", |bencher| {
        let empty = || tempfile::tempdir().expect("a temporary folder");
        bencher.iter_batched(
            empty,
            |folder| {
                fill(&Home::open(folder.path().to_owned()).expect("a home"));
                folder
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, row_append);
criterion_main!(benches);
