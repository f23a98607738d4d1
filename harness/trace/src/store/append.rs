//! Writing a batch: duplicates are looked up, the rest is appended, all in one transaction.

mod values;

use super::StoreError;
use super::index::{Indexed, Unreadable};
use super::progress::{Mark, Progress};
use super::writer::Writer;
use crate::id::Hash;
use crate::ops::{AlertChange, Annotation, Score, Silence};
use crate::row::{MessageRow, SpanRow, key};
use duckdb::types::ToSqlOutput;
use duckdb::{Appender, Connection, appender_params_from_iter as columns, params};
use std::collections::{HashMap, HashSet};

/// A batch is written when it has this many spans ...
const BATCH_SPANS: usize = 4096;
/// ... or about this many bytes of content, which bounds the memory of the writer.
const BATCH_BYTES: usize = 16 << 20;
/// A span sent again may have its start cut to milliseconds or moved by a clock, but not by more than this.
const START_SLACK_US: i64 = 3_600_000_000;
/// Ranks from here on are those of a tape.
const TAPE_RANK: u8 = 2;

/// Rows on their way into the database.
#[derive(Debug, Default)]
pub(super) struct Batch {
    spans: Vec<(SpanRow, Vec<MessageRow>)>,
    place: HashMap<(String, String), usize>,
    bytes: usize,
    duplicates: u64,
    pub(super) scores: Vec<Score>,
    pub(super) changes: Vec<AlertChange>,
    pub(super) silences: Vec<Silence>,
    pub(super) annotations: Vec<Annotation>,
    pub(super) marks: HashMap<String, Mark>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// A row that the database has of a span.
struct Known {
    row_id: i64,
    rank: u8,
    content_key: u64,
}

impl Batch {
    /// Adds a span's rows; of the same span twice in a batch the better is kept.
    pub(super) fn add_row(&mut self, rows: (SpanRow, Vec<MessageRow>)) {
        let id = (rows.0.trace_id.clone(), rows.0.span_id.clone());
        if let Some(place) = self.place.get(&id) {
            self.duplicates += 1;
            let held = &mut self.spans[*place];
            if beats(&rows.0, held.0.rank, held.0.content_key) {
                *held = rows;
            }
            return;
        }
        let messages: usize = rows.1.iter().map(|message| message.content.len()).sum();
        self.bytes += 512 + rows.0.attributes.len() + rows.0.events.len() + rows.0.resource.len() + messages;
        self.place.insert(id, self.spans.len());
        self.spans.push(rows);
    }

    pub(super) fn is_full(&self) -> bool {
        self.spans.len() + self.scores.len() >= BATCH_SPANS || self.bytes >= BATCH_BYTES
    }

    fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    fn ops(&self) -> usize {
        self.changes.len() + self.silences.len() + self.annotations.len()
    }
}

/// A tape's span beats a received one, an ended span an open one; else the first stays. Of one tape the later
/// reading holds, whatever it says: a paused run that is resumed is open again.
fn beats(row: &SpanRow, rank: u8, content_key: u64) -> bool {
    match row.rank >= TAPE_RANK && rank >= TAPE_RANK {
        true => row.content_key != content_key,
        false => row.rank > rank,
    }
}

impl Writer {
    /// Writes a batch and empties it; nothing of it stays when it fails.
    pub(super) fn write(&mut self, batch: &mut Batch, done: &mut Indexed) -> Result<(), StoreError> {
        let batch = std::mem::take(batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.transact(&batch, done).map_err(|source| self.database_error(source))?;
        self.progress.commit(batch.marks, batch.unreadable);
        Ok(())
    }

    fn transact(&mut self, batch: &Batch, done: &mut Indexed) -> duckdb::Result<()> {
        self.connection.execute_batch("BEGIN TRANSACTION")?;
        let (row_id, nth) = (self.last_row_id, self.last_nth);
        match self.append(batch).and_then(|counts| self.connection.execute_batch("COMMIT").map(|()| counts)) {
            Ok((spans, ops)) => {
                done.spans += spans;
                done.duplicates += batch.duplicates + (batch.spans.len() as u64).saturating_sub(spans);
                done.ops += ops;
                Ok(())
            }
            Err(why) => {
                (self.last_row_id, self.last_nth) = (row_id, nth);
                // After a failed commit there is nothing to roll back.
                let _ = self.connection.execute_batch("ROLLBACK");
                Err(why)
            }
        }
    }

    fn append(&mut self, batch: &Batch) -> duckdb::Result<(u64, u64)> {
        let spans = self.append_spans(batch)?;
        let scores = self.append_scores(&batch.scores)?;
        self.append_ops(batch)?;
        Progress::write(&self.connection, &batch.marks, &batch.unreadable)?;
        Ok((spans, scores + batch.ops() as u64))
    }

    fn append_spans(&mut self, batch: &Batch) -> duckdb::Result<u64> {
        if batch.spans.is_empty() {
            return Ok(0);
        }
        let known = known_spans(&self.connection, &batch.spans)?;
        let mut fresh = Vec::with_capacity(batch.spans.len());
        let mut superseded = Vec::new();
        for (row, messages) in &batch.spans {
            match known.get(&(row.trace_id.clone(), row.span_id.clone())) {
                Some(old) if !beats(row, old.rank, old.content_key) => continue,
                Some(old) => superseded.push(old.row_id),
                None => {}
            }
            self.last_row_id += 1;
            fresh.push((self.last_row_id, row, messages));
        }
        append_each(&self.connection, "span", &fresh, |appender, (row_id, row, _)| {
            appender.append_row(columns(values::span(*row_id, row)))
        })?;
        append_each(&self.connection, "superseded", &superseded, |appender, row_id| {
            appender.append_row([row_id])
        })?;
        let messages: Vec<_> = fresh
            .iter()
            .flat_map(|(row_id, row, messages)| messages.iter().map(move |message| (*row_id, *row, message)))
            .collect();
        append_each(&self.connection, "message", &messages, |appender, (row_id, row, message)| {
            appender.append_row(params![
                row_id,
                row.run_id,
                message.position,
                message.role,
                message.blob.to_string()
            ])
        })?;
        self.append_blobs(messages.iter().map(|(_, _, message)| *message))?;
        Ok(fresh.len() as u64)
    }

    fn append_blobs<'a>(&self, messages: impl Iterator<Item = &'a MessageRow>) -> duckdb::Result<()> {
        let mut unique: HashMap<Hash, &MessageRow> =
            messages.map(|message| (message.blob, message)).collect();
        for known in known_texts(&self.connection, unique.keys())? {
            if let Ok(hash) = known.parse::<Hash>() {
                unique.remove(&hash);
            }
        }
        let fresh: Vec<_> = unique.into_iter().collect();
        append_each(&self.connection, "blob", &fresh, |appender, (hash, message)| {
            appender.append_row(params![key(hash.bytes()), hash.to_string(), message.content, message.parts])
        })
    }

