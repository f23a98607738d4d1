//! And run again: a recorded run, exactly, or against a new prompt or model.
//!
//! [`exact`] drives the same loop with everything answered from the tape and compares each fact and each request
//! byte for byte. [`live`] drives it with a live model and tools answered from the tape. [`matching`] decides
//! which recorded answer may be given; [`divergence`] says where two runs part.

mod comparer;
pub mod divergence;
pub mod exact;
pub mod live;
pub mod matching;
mod recorded;
pub mod report;

use trace::tape::TapeError;

/// Why a replay cannot be done at all. That it differs is a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The tape cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape ends before the run has started.
    #[error("{path}: the tape holds no run_started: there is nothing to replay")]
    Empty {
        /// The tape.
        path: String,
    },
    /// Something the tape names is missing or unreadable.
    #[error("{path}: {what} of the recorded run cannot be used: {why}")]
    Unusable {
        /// The tape.
        path: String,
        /// Which part.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The live side cannot be made ready.
    #[error(transparent)]
    Agent(#[from] harness::agent::AgentError),
}
