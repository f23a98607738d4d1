//! Catching up: every log is read from where the index stands, in batches of rows.
//!
//! A batch is one transaction that holds the rows and how far their files were read. So a kill at any point leaves
//! an index that is behind, never one that is wrong: the next catch-up goes on from there.

use super::StoreError;
use super::append::Batch;
use super::progress::Mark;
use super::writer::Writer;
use crate::inbox::{Body, Entry};
use crate::log::{self, LineReader};
use crate::ops::Op;
use crate::row::{self, Origin};
use crate::span::from_tape;
use crate::tape::Tape;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What a catch-up did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Spans written that the index did not have, or had in a lesser form.
    pub spans: u64,
    /// Spans read that the index had already.
    pub duplicates: u64,
    /// Scores, alert changes, silences and annotations written.
    pub ops: u64,
    /// Everything in the logs that could not be read, now or before.
    pub unreadable: Vec<Unreadable>,
}

/// A piece of a log that cannot be read. The rest of the log is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// Its line, 1-based; 0 for a file that is unreadable as a whole.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.what),
            line => write!(f, "{}, line {line}: {}", self.path.display(), self.what),
        }
    }
}

impl Writer {
    /// Reads all logs to their present end.
    pub(super) fn catch_up(&mut self) -> Result<Indexed, StoreError> {
        let mut done = Indexed::default();
        let mut batch = Batch::default();
        self.read_tapes(&mut batch, &mut done)?;
        self.read_log(&self.home.inbox(), &mut batch, &mut done, Batch::add_entry)?;
        self.read_log(&self.home.ops(), &mut batch, &mut done, Batch::add_op)?;
        self.write(&mut batch, &mut done)?;
        done.unreadable.clone_from(&self.progress.unreadable);
        Ok(done)
    }

    /// A tape is read whole when its size or time has changed: its spans replace those of the former reading.
    fn read_tapes(&mut self, batch: &mut Batch, done: &mut Indexed) -> Result<(), StoreError> {
        let folder = self.home.tapes();
        let paths = Tape::list(&folder).map_err(|source| StoreError::File { path: folder, source })?;
        for path in paths {
            // A tape that was sealed between listing and now has another name: the next catch-up finds it.
            let Some(mark) = whole_file(&path) else { continue };
            let file = path.to_string_lossy().into_owned();
            if self.progress.marks.get(&file) == Some(&mark) {
                continue;
            }
            match Tape::read(&path) {
                Ok(tape) => from_tape(&tape).iter().for_each(|span| batch.add_span(span, Origin::Tape)),
                Err(why) => batch.unreadable.push(Unreadable { path, line: 0, what: why.to_string() }),
            }
            batch.marks.insert(file, mark);
            if batch.is_full() {
                self.write(batch, done)?;
            }
        }
        Ok(())
    }

    fn read_log<T: DeserializeOwned>(
        &mut self,
        folder: &Path,
        batch: &mut Batch,
        done: &mut Indexed,
        add: fn(&mut Batch, T),
    ) -> Result<(), StoreError> {
        let failed = |source| StoreError::File { path: folder.to_owned(), source };
        for path in log::files(folder).map_err(failed)? {
            self.read_file(&path, batch, done, add)?;
        }
        Ok(())
    }

    fn read_file<T: DeserializeOwned>(
        &mut self,
        path: &Path,
        batch: &mut Batch,
        done: &mut Indexed,
        add: fn(&mut Batch, T),
    ) -> Result<(), StoreError> {
        let failed = |source| StoreError::File { path: path.to_owned(), source };
        let file = path.to_string_lossy().into_owned();
        let from = self.progress.marks.get(&file).copied().unwrap_or_default();
        if std::fs::metadata(path).map_err(failed)?.len() <= from.read_to {
            return Ok(());
        }
        let mut reader = LineReader::open(path, from.read_to, from.lines).map_err(failed)?;
        while let Some(entry) = reader.next_entry::<T>().map_err(failed)? {
            match entry {
                Ok(entry) => add(batch, entry),
                Err(damage) => batch.unreadable.push(Unreadable {
                    path: path.to_owned(),
                    line: damage.line,
                    what: damage.what,
                }),
            }
            let mark = Mark { read_to: reader.offset(), lines: reader.line(), modified_at_ns: 0 };
            batch.marks.insert(file.clone(), mark);
            if batch.is_full() {
                self.write(batch, done)?;
            }
        }
        Ok(())
    }
}

impl Batch {
    fn add_span(&mut self, span: &crate::span::Span, origin: Origin) {
        self.add_row(row::rows(span, origin));
    }

    fn add_entry(&mut self, entry: Entry) {
        match entry.body {
            Body::Otlp { spans } => spans.iter().for_each(|span| self.add_span(span, Origin::Otlp)),
            Body::Import { spans, scores, .. } => {
                spans.iter().for_each(|span| self.add_span(span, Origin::Import));
                self.scores.extend(scores);
            }
        }
    }

    fn add_op(&mut self, op: Op) {
        match op {
            Op::Score(score) => self.scores.push(score),
            Op::AlertChange(change) => self.changes.push(*change),
            Op::Silence(silence) => self.silences.push(silence),
            Op::Annotation(annotation) => self.annotations.push(annotation),
            // The tape of its run tells what became of it, and that is where rows come from.
            Op::Answer(_) => {}
        }
    }
}

/// Size and time of a file that is read whole.
fn whole_file(path: &Path) -> Option<Mark> {
    let data = std::fs::metadata(path).ok()?;
    let modified = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Mark {
        read_to: data.len(),
        lines: 0,
        modified_at_ns: i64::try_from(modified.as_nanos()).unwrap_or(i64::MAX),
    })
}
