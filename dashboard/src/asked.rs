//! The question that a paused run waits with, and what was decided about it so far.
//!
//! Place in the flow: tape and ops log -> **asked** -> the run's page, and [`crate::decide`]. Both are read anew each
//! time: the index has no part in a decision.

use serde_json::Value;
use std::io;
use trace::fact::{PersonAnswered, PersonAsked, waiting};
use trace::home::Home;
use trace::id::RunId;
use trace::ops;
use trace::outcome::RunStatus;
use trace::tape::{Tape, TapeError};

/// A question that waits.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What is asked, as the tape has it.
    pub(crate) question: PersonAsked,
    /// What the tool can do; `None` where the tape does not tell.
    pub(crate) risk: Option<String>,
    /// The last decision that waits to be taken up.
    pub(crate) decided: Option<PersonAnswered>,
}

/// The question cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskedError {
    /// Only runs of `loopdeck run` ask people.
    #[error("run {0} has no tape here, so it waits for nobody")]
    NoTape(RunId),
    /// The tape cannot be read.
    #[error("the question cannot be read: {0}")]
    Tape(#[from] TapeError),
    /// The folder of tapes or the ops log cannot be read.
    #[error("what was asked and decided cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Asked {
    /// What a run waits with; `None` where it is not paused, or waits for nobody. Blocks.
    pub(crate) fn of_run(home: &Home, run_id: &RunId) -> Result<Option<Self>, AskedError> {
        let tape = tape(home, run_id)?;
        let is_paused = tape.ended().is_some_and(|ended| ended.outcome.status == RunStatus::Paused);
        let Some(question) = waiting(tape.lines()).filter(|_| is_paused) else { return Ok(None) };
        Ok(Some(Self {
            risk: risk(&tape, &question.tool_name),
            decided: ops::answer(home, run_id, &question.token)?,
            question: question.clone(),
        }))
    }

    /// Whether an answer comes too late.
    pub(crate) const fn is_over(&self, now_ns: i64) -> bool {
        now_ns > self.question.expires_at_ns
    }
}

/// Looked up among the tapes that are there: a name from outside never becomes a path.
fn tape(home: &Home, run_id: &RunId) -> Result<Tape, AskedError> {
    let begin = format!("{run_id}.");
    let is_of_run = |name: &str| name.starts_with(&begin);
    let tapes = Tape::list(&home.tapes())?;
    let path =
        tapes.iter().find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_run));
    Ok(Tape::read(path.ok_or_else(|| AskedError::NoTape(run_id.clone()))?)?)
}

fn risk(tape: &Tape, tool_name: &str) -> Option<String> {
    let tools: Vec<Value> = serde_json::from_str(tape.text(&tape.started()?.tools)?).ok()?;
    let tool = tools.iter().find(|tool| tool["name"] == tool_name)?;
    tool["risk"].as_str().map(str::to_owned)
}
