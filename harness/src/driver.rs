//! The driver performs what the machine says: the only tokio in the loop.
//!
//! Place in the flow: machine -> **driver** -> fact -> tape. Order is everything here: an intent is on the tape
//! before its effect, synced first if the effect leaves the process, and a result is on the tape before the
//! machine hears it. A tape that cannot be written ends the run at once; nothing is done off the record.

use crate::config::AgentConfig;
use crate::conversation::Conversation;
use crate::hands::{Executed, Hands, error_text};
use crate::machine::{Event, Planned, Refused, Run, Step};
use crate::model::scripted::speak;
use crate::model::{DecodeError, Delta, Model, Reply, WireRequest};
use crate::policy::{self, Decision, Permit};
use crate::port::Ports;
use crate::tool::{ToolSpec, Toolbox, shown::shown};
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use trace::canonical::{args_hash, canonical_text, result_hash};
use trace::fact::{
    Cancelled, Chunk, Fact, Fault, ModelAnswered, ModelAsked, RunEnded, RunStarted, ToolFinished, ToolStarted, Waited,
};
use trace::id::{CallKey, RunId};
use trace::message::{Response, ToolCall};
use trace::outcome::{FailureStage, FaultClass, Outcome, ToolStatus};
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

/// Drives a run to its end.
///
/// # Errors
/// Where the tape cannot be written (or, in a replay, differs): the run then stands as the tape has it.
pub async fn drive(
    setup: &Setup,
    started: RunStarted,
    recorder: &mut dyn Recorder,
    observer: &mut dyn Observer,
) -> Result<Outcome, TapeError> {
    let specs = setup.toolbox.specs();
    let frame = setup.model.wire.frame(&setup.config.call_spec(&specs));
    let conversation = Conversation::new(frame, recorder)?;
    let run = Run::new(setup.config.clone(), Arc::new(specs));
    let run_id = started.run_id.clone();
    let mut driver = Driver { setup, run, run_id, conversation, recorder, observer, heard: Vec::new() };
    driver.record(Fact::RunStarted(Box::new(started)))?;
    driver.to_the_end().await
}

struct Driver<'a> {
    setup: &'a Setup,
    run: Run,
    run_id: RunId,
    conversation: Conversation,
    recorder: &'a mut dyn Recorder,
    observer: &'a mut dyn Observer,
    heard: Vec<String>,
}

