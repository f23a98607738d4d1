//! An agent ready to run: configuration, tools and model, and one call that runs a task onto a tape.
//!
//! Place in the flow: prompt -> **agent** -> driver. The command line, the demo, live evaluation and live replay
//! all start runs here.

mod load;
mod provider;

use crate::config::{AgentConfig, Budget, ConfigError};
use crate::driver::{Observer, ResumeError, Setup, Tiers, drive, resume};
use crate::hands::LiveHands;
use crate::model::Model;
use crate::model::http::HttpError;
use crate::person::Person;
use crate::port::{Live, Ports};
use crate::preparation::{Prepared, prepare};
use crate::team::{Caller, TeamHands, unheard};
use crate::tool::{ToolSpec, Toolbox, ToolboxError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::fact::{Fact, Resumed, RunStarted};
use trace::id::{Hash, RunId, SpanId, TraceId};
use trace::message::Message;
use trace::outcome::Outcome;
use trace::redact::Redactor;
use trace::tape::{Recorder, Tape, TapeError, TapeWriter};

/// Why an agent cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tools.
    #[error("{}: {why}", path.display())]
    Tools {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: ToolboxError,
    },
    /// The key of the provider is not set.
    #[error(
        "{}: the environment variable {key_env} is not set; set it to the key of provider `{provider}`, or set \
         model.key_env (\"\" for a provider that wants none)",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
        /// The variable.
        key_env: String,
        /// The provider.
        provider: String,
    },
    /// Agents have agents as tools, too deep.
    #[error(
        "{}: its agent `{agent}` is {max} agents deep, and [loop] max_agent_depth allows no more; does an agent have \
         itself as a tool?",
        path.display()
    )]
    Depth {
        /// The file.
        path: PathBuf,
        /// The agent's file, as written there.
        agent: String,
        /// How deep they may be.
        max: u32,
    },
    /// The client for the provider cannot be built.
    #[error("{}: `model.base_url`: {why}", path.display())]
    Client {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: HttpError,
    },
}

/// What to run, and how it is found again.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// What the agent is asked to do.
    pub text: String,
    /// The conversation it continues.
    pub session_id: Option<String>,
    /// The run of that conversation it goes on from, and what was said in it.
    pub continues: Option<(RunId, Vec<Message>)>,
    /// The user it runs for.
    pub user_id: Option<String>,
    /// The case of a suite.
    pub task_id: Option<String>,
    /// Which repeat of the case, 0-based.
    pub trial: Option<u32>,
    /// Free words, beside the configuration's.
    pub tags: Vec<String>,
    /// The trace and span of the caller.
    pub parent: Option<(TraceId, SpanId)>,
    /// The run that starts this one, where it is a part of another.
    pub parent_run_id: Option<RunId>,
    /// The run that this one replays, and how.
    pub replay_of: Option<(RunId, String)>,
}

/// Where a run's tape is written.
#[derive(Debug, Clone)]
pub struct Studio {
    /// The folder of tapes.
    pub tapes: PathBuf,
    /// What everything recorded goes through.
    pub redactor: Arc<Redactor>,
}

/// A run that came to its end.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub outcome: Outcome,
    /// Its tape, finished.
    pub tape: PathBuf,
}

/// An agent ready to run.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its configuration.
    pub config: Arc<AgentConfig>,
    /// Its tools.
    pub toolbox: Arc<Toolbox>,
    /// Its model.
    pub model: Model,
    /// The models of the tiers that something asks for.
    pub tiers: Tiers,
    /// Who is asked where policy or a tool wants a person; with nobody the run pauses.
    pub person: Option<Arc<dyn Person>>,
}

impl Agent {
    /// Makes a configuration ready, all but its servers; its tools run in `folder`, `path` is only for messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn of_config(
        mut config: AgentConfig,
        path: &Path,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, AgentError> {
        if config.model.price.is_none() {
            config.model.price = crate::price::of_model(&config.model.name);
        }
        let toolbox = Toolbox::of_config(&config, folder, environment)
            .map_err(|why| AgentError::Tools { path: path.to_owned(), why })?;
        let model = provider::http_model(&config.model, path, environment)?;
        let tiers = provider::tiers(&config, path, environment)?;
        Ok(Self { config: Arc::new(config), toolbox: Arc::new(toolbox), model, tiers, person: None })
    }

