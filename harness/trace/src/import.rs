//! Other people's recordings as runs: OpenAI-style chat, and tau-bench results as its variant.
//!
//! Place in the flow: file -> **import** -> [`crate::inbox`] -> span rows. What a file does not say (tokens, cost,
//! times) stays unknown. Ids come from the content, so importing twice changes nothing.

mod chat;
mod entry;
mod spans;

use crate::id::RunId;
use crate::inbox::{Body, Entry};
use crate::ops::Score;
use crate::redact::Redactor;
use crate::span::Span;
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The runs, in the order of the file.
    pub runs: Vec<ImportedRun>,
}

/// One run of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// The run.
    pub run_id: RunId,
    /// The format it came from: `openai_chat` or `tau_bench`.
    pub source: &'static str,
    /// Its spans, in the form that tapes give.
    pub spans: Vec<Span>,
    /// The scores the file holds for it.
    pub scores: Vec<Score>,
}

/// A file cannot be imported; nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{} has {bytes} bytes, more than the {MAX_FILE_BYTES} that are read at once: split it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is no JSON.
    #[error("{}, line {line}: {source}; expected chat JSON, JSON lines, or a tau-bench result file", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, 1-based.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// A field of it is not what it should be.
    #[error("{}, entry {entry}: `{field}` {what}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The entry, 1-based.
        entry: usize,
        /// The field, such as `messages[3].role`.
        field: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing in it.
    #[error("{} holds no conversation", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Imported {
    /// What to append to the inbox: one entry a run, so that a run is there whole or not at all.
    pub fn entries(self, at_ns: i64) -> impl Iterator<Item = Entry> {
        self.runs.into_iter().map(move |run| Entry {
            at_ns,
            body: Body::Import { source: run.source.to_owned(), spans: run.spans, scores: run.scores },
        })
    }
}

/// Reads a file: a list of messages, an object with `messages`, a list or JSON lines of these, or of tau-bench results.
///
/// # Errors
/// When it cannot be read or an entry is malformed; the error names file, entry and field.
pub fn file(path: &Path, redactor: &Redactor) -> Result<Imported, ImportError> {
    let failed = |source| ImportError::File { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(ImportError::TooLarge { path: path.to_owned(), bytes });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mut runs: Vec<ImportedRun> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (number, mut value) in entry::split(&text, path)? {
        redactor.value(&mut value);
        let chat = chat::read(&value).map_err(|wrong| ImportError::Field {
            path: path.to_owned(),
            entry: number,
            field: wrong.field,
            what: wrong.what,
        })?;
        // The same conversation twice in a file is two runs, also when the file is imported again.
        let content = entry::content_hash(&value);
        let repeat = seen.entry(content).and_modify(|times| *times += 1).or_insert(0_u64);
        runs.push(spans::run(&chat, content, *repeat));
    }
    match runs.is_empty() {
        true => Err(ImportError::Empty { path: path.to_owned() }),
        false => Ok(Imported { runs }),
    }
}

#[cfg(test)]
mod tests;
