//! Scorers: one a file, one trait, one registry. A score is a pure function of a case and a subject.
//!
//! Place in the flow: the suite builds scorers from its `[[scorer]]` tables, the runner asks each for every trial.
//! A new scorer is a new file in `scorer/`, one line in [`REGISTRY`] and its tests.

mod budget;
mod contains;
mod exact;
mod expectation;
mod json;
mod matching;
mod regex;
mod reward;
mod rule;
mod stop_reason;
mod tool_sequence;

use crate::case::Case;
use crate::subject::Subject;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use std::sync::Arc;
use trace::outcome::{RunStatus, StopReason};

/// How one scorer judged one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// What was expected is there.
    #[serde(rename = "PASS")]
    Pass,
    /// What was expected is not there.
    #[serde(rename = "FAIL")]
    Fail,
    /// It could not be judged: data is missing, or the infrastructure failed.
    #[serde(rename = "ERROR")]
    Error,
    /// It was not to be judged.
    #[serde(rename = "SKIPPED")]
    Skipped,
}

impl Verdict {
    /// The spelling in columns, reports and pages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
            Self::Skipped => "SKIPPED",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one scorer says about one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// How much of what was expected is there, from 0 to 1; absent where that could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// A word for the kind of failure, to count by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// One sentence for people.
    pub reason: String,
}

impl Score {
    /// What was expected is there.
    pub(crate) fn pass(reason: impl Into<String>) -> Self {
        Self { value: Some(1.0), verdict: Verdict::Pass, label: None, reason: reason.into() }
    }

    /// What was expected is not there.
    pub(crate) fn fail(label: &str, reason: impl Into<String>) -> Self {
        Self {
            value: Some(0.0),
            verdict: Verdict::Fail,
            label: Some(label.to_owned()),
            reason: reason.into(),
        }
    }

    /// It could not be judged.
    pub(crate) fn error(label: &str, reason: impl Into<String>) -> Self {
        Self { value: None, verdict: Verdict::Error, label: Some(label.to_owned()), reason: reason.into() }
    }

    /// It was not to be judged.
    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Self { value: None, verdict: Verdict::Skipped, label: None, reason: reason.into() }
    }

    /// The same with another value; a value that is no number from 0 to 1 makes an ERROR of any verdict.
    pub(crate) fn valued(self, value: f64) -> Self {
        match (0.0..=1.0).contains(&value) {
            true => Self { value: Some(value), ..self },
            false => Self::error("invalid_value", format!("the value {value} is not between 0 and 1")),
        }
    }
}

/// Judges trials. Built once, from options that were checked.
pub trait Scorer: Send + Sync + Debug {
    /// Whether the case holds what this scorer needs; asked when the suite is loaded.
    ///
    /// # Errors
    /// What is missing or wrong in the case, and what to write.
    fn check(&self, case: &Case) -> Result<(), String>;

    /// Judges one run of the case.
    fn score(&self, case: &Case, subject: &Subject) -> Score;
}

type Build = fn(Map<String, Value>) -> Result<Arc<dyn Scorer>, String>;

/// Every kind of scorer with its constructor.
const REGISTRY: &[(&str, Build)] = &[
    ("budget", built::<budget::Budget>),
    ("contains", built::<contains::Contains>),
    ("exact", built::<exact::Exact>),
    ("json", built::<json::Json>),
    ("regex", built::<regex::Matches>),
    ("reward", built::<reward::Reward>),
    ("rule", built::<rule::Rules>),
    ("stop_reason", built::<stop_reason::Stopped>),
    ("tool_sequence", built::<tool_sequence::ToolSequence>),
];

/// A scorer that is made of options.
trait FromOptions: Scorer + Sized + 'static {
    type Options: DeserializeOwned;

    fn from_options(options: Self::Options) -> Result<Self, String>;
}

fn built<S: FromOptions>(options: Map<String, Value>) -> Result<Arc<dyn Scorer>, String> {
    let options = S::Options::deserialize(Value::Object(options)).map_err(|error| error.to_string())?;
    Ok(Arc::new(S::from_options(options)?))
}

/// The scorer of this kind with these options.
///
/// # Errors
/// Where the kind is unknown or an option is unknown, missing or makes a scorer that could never fail or pass.
pub fn build(kind: &str, options: Map<String, Value>) -> Result<Arc<dyn Scorer>, String> {
    let Some((_, build)) = REGISTRY.iter().find(|(name, _)| *name == kind) else {
        let kinds: Vec<&str> = REGISTRY.iter().map(|(name, _)| *name).collect();
        return Err(format!("unknown kind `{kind}`; one of: {}", kinds.join(", ")));
    };
    build(options)
}

/// The run's final answer, or the score of a run that has none.
///
/// A limit is never shown as success: a run known to have stopped otherwise fails even if it left some text. Where
/// nobody knows why it stopped, the text counts; where it should be there and is not, that is an ERROR.
fn final_answer(subject: &Subject) -> Result<&str, Score> {
    let unfinished = subject.status != RunStatus::Completed && subject.stop_reason != StopReason::Unknown;
    match &subject.answer {
        _ if unfinished => {
            let reason = format!("no final answer: the run stopped with `{}`", subject.stop_reason);
            Err(Score::fail(subject.stop_reason.as_str(), reason))
        }
        Some(answer) => Ok(answer),
        None => Err(Score::error("no_answer", "the run's data holds no final answer")),
    }
}

/// The beginning of a text, short enough for a report's line.
fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::sample;

    fn options(json: serde_json::Value) -> Map<String, Value> {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn an_unknown_kind_names_the_known_ones() {
        insta::assert_snapshot!(build("exakt", Map::new()).unwrap_err(), @"unknown kind `exakt`; one of: budget, contains, exact, json, regex, reward, rule, stop_reason, tool_sequence");
    }

    #[test]
    fn an_unknown_option_is_refused_by_every_scorer() {
        for (kind, _) in REGISTRY {
            let error = build(kind, options(serde_json::json!({"no_such_option": 1}))).unwrap_err();
            assert!(error.contains("no_such_option"), "{kind}: {error}");
        }
    }

    #[test]
    fn a_run_that_hit_a_limit_never_passes_by_its_text() {
        let subject = Subject { answer: Some("42".to_owned()), ..sample::stopped(StopReason::MaxTurns) };
        assert_eq!(final_answer(&subject).unwrap_err().verdict, Verdict::Fail);
    }

    #[test]
    fn a_foreign_run_is_judged_by_its_text_and_missing_text_is_an_error() {
        let subject = Subject { answer: Some("42".to_owned()), ..sample::stopped(StopReason::Unknown) };
        assert_eq!(final_answer(&subject), Ok("42"));
        assert_eq!(final_answer(&sample::stopped(StopReason::Unknown)).unwrap_err().verdict, Verdict::Error);
    }

    #[test]
    fn a_value_that_is_no_share_is_an_error_and_not_a_pass() {
        assert_eq!(Score::pass("").valued(f64::NAN).verdict, Verdict::Error);
        assert_eq!(Score::pass("").valued(1.5).verdict, Verdict::Error);
    }
}
