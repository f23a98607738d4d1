//! A run goes on in another process: its facts are folded, its conversation rebuilt, and the loop entered again.
//!
//! Place in the flow: tape -> machine -> driver. What was sent must be rebuilt as it was sent, or the run is not
//! the same run; then resuming is refused.

use super::guard::Guarded;
use super::reference::References;
use super::{Driver, Observer, Setup};
use crate::conversation::Conversation;
use crate::machine::Run;
use std::sync::Arc;
use trace::fact::{Fact, Resumed};
use trace::outcome::Outcome;
use trace::tape::{Line, Recorder, Tape, TapeError};

/// Why a run cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The tape cannot be written.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape ends before the run has started.
    #[error("the tape holds no run_started: there is nothing to resume")]
    NotStarted,
    /// The conversation cannot be rebuilt as it was sent.
    #[error(
        "the conversation cannot be rebuilt as it was sent: a secret in it was redacted, or another version of \
         this program wrote the tape; run the task again instead"
    )]
    Redacted,
}

/// Goes on with a run from where its facts leave it: `lines` are those of its tape up to there.
///
/// Calls that were started and have no result are told to the model as `unknown_outcome`, unless the tool may be
/// repeated. `budget` replaces the run's budget from here on.
///
/// # Errors
/// Where the conversation cannot be rebuilt, or the tape cannot be written.
pub async fn resume(
    setup: &Setup,
    tape: &Tape,
    lines: &[Line],
    resumed: Resumed,
    recorder: &mut dyn Recorder,
    observer: &mut dyn Observer,
) -> Result<Outcome, ResumeError> {
    let planned = setup.planned();
    let setup = planned.as_ref().unwrap_or(setup);
    let specs = setup.toolbox.specs();
    let frame = setup.model.wire.frame(&setup.config.call_spec(&specs));
    let mut conversation = Conversation::new(frame, recorder)?;
    let facts = lines.iter().map(|line| (line.at_ns, &line.fact));
    let run = Run::fold(setup.config.clone(), Arc::new(specs), facts);
    let state = run.state();
    let run_id = state.run_id.clone().ok_or(ResumeError::NotStarted)?;
    let rebuilt = conversation.extend(&*setup.model.wire, &state.prompt_sent(), recorder)?;
    if state.head.is_some_and(|head| head != rebuilt.head) || lines.iter().any(is_redacted) {
        return Err(ResumeError::Redacted);
    }
    let observer = Guarded::new(observer);
    if state.is_shown_anew() {
        conversation.restart();
    }
    let heard = heard_since_last_intent(lines);
    let references = References::of_tape(tape, lines);
    let mut driver = Driver { setup, run, run_id, conversation, recorder, observer, heard, references };
    driver.record(Fact::Resumed(Box::new(resumed)))?;
    Ok(driver.run_to_end().await?)
}

/// Whether something the model is shown was redacted: then the tape does not hold what the run knew.
fn is_redacted(line: &Line) -> bool {
    let shows = |text: &str| text.contains("[redacted:");
    match &line.fact {
        Fact::RunStarted(fact) => {
            shows(&fact.task) || fact.earlier.iter().any(|message| shows(&message.joined_text()))
        }
        Fact::ModelAnswered(fact) | Fact::SummaryAnswered(fact) => fact
            .response
            .as_ref()
            .and_then(|response| serde_json::to_string(response).ok())
            .is_some_and(|text| shows(&text)),
        Fact::ToolFinished(fact) => shows(&fact.content),
        Fact::PersonAnswered(fact) => fact.said.as_deref().is_some_and(shows),
        _ => false,
    }
}

fn heard_since_last_intent(lines: &[Line]) -> Vec<String> {
    let is_intent = |line: &Line| {
        matches!(
            line.fact,
            Fact::ModelAsked(_)
                | Fact::ToolStarted(_)
                | Fact::RunEnded(_)
                | Fact::Resumed(_)
                | Fact::SummaryAsked(_)
                | Fact::PersonAsked(_)
        )
    };
    let from = lines.iter().rposition(is_intent).unwrap_or(0);
    lines[from..].iter().map(|line| line.digest.clone()).collect()
}