    /// Makes the agent of a recorded run ready again, to resume it; its tools run in `folder`.
    ///
    /// # Errors
    /// As [`Self::load`], and where the tape has no readable configuration.
    pub fn of_tape(
        tape: &Tape,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, AgentError> {
        let text = tape.started().and_then(|started| tape.text(&started.config)).unwrap_or_default();
        let config = serde_json::from_str(text).map_err(|why| ConfigError::Parse {
            path: tape.path().to_owned(),
            why: format!("the recorded configuration cannot be read: {why}"),
        })?;
        Self::of_config(config, tape.path(), folder, environment)
    }

    /// The same agent for runs that may see only these of its tools; a run that is resumed sees what it saw.
    #[must_use]
    pub fn seeing(&self, tools: &[String]) -> Self {
        Self { toolbox: Arc::new(self.toolbox.only(tools)), ..self.clone() }
    }

    /// Runs a task to its end on a tape of its own.
    ///
    /// # Errors
    /// Where the tape cannot be written; how the run ended is a value, never an error.
    pub async fn run(
        &self,
        task: Task,
        studio: &Studio,
        cancel: CancellationToken,
        observer: &mut dyn Observer,
    ) -> Result<Finished, TapeError> {
        let identity = Identity::draw(&Live::new(cancel.clone(), Duration::ZERO), &task);
        let Some(table) = &self.config.preparation else {
            return self.run_as(identity, task, studio, cancel, observer).await;
        };
        match prepare(self, table, (&identity, task), studio, cancel.clone(), observer).await? {
            Prepared::Run(agent, task) => agent.run_as(identity, *task, studio, cancel, observer).await,
            Prepared::Stopped(finished) => Ok(*finished),
        }
    }

    /// Runs a task as who was drawn before, without a preparation.
    async fn run_as(
        &self,
        identity: Identity,
        task: Task,
        studio: &Studio,
        cancel: CancellationToken,
        observer: &mut dyn Observer,
    ) -> Result<Finished, TapeError> {
        let wall_time = Duration::from_secs(self.config.budget.max_wall_time_seconds);
        let ports = Arc::new(Live::new(cancel.clone(), wall_time).with_person(self.person.clone()));
        let caller = Caller { identity: identity.clone(), studio: studio.clone(), cancel };
        record_as(identity, &self.setup(ports, caller), task, studio, observer).await
    }
}

impl Agent {
    /// Goes on with a recorded run on its own tape, from where the tape leaves it, under this agent's
    /// configuration; `budget` replaces the run's from here on.
    ///
    /// # Errors
    /// Where the run cannot be rebuilt or the tape not written.
    pub async fn resume(
        &self,
        tape: &Tape,
        budget: Option<Budget>,
        studio: &Studio,
        cancel: CancellationToken,
        observer: &mut dyn Observer,
    ) -> Result<Finished, ResumeError> {
        let started = tape.started().ok_or(ResumeError::NotStarted)?;
        let run_id = started.run_id.clone();
        let identity = Identity { run_id: run_id.clone(), trace_id: started.trace_id };
        let in_force = budget.as_ref().unwrap_or(&self.config.budget);
        let wall_time = Duration::from_secs(in_force.max_wall_time_seconds).saturating_sub(ran_for(tape));
        let ports = Arc::new(Live::new(cancel.clone(), wall_time).with_person(self.person.clone()));
        let caller = Caller { identity, studio: studio.clone(), cancel };
        let setup = self.seeing(&seen_in(tape)).setup(ports, caller);
        let resumed = Resumed {
            limits: budget.as_ref().map(Budget::limits).unwrap_or_default(),
            budget: budget.map(serde_json::to_value).transpose().map_err(TapeError::from)?,
            children: unheard(tape, &studio.tapes),
            heard: Vec::new(),
        };
        let mut writer = TapeWriter::reopen(tape, studio.redactor.clone())?;
        let outcome = resume(&setup, tape, tape.lines(), resumed, &mut writer, observer).await?;
        Ok(Finished { run_id, outcome, tape: sealed(writer).await? })
    }

