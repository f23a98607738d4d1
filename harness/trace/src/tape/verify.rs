//! The fsck of tapes: what reading does not need, but a true tape holds.
//!
//! Reading already checks sequence, chain, blob hashes and the shape of facts. This adds: every named blob is
//! there, each blob is written once, a run begins and ends once, each tool call has at most one result, each
//! result an intent or a refusal.

use super::{Tape, TapeError};
use crate::fact::Fact;
use crate::id::{CallKey, Hash};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Something a true tape does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line number, 1-based as editors count.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

/// Reads and checks a tape. The tape comes back with the problems that are not fatal to reading.
///
/// # Errors
/// As [`Tape::read`].
pub fn verify(path: &Path) -> Result<(Tape, Vec<Problem>), TapeError> {
    let tape = Tape::read(path)?;
    let mut check = Check::default();
    let mut seen = HashMap::new();
    for (seq, hash) in tape.named() {
        if seen.insert(*hash, *seq).is_some() {
            check.problem(*seq, format!("blob {} is written twice", hash.short()));
        }
    }
    for line in tape.lines() {
        for hash in named_by(&line.fact) {
            match seen.get(&hash) {
                Some(at) if *at < line.seq => {}
                Some(_) => check.problem(line.seq, format!("blob {} is written only later", hash.short())),
                None => check.problem(line.seq, format!("blob {} is missing", hash.short())),
            }
        }
        check.fact(line.seq, &line.fact);
    }
    if check.started == 0 {
        check.problem(0, "no run_started".to_owned());
    }
    Ok((tape, check.problems))
}

/// The blobs a fact names.
fn named_by(fact: &Fact) -> Vec<Hash> {
    match fact {
        Fact::RunStarted(fact) => [fact.config, fact.tools].into_iter().chain(fact.history).collect(),
        Fact::SummaryAsked(fact) => fact.fragments.iter().copied().chain([fact.frame]).collect(),
        Fact::SummaryAnswered(fact) => fact.body.into_iter().collect(),
        Fact::ModelAsked(fact) => fact.fragments.iter().copied().chain([fact.frame]).collect(),
        Fact::ModelAnswered(fact) => fact.body.into_iter().collect(),
        Fact::ToolFinished(fact) => vec![fact.result, fact.shown],
        Fact::Waited(_)
        | Fact::ToolStarted(_)
        | Fact::Cancelled(_)
        | Fact::RunEnded(_)
        | Fact::Resumed(_)
        | Fact::Compacted(_)
        | Fact::PersonAsked(_)
        | Fact::PersonAnswered(_) => Vec::new(),
    }
}

#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
    started: u32,
    ended: bool,
    finished: HashSet<CallKey>,
    asked: HashSet<Hash>,
}

impl Check {
    fn problem(&mut self, seq: u64, why: String) {
        self.problems.push(Problem { line: seq + 1, why });
    }

    fn fact(&mut self, seq: u64, fact: &Fact) {
        if self.ended && !matches!(fact, Fact::Resumed(_)) {
            self.problem(seq, format!("{} after run_ended", fact.kind()));
        }
        match fact {
            Fact::RunStarted(_) => {
                self.started += 1;
                if self.started > 1 {
                    self.problem(seq, "a second run_started".to_owned());
                }
            }
            Fact::ToolStarted(started) if self.finished.contains(&started.key) => {
                self.problem(seq, format!("{} starts after its result", started.key));
            }
            Fact::ToolFinished(finished) if !self.finished.insert(finished.key) => {
                self.problem(seq, format!("{} has a second result", finished.key));
            }
            Fact::PersonAsked(asked) if self.finished.contains(&asked.key) => {
                self.problem(seq, format!("a person is asked about {} after its result", asked.key));
            }
            Fact::PersonAsked(asked) => {
                self.asked.insert(asked.token);
            }
            Fact::PersonAnswered(answered) if !self.asked.remove(&answered.token) => {
                self.problem(seq, format!("an answer about {} that nobody asked for", answered.key));
            }
            Fact::RunEnded(_) => self.ended = true,
            Fact::Resumed(_) => self.ended = false,
            _ => {}
        }
    }
}
