//! The tape: one run's facts, append only, on disk before anything depends on them.
//!
//! Place in the flow: fact -> **tape** -> span. The tape is the truth; rows, spans and pages are derived from it.
//!
//! # Format
//! Text lines of JSON, each `{"seq":N,"at":NS,"type":...,...,"chain":"..."}`:
//! - line 0 is the header (`type` = `tape`) with the format version;
//! - `blob` lines hold contents, named by their BLAKE3, each once and before the first fact that names it;
//! - all other lines are facts (see [`crate::fact`]).
//!
//! `seq` counts from 0 without gaps. `chain` covers the line's bytes and the chain of the line before, so a
//! changed, lost or moved line is found. A last line without its newline is *torn*: it was never acknowledged
//! and is dropped. A finished tape is the same bytes compressed whole with zstd (`.tape.zst`).
//!
//! # Parts
//! [`writer`] appends, [`reader`] reads, [`verify`] checks what reading does not need. The [`Disk`] is a port, so
//! that tests can fill it up and watch the order of writes and syncs.

mod disk;
mod reader;
mod verify;
mod writer;

pub use disk::{Disk, FileDisk, is_held};
pub use reader::{Line, Tape};
pub use verify::{Problem, verify};
pub use writer::{Recorded, Recorder, TapeWriter, encode_line};

use crate::id::Hash;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version this program writes; it reads all versions up to this one.
pub const FORMAT: u32 = 2;
/// A line longer than this is refused when reading: 256 MiB, four times the largest response kept.
pub const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;
/// File name ending of a tape being written.
pub const OPEN_SUFFIX: &str = ".tape";
/// File name ending of a finished tape.
pub const SEALED_SUFFIX: &str = ".tape.zst";

/// The first line of a tape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Format version.
    pub format: u32,
    /// The program that wrote it.
    pub program: String,
    /// Names the key of the redaction placeholders; two tapes with the same id have comparable placeholders.
    pub redaction_key_id: String,
}

/// Why a tape cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The file system said no.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The tape.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// An earlier write failed, so nothing more may follow it.
    #[error("{}: an earlier write failed; the tape ends before it", path.display())]
    Closed {
        /// The tape.
        path: PathBuf,
    },
    /// The file is no tape, or is damaged.
    #[error("{} line {line}: {why}", path.display())]
    Damaged {
        /// The tape.
        path: PathBuf,
        /// Line number, 1-based as editors count.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The tape was written by a newer program.
    #[error(
        "{}: tape format {found} is newer than {FORMAT}, the newest this program reads: use a newer loopdeck",
        path.display()
    )]
    Newer {
        /// The tape.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// A replay drew something else than the tape has.
    #[error("{} line {line}: the replay differs from the tape", path.display())]
    Differs {
        /// The tape.
        path: PathBuf,
        /// Line number, 1-based as editors count.
        line: u64,
    },
    /// A fact could not be written as JSON.
    #[error("cannot write a fact as JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

/// The chain after one more line: over the chain before and the line's bytes without its own chain.
fn link(before: &str, line: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes());
    hasher.update(line.as_bytes());
    Hash::new(*hasher.finalize().as_bytes()).short()
}