    fn setup(&self, ports: Arc<dyn Ports>, caller: Caller) -> Setup {
        let retries = self.config.budget.max_retries_per_tool_call;
        let live = LiveHands::new(self.toolbox.clone(), ports.clone(), retries);
        Setup {
            config: self.config.clone(),
            toolbox: self.toolbox.clone(),
            model: self.model.clone(),
            tiers: self.tiers.clone(),
            hands: Arc::new(TeamHands::new(live, self.toolbox.clone(), ports.clone(), caller)),
            ports,
        }
    }
}

/// The names of the tools that a recorded run could see.
fn seen_in(tape: &Tape) -> Vec<String> {
    let specs = tape.started().and_then(|started| tape.text(&started.tools)).unwrap_or_default();
    let specs: Vec<ToolSpec> = serde_json::from_str(specs).unwrap_or_default();
    specs.into_iter().map(|spec| spec.name).collect()
}

/// How long a run has been at work: pauses between processes and the time of people left out.
#[must_use]
pub fn ran_for(tape: &Tape) -> Duration {
    let mut worked = 0_i64;
    let mut waits_for = None;
    for pair in tape.lines().windows(2) {
        match &pair[0].fact {
            Fact::PersonAsked(fact) => waits_for = Some(fact.key),
            Fact::PersonAnswered(_) => waits_for = None,
            Fact::ToolFinished(fact) if waits_for == Some(fact.key) => waits_for = None,
            _ => {}
        }
        if waits_for.is_none() && !matches!(pair[1].fact, Fact::Resumed(_)) {
            // A clock that was set back takes no time off what was worked.
            worked = worked.saturating_add(pair[1].at_ns.saturating_sub(pair[0].at_ns).max(0));
        }
    }
    Duration::from_nanos(u64::try_from(worked).unwrap_or(0))
}

/// Runs a task with this setup onto a new tape, and seals the tape.
///
/// # Errors
/// Where the tape cannot be written.
pub async fn record(
    setup: &Setup,
    task: Task,
    studio: &Studio,
    observer: &mut dyn Observer,
) -> Result<Finished, TapeError> {
    let identity = Identity::draw(&*setup.ports, &task);
    record_as(identity, setup, task, studio, observer).await
}

/// As [`record`], for a caller who had to know before who the run is: one that starts runs of its own beside it.
///
/// # Errors
/// Where the tape cannot be written.
pub async fn record_as(
    identity: Identity,
    setup: &Setup,
    task: Task,
    studio: &Studio,
    observer: &mut dyn Observer,
) -> Result<Finished, TapeError> {
    let run_id = identity.run_id.clone();
    let mut writer =
        TapeWriter::create(&studio.tapes, &run_id, crate::port::wall_clock_ns(), studio.redactor.clone())?;
    let started = started_fact(&setup.config, &setup.toolbox, &task, identity, &mut writer)?;
    let outcome = drive(setup, started, &mut writer, observer).await?;
    Ok(Finished { run_id, outcome, tape: sealed(writer).await? })
}

/// Makes the end of a run last. Syncing and compressing take milliseconds, in which a worker would carry on no other run.
async fn sealed(writer: TapeWriter) -> Result<PathBuf, TapeError> {
    let path = writer.path().to_owned();
    tokio::task::spawn_blocking(move || writer.seal()).await.unwrap_or_else(|why| {
        Err(TapeError::Io { path, doing: "compress the finished tape", source: std::io::Error::other(why) })
    })
}

/// Who a run is, drawn once.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The run.
    pub run_id: RunId,
    /// The trace its spans belong to.
    pub trace_id: TraceId,
}

impl Identity {
    /// Draws who a run is; a run within another belongs to the other's trace.
    #[must_use]
    pub fn draw(ports: &dyn Ports, task: &Task) -> Self {
        let run_id = RunId::from_draw(ports.draw());
        let trace_id = task.parent.map_or_else(|| drawn_trace_id(ports), |(trace_id, _)| trace_id);
        Self { run_id, trace_id }
    }
}

/// The first fact of a run, as a function of what it depends on: an exact replay builds it again.
///
/// # Errors
/// Where a blob cannot be written.
pub fn started_fact(
    config: &AgentConfig,
    toolbox: &Toolbox,
    task: &Task,
    identity: Identity,
    recorder: &mut dyn Recorder,
) -> Result<RunStarted, TapeError> {
    let replay = task.replay_of.as_ref();
    Ok(RunStarted {
        run_id: identity.run_id,
        trace_id: identity.trace_id,
        parent_span_id: task.parent.map(|(_, span_id)| span_id),
        parent_run_id: task.parent_run_id.clone(),
        agent: config.agent.name.clone(),
        service: config.agent.service.clone(),
        provider: config.model.provider.clone(),
        model: config.model.name.clone(),
        wire: config.model.wire.clone(),
        task: task.text.clone(),
        config: recorder.blob(serde_json::to_string(config)?.as_bytes())?,
        tools: recorder.blob(serde_json::to_string(&toolbox.specs())?.as_bytes())?,
        prompt_hash: Hash::of(recorder.redactor().text(&config.agent.prompt).as_bytes()),
        prompt_name: config.agent.prompt_name.clone(),
        prompt_version: config.agent.prompt_version.clone(),
        limits: config.budget.limits(),
        session_id: task.session_id.clone(),
        continues: task.continues.as_ref().map(|(run, _)| run.clone()),
        history: match &task.continues {
            Some((_, earlier)) => Some(recorder.blob(serde_json::to_string(earlier)?.as_bytes())?),
            None => None,
        },
        earlier: task.continues.as_ref().map(|(_, earlier)| earlier.clone()).unwrap_or_default(),
        user_id: task.user_id.clone(),
        environment: config.agent.environment.clone(),
        release: config.agent.release.clone(),
        task_id: task.task_id.clone(),
        trial: task.trial,
        tags: config.agent.tags.iter().chain(&task.tags).cloned().collect(),
        replay_of: replay.map(|(run, _)| run.clone()),
        replay_mode: replay.map(|(_, mode)| mode.clone()),
    })
}

fn drawn_trace_id(ports: &dyn Ports) -> TraceId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&ports.draw().to_be_bytes());
    bytes[8..].copy_from_slice(&ports.draw().to_be_bytes());
    TraceId::new(bytes)
}
