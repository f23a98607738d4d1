//! The ops log: what people and programs decided about runs after they were recorded.
//!
//! Place in the flow: eval appends [`Score`]s, the dashboard [`AlertChange`]s and [`Silence`]s, people
//! [`Annotation`]s and [`Answer`]s to questions of paused runs; the views `scores` and `alerts` derive from them. What
//! became of an answer is on the tape of its run.

use crate::fact::{Answer, PersonAnswered};
use crate::home::Home;
use crate::id::{Hash, RunId, SpanId};
use crate::log::{self, LineReader, Log, LogError, Position};
use crate::outcome::Evidence;
use serde::{Deserialize, Serialize};

/// Why an op could not be kept.
pub type OpsError = LogError;

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Op {
    /// A run was judged.
    Score(Score),
    /// An alert began or ended.
    AlertChange(Box<AlertChange>),
    /// Alerts are not to be delivered for a while.
    Silence(Silence),
    /// A person said something about a run.
    Annotation(Annotation),
    /// A person answered a question of a paused run.
    Answer(Answer),
}

/// What one scorer said of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The run.
    pub run_id: RunId,
    /// The suite, or the data set it came from.
    pub suite: String,
    /// The case of the suite.
    pub case_id: String,
    /// Which repeat of the case, 0-based.
    pub repeat: u32,
    /// The scorer.
    pub scorer: String,
    /// The figure; `None` where the scorer could not judge.
    pub value: Option<f64>,
    /// The judgement, such as `pass`, `fail` or `error`.
    pub verdict: String,
    /// A word of the scorer's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The eval that judged; absent for scores that a file brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_id: Option<String>,
    /// When, in nanoseconds since 1970; absent for scores that a file brought without a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<i64>,
}

/// Whether an alert holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It holds.
    Firing,
    /// It no longer does.
    Resolved,
}

impl AlertState {
    /// The word of the column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// A transition of an alert, or news about one that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlertChange {
    /// The alert: the same id from firing to resolved.
    pub alert_id: String,
    /// The rule.
    pub rule: String,
    /// What kind of rule it is.
    pub kind: String,
    /// Whether it holds now.
    pub state: AlertState,
    /// The agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tool it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The arguments it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// What was seen, in the rule's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit, in the rule's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The runs that show it.
    #[serde(default)]
    pub runs: Vec<RunId>,
    /// Why, with what was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
}

/// An order not to deliver alerts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// The silence; a later one of the same id replaces it.
    pub silence_id: String,
    /// Only alerts of this rule; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only alerts of this agent; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Until when, in nanoseconds since 1970; before `at_ns` to lift it.
    pub until_ns: i64,
    /// Who ordered it.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
}

/// What a person said about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// The run.
    pub run_id: RunId,
    /// A span of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<SpanId>,
    /// Who.
    pub by: String,
    /// One word for it.
    pub label: String,
    /// More words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
}

/// The ops log of a home; one for each appending process, shared by its threads.
#[derive(Debug)]
pub struct Ops {
    log: Log,
}

impl Ops {
    /// The ops log of this home. Nothing is created before the first append.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self { log: Log::new(home.ops()) }
    }

    /// Keeps an op; when it returns, the op survives this process.
    ///
    /// # Errors
    /// When the disk is full or read-only; then nothing of it is kept.
    pub fn append(&self, op: &Op) -> Result<Position, OpsError> {
        self.log.append(op)
    }
}

/// The last answer to a question that was kept for this run; `None` while nobody has answered.
///
/// # Errors
/// Where the log cannot be read.
pub fn answer(home: &Home, run_id: &RunId, token: &Hash) -> std::io::Result<Option<PersonAnswered>> {
    let mut last: Option<PersonAnswered> = None;
    for path in log::files(&home.ops())? {
        let mut reader = LineReader::open(&path, 0, 0)?;
        while let Some(entry) = reader.next_entry::<Op>()? {
            // A line that cannot be read is no answer; `doctor` tells of it.
            let Ok(Op::Answer(one)) = entry else { continue };
            let is_later = last.as_ref().is_none_or(|last| last.decided_at_ns <= one.answer.decided_at_ns);
            if one.run_id == *run_id && one.answer.token == *token && is_later {
                last = Some(one.answer);
            }
        }
    }
    Ok(last)
}
