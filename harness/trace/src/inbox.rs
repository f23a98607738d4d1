//! The inbox: what came from outside, decoded, validated and redacted, before anything is derived from it.
//!
//! Place in the flow: OTLP body or imported file -> **inbox** -> span rows. A sender is acknowledged when
//! [`Inbox::append`] returns.

use crate::home::Home;
use crate::log::{Log, LogError, Position};
use crate::ops::Score;
use crate::span::Span;
use serde::{Deserialize, Serialize};

/// Why an entry could not be kept.
pub type InboxError = LogError;

/// One thing that came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was received, in nanoseconds since 1970.
    pub at_ns: i64,
    /// What it is.
    #[serde(flatten)]
    pub body: Body,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", content = "body", rename_all = "snake_case")]
pub enum Body {
    /// Spans of one OTLP request.
    Otlp {
        /// The spans, decoded.
        spans: Vec<Span>,
    },
    /// One run of an imported file.
    Import {
        /// The format it came from, such as `tau_bench`.
        source: String,
        /// Its spans, in the form that tapes give.
        spans: Vec<Span>,
        /// Scores that the file holds.
        scores: Vec<Score>,
    },
}

/// The inbox of a home; one for each appending process, shared by its threads.
#[derive(Debug)]
pub struct Inbox {
    log: Log,
}

impl Inbox {
    /// The inbox of this home. Nothing is created before the first append.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self { log: Log::new(home.inbox()) }
    }

    /// Keeps an entry; when it returns, the entry survives this process.
    ///
    /// # Errors
    /// When the disk is full or read-only, or the entry too large; then nothing of it is kept.
    pub fn append(&self, entry: &Entry) -> Result<Position, InboxError> {
        self.log.append(entry)
    }
}
