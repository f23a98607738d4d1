//! Exact replay: the same loop over the same answers must draw the same facts and send the same bytes.
//!
//! Place in the flow: tape -> **replay**. Model, tools, clock and ids come from the tape; no socket is opened and
//! no program started. Proves that this build rebuilds every request byte for byte and takes the same turns;
//! proves nothing about models, prompts or tools.

use crate::ReplayError;
use crate::comparer::Comparer;
use crate::divergence::Mismatch;
use crate::recorded::{RecordedHands, RecordedModel, RecordedPorts, World};
use harness::agent::{Identity, Task, started_fact};
use harness::config::{AgentConfig, ModelTable};
use harness::driver::{ResumeError, Setup, Tiers, Unobserved, drive, resume};
use harness::model::{Model, wire};
use harness::tool::{ToolSpec, Toolbox};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};
use trace::fact::{Fact, Resumed, RunStarted};
use trace::id::{Hash, RunId};
use trace::redact::Redactor;
use trace::tape::{Tape, TapeError};

/// What an exact replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exact {
    /// The run.
    pub run_id: RunId,
    /// Turns whose requests were rebuilt.
    pub turns: u32,
    /// Facts that were rebuilt, of all.
    pub facts: usize,
    /// Facts on the tape.
    pub facts_recorded: usize,
    /// Bytes of request bodies rebuilt and compared by hash.
    pub request_bytes: u64,
    /// Whether the tape ends before the run did.
    pub unfinished: bool,
    /// The first difference, if there is one.
    pub mismatch: Option<Mismatch>,
}

impl Exact {
    /// Whether everything recorded was rebuilt.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.mismatch.is_none()
    }
}

/// Replays a tape exactly.
///
/// # Errors
/// Where the tape cannot be replayed at all; a difference is a result.
pub async fn exact(tape: Arc<Tape>) -> Result<Exact, ReplayError> {
    let recorded = Recording::of(&tape)?;
    let world = Arc::new(World::new(tape.clone()));
    let found = Arc::new(Mutex::new(None));
    // Placeholders are on the tape already, whatever key they were made with, and match no pattern.
    let redactor =
        Redactor::new([0; 32]).map_err(|why| unusable(&tape, "the redaction patterns", why.to_string()))?;
    let mut comparer = Comparer::new(world.clone(), Arc::new(redactor), found.clone());
    let setup = recorded.setup(&world)?;
    let started = started_fact(
        &setup.config,
        &setup.toolbox,
        &recorded.task(),
        Identity { run_id: recorded.started.run_id.clone(), trace_id: recorded.started.trace_id },
        &mut comparer,
    )?;
    let mut ended = drive(&setup, started, &mut comparer, &mut Unobserved).await;
    // Another process went on here: so does the replay, from the same facts.
    while let (Ok(_) | Err(TapeError::Closed { .. }), Some(Fact::Resumed(resumed))) =
        (&ended, world.expected().map(|line| &line.fact))
    {
        let resumed = Resumed { heard: Vec::new(), ..(**resumed).clone() };
        let lines = &tape.lines()[..world.rebuilt()];
        ended = match resume(&setup, &tape, lines, resumed, &mut comparer, &mut Unobserved).await {
            Ok(outcome) => Ok(outcome),
            Err(ResumeError::Tape(why)) => Err(why),
            Err(why) => return Err(unusable(&tape, "the resumed part", why.to_string())),
        };
    }
    let mut unfinished = false;
    match ended {
        Ok(_) | Err(TapeError::Differs { .. }) => {}
        // The tape is used up: whatever comes now was never recorded.
        Err(TapeError::Closed { .. }) => unfinished = true,
        Err(other) => return Err(other.into()),
    }
    let mut mismatch = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let facts = world.rebuilt();
    if mismatch.is_none() && facts < tape.lines().len() {
        mismatch = tape.lines().get(facts).map(|line| extra(line.seq, &line.fact));
    }
    Ok(Exact {
        run_id: recorded.started.run_id.clone(),
        turns: count_turns(&tape, facts),
        facts,
        facts_recorded: tape.lines().len(),
        request_bytes: request_bytes(&tape, facts),
        unfinished,
        mismatch,
    })
}

