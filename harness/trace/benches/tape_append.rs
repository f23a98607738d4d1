//! What a tape costs: facts and blobs a second, with and without a sync each turn, and how its size grows.
//!
//! A turn here is three blobs (what the model said, the result, the body) and three facts (a pause stands for each:
//! the smallest there is). `sync` waits for the disk once a turn and measures the disk. Before the figures a table
//! is printed of the bytes a turn takes, open and sealed, at 20, 200 and 2000 turns: equal figures mean that storage
//! is linear in turns.
//!
//! `cargo bench -p trace --bench tape_append -- --quick`

#![expect(clippy::expect_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "the table of sizes is what people read")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::fact::{Fact, Waited};
use trace::id::RunId;
use trace::redact::Redactor;
use trace::tape::{Recorder, TapeWriter};

const TURNS: u32 = 200;
const IN_A_TURN: u64 = 3;

fn writer(folder: &Path, redactor: &Arc<Redactor>) -> TapeWriter {
    TapeWriter::create(folder, &RunId::new("bench"), 1, redactor.clone()).expect("a tape")
}

fn fact(turn: u32, attempt: u32) -> Fact {
    Fact::Waited(Waited { turn, attempt, ms: 250 })
}

/// About a kilobyte that differs from turn to turn, as a tool's answer does.
fn content(turn: u32, part: u64) -> String {
    let row = |number: u32| {
        format!("{{\"flight\":\"HAT{:03}\",\"price\":{}}},", number * 7 % 997, turn * 31 + number)
    };
    format!("{part}:{}", (0..30).map(row).collect::<String>())
}

fn facts(tape: &mut TapeWriter, sync: bool) {
    for turn in 1..=TURNS {
        for attempt in 1..=3 {
            tape.record(i64::from(turn), &fact(turn, attempt)).expect("written");
        }
        if sync {
            tape.sync().expect("synced");
        }
    }
}

/// Each with the fact that names it: they go to disk together.
fn blobs(tape: &mut TapeWriter) {
    for turn in 1..=TURNS {
        for part in 0..IN_A_TURN {
            tape.blob(content(turn, part).as_bytes()).expect("written");
            tape.record(i64::from(turn), &fact(turn, 1)).expect("written");
        }
    }
}

/// Bytes of a tape of this many turns: open, then sealed.
fn sizes(turns: u32, redactor: &Arc<Redactor>) -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut tape = writer(folder.path(), redactor);
    for turn in 1..=turns {
        for part in 0..IN_A_TURN {
            tape.blob(content(turn, part).as_bytes()).expect("written");
            tape.record(i64::from(turn), &fact(turn, 1)).expect("written");
        }
    }
    let bytes = |path: PathBuf| fs::metadata(path).expect("a tape").len();
    let open = bytes(tape.path().to_owned());
    (open, bytes(tape.seal().expect("sealed")))
}

fn tape_append(criterion: &mut Criterion) {
    let redactor = Arc::new(Redactor::new([7; 32]).expect("patterns"));
    println!("turns  bytes a turn  sealed bytes a turn");
    for turns in [20, 200, 2000] {
        let (open, sealed) = sizes(turns, &redactor);
        println!("{turns:5}  {:12}  {:19}", open / u64::from(turns), sealed / u64::from(turns));
    }
    let mut group = criterion.benchmark_group("tape_append");
    group.throughput(Throughput::Elements(u64::from(TURNS) * IN_A_TURN)).sample_size(10);
    let empty = || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tape = writer(folder.path(), &redactor);
        (folder, tape)
    };
    for (name, sync) in [("facts", false), ("facts_sync_each_turn", true)] {
        group.bench_function(name, |bencher| {
            let write = |(folder, mut tape)| {
                facts(&mut tape, sync);
                (folder, tape)
            };
            bencher.iter_batched(empty, write, BatchSize::PerIteration);
        });
    }
    group.bench_function("blobs", |bencher| {
        let write = |(folder, mut tape)| {
            blobs(&mut tape);
            (folder, tape)
        };
        bencher.iter_batched(empty, write, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, tape_append);
criterion_main!(benches);
