//! The driver performs what the machine says: the only tokio in the loop.
//!
//! Place in the flow: machine -> **driver** -> fact -> tape. Order is everything here: an intent is on the tape
//! before its effect, synced first if the effect leaves the process, and a result is on the tape before the
//! machine hears it. A tape that cannot be written ends the run at once; nothing is done off the record.
//!
//! Parts: [`answer`] turns a reply into a fact, [`guard`] keeps panics of others out, [`stage`] runs tool calls,
//! [`reference`] lets them name earlier results, [`context`] shows the model less, [`person`] asks people, [`resume`]
//! enters the loop again.

mod answer;
mod context;
mod guard;
mod person;
pub(crate) mod reference;
mod resume;
mod stage;

pub use resume::{ResumeError, resume};

use crate::config::AgentConfig;
use crate::conversation::Conversation;
use crate::hands::Hands;
use crate::machine::{Event, Run, Step};
use crate::model::planner::Planner;
use crate::model::{Delta, Model, Reply, WireRequest};
use crate::port::Ports;
use crate::tool::Toolbox;
use guard::Guarded;
use reference::References;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trace::fact::{Cancelled, Fact, Fault, ModelAsked, RunEnded, RunStarted, Waited};
use trace::id::{Hash, RunId};
use trace::outcome::{FaultClass, Outcome};
use trace::tape::{Recorder, TapeError};

/// What a run is driven with. The four drivers differ only in this.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The agent's configuration.
    pub config: Arc<AgentConfig>,
    /// The tools that are known.
    pub toolbox: Arc<Toolbox>,
    /// The model.
    pub model: Model,
    /// Who carries out calls.
    pub hands: Arc<dyn Hands>,
    /// Clock, randomness, interruption.
    pub ports: Arc<dyn Ports>,
    /// The models of the tiers that something asks for.
    pub tiers: Tiers,
}

/// Models by the name of their tier.
pub type Tiers = BTreeMap<String, Model>;

impl Setup {
    /// The same with a wire that reads plans, where the agent is a planner.
    fn planned(&self) -> Option<Self> {
        self.config.loop_.planner.then(|| {
            let offers = self.config.call_spec(&self.toolbox.specs()).tools;
            let wire = Arc::new(Planner::over(self.model.wire.clone(), offers));
            Self { model: Model { wire, ..self.model.clone() }, ..self.clone() }
        })
    }
}

/// Watches a run from inside its process. Nothing here can change the run.
pub trait Observer: Send {
    /// A fact is on the tape.
    fn recorded(&mut self, _seq: u64, _at_ns: i64, _fact: &Fact) {}

    /// A piece of a streamed answer arrived.
    fn delta(&mut self, _delta: &Delta) {}

    /// The machine drew a conclusion.
    fn event(&mut self, _event: &Event) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Drives a run to its end. Who owns the tape makes the end last, by sealing it.
///
/// # Errors
/// Where the tape cannot be written (or, in a replay, differs): the run then stands as the tape has it.
pub async fn drive(
    setup: &Setup,
    started: RunStarted,
    recorder: &mut dyn Recorder,
    observer: &mut dyn Observer,
) -> Result<Outcome, TapeError> {
    let planned = setup.planned();
    let setup = planned.as_ref().unwrap_or(setup);
    let specs = setup.toolbox.specs();
    let frame = setup.model.wire.frame(&setup.config.call_spec(&specs));
    let conversation = Conversation::new(frame, recorder)?;
    let run = Run::new(setup.config.clone(), Arc::new(specs));
    let run_id = started.run_id.clone();
    let observer = Guarded::new(observer);
    let references = References::default();
    let mut driver =
        Driver { setup, run, run_id, conversation, recorder, observer, heard: Vec::new(), references };
    driver.record(Fact::RunStarted(Box::new(started)))?;
    driver.run_to_end().await
}

struct Driver<'a> {
    setup: &'a Setup,
    run: Run,
    run_id: RunId,
    conversation: Conversation,
    recorder: &'a mut dyn Recorder,
    observer: Guarded<'a>,
    heard: Vec<String>,
    references: References,
}