fn extra(seq: u64, fact: &Fact) -> Mismatch {
    Mismatch {
        turn: fact.turn(),
        line: seq + 1,
        fact: fact.kind().to_owned(),
        pointer: "/".to_owned(),
        recorded: fact.kind().to_owned(),
        rebuilt: "(the replay had ended)".to_owned(),
    }
}

fn asked(tape: &Tape, facts: usize) -> impl Iterator<Item = &trace::fact::ModelAsked> {
    tape.lines().iter().take(facts).filter_map(|line| match &line.fact {
        Fact::ModelAsked(fact) => Some(fact),
        _ => None,
    })
}

fn count_turns(tape: &Tape, facts: usize) -> u32 {
    asked(tape, facts).map(|fact| fact.turn).max().unwrap_or(0)
}

fn request_bytes(tape: &Tape, facts: usize) -> u64 {
    asked(tape, facts).map(|fact| fact.body_bytes).sum()
}

fn unusable(tape: &Tape, what: &'static str, why: String) -> ReplayError {
    ReplayError::Unusable { path: tape.path().display().to_string(), what, why }
}

/// What a tape says about how its run was set up.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) started: RunStarted,
    pub(crate) config: AgentConfig,
    pub(crate) specs: Vec<ToolSpec>,
    path: String,
}

impl Recording {
    pub(crate) fn of(tape: &Tape) -> Result<Self, ReplayError> {
        let path = tape.path().display().to_string();
        let started = tape.started().cloned().ok_or_else(|| ReplayError::Empty { path: path.clone() })?;
        Ok(Self {
            config: blob(tape, "the configuration", &started.config)?,
            specs: blob(tape, "the tools", &started.tools)?,
            started,
            path,
        })
    }

    /// The task as it was given. Tags of the configuration are not the task's.
    pub(crate) fn task(&self) -> Task {
        let started = &self.started;
        let own = self.config.agent.tags.len().min(started.tags.len());
        Task {
            text: started.task.clone(),
            session_id: started.session_id.clone(),
            continues: started.continues.clone().map(|run| (run, started.earlier.clone())),
            user_id: started.user_id.clone(),
            task_id: started.task_id.clone(),
            trial: started.trial,
            tags: started.tags[own..].to_vec(),
            parent: started.parent_span_id.map(|span_id| (started.trace_id, span_id)),
            parent_run_id: started.parent_run_id.clone(),
            replay_of: started.replay_of.clone().zip(started.replay_mode.clone()),
        }
    }

    pub(crate) fn toolbox(&self) -> Result<Toolbox, ReplayError> {
        Toolbox::of_specs(self.specs.clone()).map_err(|why| ReplayError::Unusable {
            path: self.path.clone(),
            what: "the tools",
            why: why.to_string(),
        })
    }

    fn setup(&self, world: &Arc<World>) -> Result<Setup, ReplayError> {
        let model = |table: &ModelTable| -> Result<Model, ReplayError> {
            let wire = wire(&table.wire).ok_or_else(|| ReplayError::Unusable {
                path: self.path.clone(),
                what: "the wire",
                why: format!("`{}` is unknown to this program", table.wire),
            })?;
            let transport = Arc::new(RecordedModel(world.clone()));
            Ok(Model { provider: table.provider.clone(), wire, transport })
        };
        let mut tiers = Tiers::new();
        for (_, tier) in self.config.tiers_used() {
            if let Ok(table) = self.config.model.of_tier(tier) {
                tiers.insert(tier.to_owned(), model(&table)?);
            }
        }
        Ok(Setup {
            config: Arc::new(self.config.clone()),
            toolbox: Arc::new(self.toolbox()?),
            model: model(&self.config.model)?,
            tiers,
            hands: Arc::new(RecordedHands(world.clone())),
            ports: Arc::new(RecordedPorts(world.clone())),
        })
    }
}

fn blob<T: DeserializeOwned>(tape: &Tape, what: &'static str, hash: &Hash) -> Result<T, ReplayError> {
    let text =
        tape.text(hash).ok_or_else(|| unusable(tape, what, format!("blob {} is missing", hash.short())))?;
    serde_json::from_str(text).map_err(|why| unusable(tape, what, why.to_string()))
}
