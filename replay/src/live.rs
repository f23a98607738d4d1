//! Live replay: a recorded run again, with a live model under a new prompt or name, tools and people answered from the
//! tape.
//!
//! Place in the flow: tape -> **replay** -> a new tape of its own, marked with what it replays. Proves how model
//! and prompt behave while they stay on the record; proves nothing after the first call without an answer.

use crate::ReplayError;
use crate::divergence::{diverge, moves};
use crate::exact::Recording;
use crate::matching::MatchingHands;
use crate::report::{LiveReport, Side};
use harness::agent::{Agent, Studio, record};
use harness::config::AgentConfig;
use harness::driver::{Observer, Setup};
use harness::port::Live;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::tape::Tape;

/// The word for this mode in rows and spans.
pub const MODE: &str = "live_model";

/// What is changed against the recorded run.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Another system prompt.
    pub prompt: Option<String>,
    /// Another model.
    pub model: Option<String>,
    /// Another address of the provider.
    pub base_url: Option<String>,
}

impl Change {
    fn apply(&self, config: &mut AgentConfig) {
        if let Some(prompt) = &self.prompt {
            config.agent.prompt.clone_from(prompt);
        }
        if let Some(model) = &self.model {
            config.model.name.clone_from(model);
            config.model.price = None;
        }
        if let Some(base_url) = &self.base_url {
            config.model.base_url = Some(base_url.clone());
        }
    }
}

/// Replays a tape with a live model.
///
/// # Errors
/// Where the tape cannot be replayed, the model cannot be reached by configuration, or the new tape not written.
pub async fn live(
    tape: &Tape,
    change: &Change,
    environment: &dyn Fn(&str) -> Option<String>,
    studio: &Studio,
    cancel: CancellationToken,
    observer: &mut dyn Observer,
) -> Result<LiveReport, ReplayError> {
    let recorded = Recording::of(tape)?;
    let mut config = recorded.config.clone();
    change.apply(&mut config);
    // Tools answer from the tape, so none of the commands is made ready, let alone started.
    let commands = std::mem::take(&mut config.tools);
    let agent = Agent::of_config(config, tape.path(), Path::new("."), environment)?;
    let mut config = (*agent.config).clone();
    config.tools = commands;
    let wall_time = Duration::from_secs(config.budget.max_wall_time_seconds);
    let hands = Arc::new(MatchingHands::of(tape));
    let setup = Setup {
        config: Arc::new(config),
        toolbox: Arc::new(recorded.toolbox()?),
        model: agent.model,
        tiers: agent.tiers,
        hands: hands.clone(),
        ports: Arc::new(Live::new(cancel, wall_time).with_person(Some(hands.clone()))),
    };
    let mut task = recorded.task();
    (task.parent, task.parent_run_id) = (None, None);
    task.replay_of = Some((recorded.started.run_id.clone(), MODE.to_owned()));
    let finished = record(&setup, task, studio, observer).await?;
    let replayed = Tape::read(&finished.tape)?;
    Ok(LiveReport {
        replay_of: recorded.started.run_id.clone(),
        run_id: finished.run_id,
        diverged: hands.unanswered(),
        given_again: hands.given_again(),
        first_difference: diverge(&moves(tape), &moves(&replayed)),
        recorded: Side::of(tape),
        replayed: Side::of(&replayed),
    })
}
