//! The tapes of runs that were calls of another, as a kill leaves them: whole where their call has its result, cut at
//! any line where it has none, and not there where it had not begun.

use super::proof::Story;
use crate::reseal::OpenLines;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trace::attribute::operation;
use trace::fact::Fact;
use trace::id::{CallKey, SpanId};
use trace::tape::Tape;

/// The parts of a run that was not struck: the call that each was, and its lines.
pub(super) struct Parts(Vec<(SpanId, Vec<String>)>);

/// How often the calls of a run began, and which of them have their result.
#[derive(Default)]
struct Calls {
    begun: BTreeMap<SpanId, usize>,
    finished: BTreeSet<SpanId>,
}

fn calls(tape: &Tape) -> Calls {
    let mut calls = Calls::default();
    let Some(started) = tape.started() else { return calls };
    let span = |key: CallKey| started.run_id.span(operation::EXECUTE_TOOL, key.turn, key.index);
    for line in tape.lines() {
        match &line.fact {
            Fact::ToolStarted(fact) => *calls.begun.entry(span(fact.key)).or_default() += 1,
            Fact::ToolFinished(fact) => _ = calls.finished.insert(span(fact.key)),
            _ => {}
        }
    }
    calls
}

/// The tapes beside this one that are parts of its run, in the order in which they began.
fn beside(tape: &Tape) -> Vec<Tape> {
    let Some(run_id) = tape.started().map(|started| started.run_id.clone()) else { return Vec::new() };
    let paths = Tape::list(tape.path().parent().unwrap()).unwrap();
    let tapes = paths.iter().filter_map(|path| Tape::read(path).ok());
    let is_part =
        |part: &Tape| part.started().is_some_and(|started| started.parent_run_id.as_ref() == Some(&run_id));
    let mut parts: Vec<Tape> = tapes.filter(is_part).collect();
    parts.sort_by_key(|part| part.lines()[0].at_ns);
    parts
}

fn call_of(part: &Tape) -> SpanId {
    part.started().unwrap().parent_span_id.unwrap()
}

impl Parts {
    pub(super) fn of(whole: &Story) -> Self {
        let lines = |part: &Tape| OpenLines::read(part.path()).sealed().lines().map(str::to_owned).collect();
        Self(beside(&whole.tape).iter().map(|part| (call_of(part), lines(part))).collect())
    }

    /// In how many ways this kill can leave the parts.
    pub(super) fn ways(&self, killed: &Path) -> usize {
        let Ok(tape) = Tape::read(killed) else { return 1 };
        let calls = calls(&tape);
        let open = self
            .0
            .iter()
            .filter(|(call, _)| calls.begun.contains_key(call) && !calls.finished.contains(call));
        open.map(|(_, lines)| lines.len() + 1).max().unwrap_or(1)
    }

    /// Leaves them beside the killed run, those that are open with so many lines.
    pub(super) fn leave(&self, killed: &Path, lines_left: usize) {
        let Ok(tape) = Tape::read(killed) else { return };
        let calls = calls(&tape);
        for (nth, (call, lines)) in self.0.iter().enumerate() {
            let left = match (calls.begun.contains_key(call), calls.finished.contains(call)) {
                (true, true) => lines.len(),
                (true, false) => lines.len().min(lines_left),
                (false, _) => 0,
            };
            if left > 0 {
                let path = killed.with_file_name(format!("part-{nth}.tape"));
                std::fs::write(path, lines[..left].join("\n") + "\n").unwrap();
            }
        }
    }
}

/// Removes the parts that had not begun where this tape ends.
pub(super) fn forget_what_had_not_begun(killed: &Path) {
    let Ok(tape) = Tape::read(killed) else { return };
    let mut begun = calls(&tape).begun;
    for part in beside(&tape) {
        match begun.get_mut(&call_of(&part)).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => std::fs::remove_file(part.path()).unwrap(),
        }
    }
}