impl Driver<'_> {
    async fn to_the_end(&mut self) -> Result<Outcome, TapeError> {
        loop {
            if !self.run.is_stopping()
                && let Some(by) = self.setup.ports.interrupted()
            {
                self.record(Fact::Cancelled(Cancelled { by }))?;
            }
            match self.run.next() {
                Step::Ask { turn, attempt } => self.ask(turn, attempt).await?,
                Step::Wait { turn, attempt, ms } => self.wait(turn, attempt, ms).await?,
                Step::Run(planned) => self.run_stage(planned).await?,
                Step::Refuse(refused) => self.refuse(refused)?,
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
        let added = self.conversation.extend(&*wire, &self.run.state().messages, self.recorder)?;
        let body = self.conversation.body();
        let stream = self.setup.config.model.stream;
        self.record(Fact::ModelAsked(ModelAsked {
            turn,
            attempt,
            endpoint: wire.endpoint().to_owned(),
            stream,
            said: self.run.state().said.clone(),
            parent: added.parent,
            fragments: added.fragments,
            head: added.head,
            depth: added.depth,
            frame: self.conversation.frame_hash(),
            body_bytes: body.len() as u64,
            body_hash: self.conversation.body_hash(&body),
            heard: Vec::new(),
        }))?;
        let request = WireRequest { body, stream };
        let answer = self.send(&request).await;
        let fact = self.take_answer(turn, attempt, stream, answer)?;
        self.record(Fact::ModelAnswered(Box::new(fact)))
    }

    /// Sends the request; an interruption drops it and becomes a fault.
    async fn send(&mut self, request: &WireRequest) -> Result<Reply, Fault> {
        let mut decoder = request.stream.then(|| self.setup.model.wire.stream());
        let observer = &mut *self.observer;
        let mut on_chunk = |bytes: &[u8]| {
            // Only for those who watch: the answer itself is decoded from the whole body.
            if let Some(Ok(deltas)) = decoder.as_mut().map(|decoder| decoder.push(bytes)) {
                deltas.iter().for_each(|delta| observer.delta(delta));
            }
        };
        tokio::select! {
            biased;
            reply = self.setup.model.transport.send(request, &mut on_chunk) => reply,
            () = self.setup.ports.interruption() => Err(Fault::new(FaultClass::Cancelled, "cancelled")),
        }
    }

    fn take_answer(
        &mut self,
        turn: u32,
        attempt: u32,
        stream: bool,
        answer: Result<Reply, Fault>,
    ) -> Result<ModelAnswered, TapeError> {
        let mut fact = ModelAnswered {
            turn,
            attempt,
            status: None,
            headers: std::collections::BTreeMap::new(),
            body: None,
            recut: false,
            cut: false,
            chunks: Vec::new(),
            response: None,
            fault: None,
            latency_ns: 0,
            cost_usd: None,
        };
        let reply = match answer {
            Ok(reply) => reply,
            Err(fault) => {
                fact.fault = Some(fault);
                return Ok(fact);
            }
        };
        fact.status = Some(reply.status);
        fact.latency_ns = reply.latency_ns;
        fact.cut = reply.cut.is_some();
        match decode(&self.setup.model, stream, &reply) {
            Ok(response) => {
                fact.cost_usd = self.setup.config.model.price.and_then(|price| price.cost_usd(&response.usage));
                fact.response = Some(response);
            }
            Err(fault) => fact.fault = Some(fault),
        }
        let body = self.kept_body(stream, &reply, fact.response.as_ref());
        fact.recut = body.recut;
        fact.chunks = body.chunks;
        fact.body = Some(self.recorder.blob(&body.bytes)?);
        fact.headers = reply.headers;
        Ok(fact)
    }

    /// The body to keep: as received, or without the secrets in it, cut anew.
    fn kept_body(&self, stream: bool, reply: &Reply, response: Option<&Response>) -> Kept {
        let redactor = self.recorder.redactor();
        let redacted = redactor.bytes(&reply.body);
        let mut kept = Kept { chunks: recut(&reply.chunks, redacted.len()), bytes: redacted.into_owned(), recut: false };
        // A secret can lie across the pieces of a stream, where no pattern sees it. Then the text that was put
        // together shows it, and the body is spoken anew from the redacted text.
        if let Some(clean) = response.and_then(|response| redacted_response(redactor, response)) {
            let read_back = decode(&self.setup.model, stream, &Reply { body: kept.bytes.clone(), ..reply.clone() });
            if read_back.as_ref() != Ok(&clean) {
                let spoken = speak(self.setup.model.wire.name(), &clean, stream);
                kept.bytes = spoken.map(|spoken| spoken.pieces.concat().into_bytes()).unwrap_or_default();
                kept.chunks = recut(&reply.chunks, kept.bytes.len());
                kept.recut = true;
            }
        }
        kept
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

    /// Runs a stage: intents in order, then all calls together, then results in order.
    async fn run_stage(&mut self, planned: Vec<Planned>) -> Result<(), TapeError> {
        let mut prepared = Vec::with_capacity(planned.len());
        for one in planned {
            let ready = self.prepare(&one);
            if let Ok((permit, spec)) = &ready {
                self.announce(&one, permit, spec)?;
            }
            prepared.push((one, ready));
        }
        let hands = &self.setup.hands;
        let results = join_all(prepared.into_iter().map(|(one, ready)| async move {
            match ready {
                Ok((permit, spec)) => {
                    let rule = format!("allow:{}", permit.rule());
                    (one, hands.carry_out(permit, &spec).await, Some(rule))
                }
                Err(refusal) => (one, refusal.executed, refusal.permission),
            }
        }))
        .await;
        for (one, executed, permission) in results {
            self.finish(one.key, one.call, executed, permission)?;
        }
        Ok(())
    }

    /// Writes the intent of a call, synced if its effect leaves the process.
    fn announce(&mut self, one: &Planned, permit: &Permit, spec: &ToolSpec) -> Result<(), TapeError> {
        let arguments = canonical_text(&one.call.arguments);
        let synced = !spec.is_concurrent();
        self.record(Fact::ToolStarted(ToolStarted {
            key: one.key,
            call_id: one.call.call_id.clone(),
            tool_name: one.call.tool_name.clone(),
            args_hash: self.args_hash(&one.call.tool_name, &arguments),
            arguments,
            permission: "allow".to_owned(),
            permission_rule: permit.rule().to_owned(),
            idempotent: spec.is_repeatable(),
            synced,
            heard: Vec::new(),
        }))?;
        if synced { self.recorder.sync() } else { Ok(()) }
    }

    /// Finds the tool, checks the arguments, asks policy: in this order, and the first no is the result.
    fn prepare(&self, one: &Planned) -> Result<(Permit, ToolSpec), Refusal> {
        let toolbox = &self.setup.toolbox;
        let Some(spec) = toolbox.spec(&one.call.tool_name) else {
            let names: Vec<&str> = toolbox.names().collect();
            let message = format!("there is no tool `{}`; there are: {}", one.call.tool_name, names.join(", "));
            return Err(Refusal::new(ToolStatus::Error, FailureStage::UnknownTool, &message));
        };
        if let Err(why) = toolbox.validate(&spec.name, &one.call.arguments) {
            return Err(Refusal::new(ToolStatus::Error, FailureStage::Validation, &why));
        }
        match policy::decide(&self.setup.config.policy, &self.run_id, one.key, &one.call, spec) {
            Decision::Allow(permit) => Ok((permit, spec.clone())),
            Decision::Deny { rule, reason, .. } => Err(Refusal {
                permission: Some(format!("deny:{rule}")),
                ..Refusal::new(ToolStatus::Denied, FailureStage::Permission, &reason)
            }),
        }
    }

    fn refuse(&mut self, refused: Vec<Refused>) -> Result<(), TapeError> {
        for one in refused {
            let kind = one.stage.map_or(one.status.as_str(), kind);
            let executed = Executed {
                status: one.status,
                content: error_text(kind, &one.message),
                error_class: None,
                failure_stage: one.stage,
                attempts: 0,
                latency_ns: 0,
            };
            self.finish(one.key, one.call, executed, None)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        key: CallKey,
        call: ToolCall,
        executed: Executed,
        permission: Option<String>,
    ) -> Result<(), TapeError> {
        let arguments = canonical_text(&call.arguments);
        let content = shown(&executed.content, self.setup.config.budget.max_tool_result_chars).into_owned();
        let result = self.recorder.blob(executed.content.as_bytes())?;
        let shown = if content == executed.content { result } else { self.recorder.blob(content.as_bytes())? };
        self.record(Fact::ToolFinished(Box::new(ToolFinished {
            key,
            call_id: call.call_id,
            args_hash: self.args_hash(&call.tool_name, &arguments),
            tool_name: call.tool_name,
            arguments,
            status: executed.status,
            result,
            shown,
            content,
            result_hash: result_hash(&self.recorder.redactor().text(&executed.content)),
            error_class: executed.error_class,
            failure_stage: executed.failure_stage,
            permission,
            attempts: executed.attempts,
            latency_ns: executed.latency_ns,
        })))
    }

    /// The hash of a call as it is kept: equal secrets have equal placeholders, so repeats are still found.
    fn args_hash(&self, tool_name: &str, arguments: &str) -> trace::id::Hash {
        args_hash(tool_name, &self.recorder.redactor().text(arguments))
    }

    fn end(&mut self, mut outcome: Outcome) -> Result<Outcome, TapeError> {
        let at_ns = self.setup.ports.now_ns();
        outcome.duration_ms = self.run.state().elapsed_ms(at_ns);
        self.record_at(at_ns, Fact::RunEnded(Box::new(RunEnded { outcome: outcome.clone(), heard: Vec::new() })))?;
        self.recorder.sync()?;
        Ok(outcome)
    }
}

/// A call that was refused before it could start.
struct Refusal {
    executed: Executed,
    permission: Option<String>,
}

impl Refusal {
    fn new(status: ToolStatus, stage: FailureStage, message: &str) -> Self {
        let executed = Executed {
            status,
            content: error_text(kind(stage), message),
            error_class: None,
            failure_stage: Some(stage),
            attempts: 0,
            latency_ns: 0,
        };
        Self { executed, permission: None }
    }
}

/// What the model is told a refusal is.
const fn kind(stage: FailureStage) -> &'static str {
    match stage {
        FailureStage::UnknownTool => "unknown_tool",
        FailureStage::Validation => "invalid_arguments",
        FailureStage::Permission => "permission_denied",
        FailureStage::Budget => "budget_exhausted",
        FailureStage::Execution => "unknown_outcome",
        FailureStage::Timeout => "timeout",
    }
}

/// A response body as it is kept.
struct Kept {
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
    recut: bool,
}

/// What an HTTP answer means: a response, or a fault.
fn decode(model: &Model, stream: bool, reply: &Reply) -> Result<Response, Fault> {
    if !(200..300).contains(&reply.status) {
        return Err(model.wire.fault(reply.status, &reply.headers, &reply.body));
    }
    if let Some(cut) = &reply.cut {
        return Err(cut.clone());
    }
    // A server may answer a request for a stream with a whole body: the content type tells.
    let streamed = match reply.headers.get("content-type") {
        Some(kind) => kind.starts_with("text/event-stream"),
        None => stream,
    };
    let decoded = match streamed {
        false => model.wire.decode(&reply.body),
        true => {
            let mut decoder = model.wire.stream();
            decoder.push(&reply.body).and_then(|_| decoder.finish())
        }
    };
    decoded.map_err(DecodeError::into_fault)
}

/// The response without secrets; `None` where it holds none.
fn redacted_response(redactor: &trace::redact::Redactor, response: &Response) -> Option<Response> {
    let text = serde_json::to_string(response).ok()?;
    match redactor.text(&text) {
        std::borrow::Cow::Borrowed(_) => None,
        std::borrow::Cow::Owned(clean) => serde_json::from_str(&clean).ok(),
    }
}

/// Moves chunk boundaries so that they cover `length` bytes.
fn recut(chunks: &[Chunk], length: usize) -> Vec<Chunk> {
    let mut left = u32::try_from(length).unwrap_or(u32::MAX);
    let mut cut: Vec<Chunk> = chunks
        .iter()
        .map(|chunk| {
            let bytes = chunk.bytes.min(left);
            left -= bytes;
            Chunk { bytes, ..*chunk }
        })
        .collect();
    if let Some(last) = cut.last_mut() {
        last.bytes += left;
    }
    cut
}
