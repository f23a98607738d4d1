//! The recorder of an exact replay: takes nothing down, compares everything with the tape.
//!
//! Place in the flow: stands where the tape writer stands in a live run, so whatever would have been written is
//! what is compared, down to the digest of each line.

use crate::divergence::{Mismatch, all_differences};
use crate::recorded::World;
use harness::model::wire;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use trace::fact::Fact;
use trace::id::Hash;
use trace::redact::Redactor;
use trace::tape::{Line, Recorded, Recorder, TapeError, encode_line};

/// Fields that only repeat what other fields of the fact say; named last.
const DERIVED: [&str; 5] = ["/heard", "/body_hash", "/body_bytes", "/head", "/depth"];

/// Compares what a replay draws with a tape.
#[derive(Debug)]
pub(crate) struct Comparer {
    world: Arc<World>,
    redactor: Arc<Redactor>,
    /// Contents the replay made that the tape does not have, for showing how they differ.
    made: HashMap<Hash, Vec<u8>>,
    found: Arc<Mutex<Option<Mismatch>>>,
}

impl Comparer {
    pub(crate) fn new(
        world: Arc<World>,
        redactor: Arc<Redactor>,
        found: Arc<Mutex<Option<Mismatch>>>,
    ) -> Self {
        Self { world, redactor, made: HashMap::new(), found }
    }

    fn content(&self, hash: &Hash) -> Option<&[u8]> {
        self.world.tape.blob(hash).or_else(|| self.made.get(hash).map(Vec::as_slice))
    }

    fn differs(&self, line: &Line, mismatch: Mismatch) -> TapeError {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(mismatch);
        TapeError::Differs { path: self.world.tape.path().to_owned(), line: line.seq + 1 }
    }

    /// Names the most telling difference of one fact.
    fn explain(&self, line: &Line, at_ns: i64, recorded: &Value, rebuilt: &Value) -> Mismatch {
        let mut differences = all_differences(recorded, rebuilt);
        differences.sort_by_key(|(pointer, ..)| DERIVED.iter().position(|one| pointer.starts_with(one)));
        let mut mismatch = Mismatch {
            turn: line.fact.turn(),
            line: line.seq + 1,
            fact: line.fact.kind().to_owned(),
            pointer: "/at".to_owned(),
            recorded: line.at_ns.to_string(),
            rebuilt: at_ns.to_string(),
        };
        let Some((pointer, left, right)) = differences.into_iter().next() else { return mismatch };
        if let Some(index) = pointer.strip_prefix("/heard/").and_then(|rest| rest.parse().ok())
            && let Some(changed) = self.changed_line(line, index)
        {
            return changed;
        }
        let inside = self.inside(line, &pointer, recorded, rebuilt);
        (mismatch.pointer, mismatch.recorded, mismatch.rebuilt) = inside.unwrap_or((pointer, left, right));
        mismatch
    }

    /// A recorded input that nothing rebuilds, but whose digest was taken when it was heard.
    fn changed_line(&self, line: &Line, index: usize) -> Option<Mismatch> {
        let seq: u64 = line.fact.heard().get(index)?.split(':').next()?.parse().ok()?;
        let changed = self.world.tape.lines().iter().find(|one| one.seq == seq)?;
        Some(Mismatch {
            turn: changed.fact.turn(),
            line: changed.seq + 1,
            fact: changed.fact.kind().to_owned(),
            pointer: "/".to_owned(),
            recorded: format!("digest {}", line.fact.heard().get(index)?),
            rebuilt: format!("digest {}: the line was changed after the run", changed.digest),
        })
    }

    /// The request body's member that lists the messages, in the tape's wire.
    fn list(&self) -> &'static str {
        let started = self.world.tape.started();
        started.and_then(|started| wire(&started.wire)).map_or("messages", |wire| wire.list())
    }

    /// For a pointer to a hash: the difference inside the contents it names, as a pointer into the request body.
    fn inside(
        &self,
        line: &Line,
        pointer: &str,
        recorded: &Value,
        rebuilt: &Value,
    ) -> Option<(String, String, String)> {
        let content = |value: &Value| {
            let hash: Hash = value.pointer(pointer)?.as_str()?.parse().ok()?;
            let text = std::str::from_utf8(self.content(&hash)?).ok()?;
            // A frame is a body with a NUL where its messages go.
            serde_json::from_str::<Value>(&text.replace('\u{0}', "")).ok()
        };
        let (left, right) = (content(recorded)?, content(rebuilt)?);
        let (inner, left, right) = all_differences(&left, &right).into_iter().next()?;
        let prefix = match (&line.fact, pointer.strip_prefix("/fragments/")) {
            (Fact::ModelAsked(fact), Some(index)) => {
                let before = fact.depth as usize - fact.fragments.len();
                format!("/{}/{}", self.list(), before + index.parse::<usize>().ok()?)
            }
            (_, _) if pointer == "/frame" => String::new(),
            _ => pointer.to_owned(),
        };
        Some((format!("{prefix}{inner}"), left, right))
    }
}

impl Recorder for Comparer {
    fn blob(&mut self, content: &[u8]) -> Result<Hash, TapeError> {
        let redacted = self.redactor.bytes(content);
        let hash = Hash::of(&redacted);
        if self.world.tape.blob(&hash).is_none() {
            self.made.insert(hash, redacted.into_owned());
        }
        Ok(hash)
    }

    fn record(&mut self, at_ns: i64, fact: &Fact) -> Result<Recorded, TapeError> {
        let world = self.world.clone();
        let Some(line) = world.expected() else {
            return Err(TapeError::Closed { path: world.tape.path().to_owned() });
        };
        // The process that recorded this died here, or the run had ended: what it was about to do was never done.
        if matches!(line.fact, Fact::Resumed(_)) && !matches!(fact, Fact::Resumed(_)) {
            return Err(TapeError::Closed { path: world.tape.path().to_owned() });
        }
        let text = encode_line(line.seq, at_ns, fact, &self.redactor)?;
        let mut rebuilt: Fact = serde_json::from_str(&format!("{text}}}"))?;
        if let (Fact::ModelAnswered(was), Fact::ModelAnswered(is))
        | (Fact::SummaryAnswered(was), Fact::SummaryAnswered(is)) = (&line.fact, &mut rebuilt)
        {
            // Only who saw the secret knows that it lay across pieces. That nobody changed the word, `heard` tells.
            is.recut = was.recut;
        }
        let (recorded, rebuilt) = (serde_json::to_value(&line.fact)?, serde_json::to_value(&rebuilt)?);
        if at_ns != line.at_ns || recorded != rebuilt {
            return Err(self.differs(line, self.explain(line, at_ns, &recorded, &rebuilt)));
        }
        world.advance();
        // The digest of the line as it stands: if the line was changed, `heard` of the next intent shows it.
        Ok(Recorded { seq: line.seq, digest: line.digest.clone() })
    }

    fn sync(&mut self) -> Result<(), TapeError> {
        Ok(())
    }

    fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}
