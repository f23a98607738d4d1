//! A conversation over several runs: who was it with, and what was said.
//!
//! Place in the flow: the owner of what lasts longer than a run. The loop ([`crate::machine`] and [`crate::driver`])
//! runs one task and forgets; the toolbox and its hands carry out calls; here a new task is given what was said
//! before, read from the tapes. The new tape holds that whole, so it can be replayed without the older ones.

use crate::surface::folded;
use std::path::Path;
use trace::id::RunId;
use trace::message::{Message, Role};
use trace::tape::{Tape, TapeError};

/// What a session has so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Earlier {
    /// The newest run of it that has ended.
    pub run_id: RunId,
    /// Everything said in it and before it, without the instructions, which are the next run's own.
    pub messages: Vec<Message>,
}

/// What was said in the newest run of a session that has ended, by the tapes of a folder. Tapes that cannot be read
/// are told beside it: the run that is looked for may be on one.
///
/// # Errors
/// Where the folder cannot be listed.
pub fn earlier(tapes: &Path, session_id: &str) -> std::io::Result<(Option<Earlier>, Vec<TapeError>)> {
    let (mut of_session, mut unreadable) = (Vec::new(), Vec::new());
    for path in Tape::list(tapes)? {
        match Tape::read_start(&path) {
            Ok(start) => {
                // A part of another run has no conversation of its own.
                let is_of_session = start.started().is_some_and(|started| {
                    started.session_id.as_deref() == Some(session_id) && started.parent_run_id.is_none()
                });
                if is_of_session {
                    of_session.push((start.lines().first().map(|line| line.at_ns), path));
                }
            }
            Err(why) => unreadable.push(why),
        }
    }
    of_session.sort();
    for (_, path) in of_session.iter().rev() {
        match Tape::read(path) {
            Ok(tape) if tape.ended().is_some() => return Ok((said(&tape), unreadable)),
            Ok(_) => {}
            Err(why) => unreadable.push(why),
        }
    }
    Ok((None, unreadable))
}

/// What was said in a run and before it.
fn said(tape: &Tape) -> Option<Earlier> {
    let started = tape.started()?;
    let run = folded(tape)?;
    let memory = crate::context::remembered(&run.config().context.memory);
    let mut messages = run.state().messages.clone();
    messages.retain(|message| message.role != Role::System && message.joined_text() != memory);
    Some(Earlier { run_id: started.run_id.clone(), messages })
}