    /// A score that says the same of the same run is one score.
    fn append_scores(&self, scores: &[Score]) -> duckdb::Result<u64> {
        if scores.is_empty() {
            return Ok(0);
        }
        let keys: Vec<u64> = scores.iter().map(score_key).collect();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut statement = self.connection.prepare(include_str!("../../sql/store/known_scores.sql"))?;
        let mut rows = statement.query([json_list(&keys)])?;
        while let Some(row) = rows.next()? {
            seen.insert(row.get(0)?);
        }
        let fresh: Vec<_> = keys.into_iter().zip(scores).filter(|(key, _)| seen.insert(*key)).collect();
        append_each(&self.connection, "score", &fresh, |appender, (key, score)| {
            appender.append_row(columns(values::score(*key, score)))
        })?;
        Ok(fresh.len() as u64)
    }

    fn append_ops(&mut self, batch: &Batch) -> duckdb::Result<()> {
        let mut nth = self.last_nth;
        append_each(&self.connection, "alert_change", &batch.changes, |appender, change| {
            nth += 1;
            appender.append_row(columns(values::alert_change(nth, change)))
        })?;
        append_each(&self.connection, "silence", &batch.silences, |appender, silence| {
            nth += 1;
            appender.append_row(columns(values::silence(nth, silence)))
        })?;
        append_each(&self.connection, "annotation", &batch.annotations, |appender, annotation| {
            appender.append_row(columns(values::annotation(annotation)))
        })?;
        self.last_nth = nth;
        Ok(())
    }
}

fn append_each<'a, T>(
    connection: &Connection,
    table: &str,
    rows: &'a [T],
    mut append: impl FnMut(&mut Appender<'_>, &'a T) -> duckdb::Result<()>,
) -> duckdb::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut appender = connection.appender(table)?;
    for row in rows {
        append(&mut appender, row)?;
    }
    appender.flush()
}

fn known_spans(
    connection: &Connection,
    spans: &[(SpanRow, Vec<MessageRow>)],
) -> duckdb::Result<HashMap<(String, String), Known>> {
    let keys: Vec<u64> = spans.iter().map(|(row, _)| row.span_key).collect();
    let starts = || spans.iter().filter_map(|(row, _)| Some(row.started_at_ns? / 1000));
    let from = starts().min().unwrap_or(0).saturating_sub(START_SLACK_US);
    let to = starts().max().unwrap_or(0).saturating_add(START_SLACK_US);
    let mut statement = connection.prepare(include_str!("../../sql/store/known_spans.sql"))?;
    let mut rows = statement.query(params![json_list(&keys), from, to])?;
    let mut known = HashMap::new();
    while let Some(row) = rows.next()? {
        let held = Known { row_id: row.get(0)?, rank: row.get(3)?, content_key: row.get(4)? };
        known.insert((row.get(1)?, row.get(2)?), held);
    }
    Ok(known)
}

fn known_texts<'a>(
    connection: &Connection,
    hashes: impl Iterator<Item = &'a Hash>,
) -> duckdb::Result<Vec<String>> {
    let keys: Vec<u64> = hashes.map(|hash| key(hash.bytes())).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(include_str!("../../sql/store/known_blobs.sql"))?;
    statement.query_map([json_list(&keys)], |row| row.get(0))?.collect()
}

/// Lists cannot be bound as parameters; their JSON text can.
fn json_list(keys: &[u64]) -> String {
    let mut text = String::with_capacity(keys.len() * 20 + 2);
    text.push('[');
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&key.to_string());
    }
    text.push(']');
    text
}

/// Everything but the time: the same judgement told again is the same score.
fn score_key(score: &Score) -> u64 {
    let judged = Score { at_ns: None, ..score.clone() };
    key(Hash::of(&serde_json::to_vec(&judged).unwrap_or_default()).bytes())
}

/// The values of a row, in the order of its table's columns.
type Row<'a> = Vec<ToSqlOutput<'a>>;