impl Driver<'_> {
    async fn run_to_end(&mut self) -> Result<Outcome, TapeError> {
        loop {
            if !self.run.is_stopping()
                && let Some(by) = self.setup.ports.interrupted()
            {
                self.record(Fact::Cancelled(Cancelled { by }))?;
            }
            self.run.keep(self.recorder.redactor());
            match self.run.next() {
                Step::Summarise { turn, messages } => self.summarise(turn, &messages).await?,
                Step::Compact(compacted) => self.compact(*compacted)?,
                Step::Ask { turn, attempt } => self.ask(turn, attempt).await?,
                Step::Wait { turn, attempt, ms } => self.wait(turn, attempt, ms).await?,
                Step::Run(planned) => self.run_stage(planned).await?,
                Step::Refuse(refused) => self.refuse(refused)?,
                Step::Person { asked, outcome } => {
                    if let Some(outcome) = self.ask_person(&asked, *outcome).await? {
                        return Ok(outcome);
                    }
                }
                Step::Done(outcome) => return self.end(*outcome),
            }
        }
    }

    /// Puts a fact on the tape, then tells the machine and the observer.
    fn record(&mut self, fact: Fact) -> Result<(), TapeError> {
        let at_ns = self.setup.ports.now_ns();
        self.record_at(at_ns, fact)
    }

    fn record_at(&mut self, at_ns: i64, mut fact: Fact) -> Result<(), TapeError> {
        match &mut fact {
            Fact::ModelAsked(fact) => fact.heard = std::mem::take(&mut self.heard),
            Fact::ToolStarted(fact) => fact.heard = std::mem::take(&mut self.heard),
            Fact::RunEnded(fact) => fact.heard = std::mem::take(&mut self.heard),
            Fact::Resumed(fact) => fact.heard = std::mem::take(&mut self.heard),
            Fact::SummaryAsked(fact) => fact.heard = std::mem::take(&mut self.heard),
            Fact::PersonAsked(fact) => fact.heard = std::mem::take(&mut self.heard),
            _ => {}
        }
        let recorded = self.recorder.record(at_ns, &fact)?;
        self.heard.push(recorded.digest);
        for event in self.run.feed(at_ns, &fact) {
            self.observer.event(&event);
        }
        self.observer.recorded(recorded.seq, at_ns, &fact);
        Ok(())
    }

    async fn ask(&mut self, turn: u32, attempt: u32) -> Result<(), TapeError> {
        let wire = self.setup.model.wire.clone();
        let added = self.conversation.extend(&*wire, &self.run.state().prompt(), self.recorder)?;
        let body = self.conversation.body();
        let kept = self.conversation.kept(&body);
        let stream = self.setup.config.model.stream;
        let endpoint = wire.endpoint(&self.setup.config.model.name, stream);
        self.record(Fact::ModelAsked(ModelAsked {
            turn,
            attempt,
            endpoint: endpoint.clone(),
            stream,
            said: self.run.state().said.clone(),
            parent: added.parent,
            fragments: added.fragments,
            head: added.head,
            depth: added.depth,
            frame: self.conversation.frame_hash(),
            previous_response_id: self.conversation.previous_response_id().map(str::to_owned),
            body_bytes: kept.len() as u64,
            body_hash: Hash::of(&kept),
            heard: Vec::new(),
        }))?;
        let request = WireRequest { endpoint, body, stream };
        let setup = self.setup;
        let answer = self.send(&setup.model, &request, true).await;
        let by = (&setup.model, setup.config.model.price);
        let fact = self.take_answer(by, (turn, attempt), stream, answer)?;
        if setup.config.model.store {
            let answer = fact.response.as_ref();
            self.conversation.stored(answer.and_then(|response| response.response_id.clone()));
        }
        self.record(Fact::ModelAnswered(Box::new(fact)))
    }

    /// Sends the request; an interruption drops it and becomes a fault.
    async fn send(&mut self, model: &Model, request: &WireRequest, watched: bool) -> Result<Reply, Fault> {
        let mut decoder = (watched && request.stream).then(|| model.wire.stream());
        let observer = &mut self.observer;
        let mut on_chunk = |bytes: &[u8]| {
            // Only for those who watch: the answer itself is decoded from the whole body.
            if let Some(Ok(deltas)) = decoder.as_mut().map(|decoder| decoder.push(bytes)) {
                deltas.iter().for_each(|delta| observer.delta(delta));
            }
        };
        tokio::select! {
            biased;
            reply = guard::brought(model.transport.send(request, &mut on_chunk)) => reply,
            () = self.setup.ports.interruption() => Err(Fault::new(FaultClass::Cancelled, "cancelled")),
        }
    }

    async fn wait(&mut self, turn: u32, attempt: u32, ms: u64) -> Result<(), TapeError> {
        let interrupted = tokio::select! {
            () = self.setup.ports.sleep(Duration::from_millis(ms)) => false,
            () = self.setup.ports.interruption() => true,
        };
        match interrupted {
            // The interruption itself is recorded at the head of the loop.
            true => Ok(()),
            false => self.record(Fact::Waited(Waited { turn, attempt, ms })),
        }
    }

    fn end(&mut self, mut outcome: Outcome) -> Result<Outcome, TapeError> {
        let at_ns = self.setup.ports.now_ns();
        outcome.duration_ms = self.run.state().elapsed_ms(at_ns);
        self.record_at(
            at_ns,
            Fact::RunEnded(Box::new(RunEnded { outcome: outcome.clone(), heard: Vec::new() })),
        )?;
        Ok(outcome)
    }
}
