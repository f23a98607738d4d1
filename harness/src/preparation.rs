//! A stage before the run: a bounded loop of its own, whose answer the run is told.
//!
//! Place in the flow: prompt -> **preparation** -> agent. It is a run like any other, with its own budget and its
//! own tape, which names the run it prepares. What it found stands in the run's own configuration or task, so the
//! run's tape is whole without it and replays without it.

use crate::agent::{Agent, Finished, Identity, Studio, Task};
use crate::config::{AgentConfig, Inject, OnFailure, PreparationTable};
use crate::driver::Observer;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trace::outcome::RunStatus;
use trace::tape::TapeError;

/// Put before what was found.
const FOUND: &str = include_str!("../prompt/prepared.txt");

/// What a preparation leads to.
pub(crate) enum Prepared {
    /// The run as it is to be done.
    Run(Box<Agent>, Box<Task>),
    /// The run does not begin.
    Stopped(Box<Finished>),
}

/// Prepares a run, for an agent that has a preparation.
pub(crate) async fn prepare(
    agent: &Agent,
    table: &PreparationTable,
    (identity, task): (&Identity, Task),
    studio: &Studio,
    cancel: CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Prepared, TapeError> {
    let stage = stage(agent, table);
    let own = Task {
        parent_run_id: Some(identity.run_id.clone()),
        parent: task.parent.map(|(_, span_id)| (identity.trace_id, span_id)),
        ..task.clone()
    };
    let finished = Box::pin(stage.run(own, studio, cancel, observer)).await?;
    let found =
        finished.outcome.answer.as_deref().filter(|_| finished.outcome.status == RunStatus::Completed);
    Ok(match (found, table.on_failure) {
        (Some(found), _) => {
            let (agent, task) = told(agent, table.inject, task, found);
            Prepared::Run(Box::new(agent), Box::new(task))
        }
        (None, OnFailure::Degrade) => Prepared::Run(Box::new(agent.clone()), Box::new(task)),
        (None, OnFailure::Stop) => Prepared::Stopped(Box::new(finished)),
    })
}

/// The stage as an agent: the same model, its own prompt, budget and tools, and nothing that is the run's alone.
fn stage(agent: &Agent, table: &PreparationTable) -> Agent {
    let mut config = AgentConfig { budget: table.budget.clone(), ..(*agent.config).clone() };
    config.agent.name = format!("{}.preparation", config.agent.name);
    config.agent.prompt.clone_from(&table.prompt);
    (config.agent.prompt_name, config.agent.prompt_version) = (None, None);
    (config.preparation, config.goal, config.expect) = (None, None, None);
    Agent { config: Arc::new(config), ..agent.seeing(&table.tools) }
}

fn told(agent: &Agent, inject: Inject, mut task: Task, found: &str) -> (Agent, Task) {
    let mut config = (*agent.config).clone();
    let add = |text: &mut String| {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        *text = format!("{text}{gap}{}\n{found}", FOUND.trim());
    };
    if matches!(inject, Inject::System | Inject::Both) {
        add(&mut config.agent.prompt);
    }
    if matches!(inject, Inject::Task | Inject::Both) {
        add(&mut task.text);
    }
    (Agent { config: Arc::new(config), ..agent.clone() }, task)
}
