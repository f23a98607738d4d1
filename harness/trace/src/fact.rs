//! The vocabulary of a run: everything that can be written to a tape, in the order it was fed to the machine.
//!
//! Place in the flow: the driver makes facts, the machine folds them, the tape keeps them; spans and rows are
//! derived. A change here is a change of the tape format: raise [`crate::tape::FORMAT`] and add an old tape to
//! `datasets/tapes`.
//!
//! Two kinds: *intents* (`*_asked`, `*_started`) are written before something happens outside; *results* after.
//! Contents live in blobs, named here by their hash.

mod part;

pub use part::{Child, Compacted, Shown};
mod person;

pub use person::{Answer, PersonAnswered, PersonAsked, Ruling, Wants, Way, waiting};

use crate::id::{CallKey, Hash, RunId, SpanId, TraceId};
use crate::message::{Message, Response, Usage};
use crate::outcome::{FailureStage, FaultClass, Outcome, ToolStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// The run began.
    RunStarted(Box<RunStarted>),
    /// Intent: a request is about to be sent to the model.
    ModelAsked(ModelAsked),
    /// Result: one attempt came back, with an answer or a fault.
    ModelAnswered(Box<ModelAnswered>),
    /// The pause before the next attempt is over.
    Waited(Waited),
    /// Intent: a tool is about to be run. Synced to disk before the tool starts if it has side effects.
    ToolStarted(ToolStarted),
    /// Result: a tool call has its one result, whether it ran or was refused.
    ToolFinished(Box<ToolFinished>),
    /// The caller, a signal or a deadline asked the run to end.
    Cancelled(Cancelled),
    /// The run ended.
    RunEnded(Box<RunEnded>),
    /// The run goes on in another process, after a crash or after it had ended at a limit.
    Resumed(Box<Resumed>),
    /// Intent: a model is about to be asked to put the older part of the conversation into few words.
    SummaryAsked(Box<ModelAsked>),
    /// Result: what it answered. No turn of the run; its tokens and cost are the run's.
    SummaryAnswered(Box<ModelAnswered>),
    /// The model is shown less from here on; the conversation itself stays whole.
    Compacted(Box<Compacted>),
    /// Intent: a person is about to be asked about a call.
    PersonAsked(Box<PersonAsked>),
    /// Result: a person answered.
    PersonAnswered(Box<PersonAnswered>),
}

impl Fact {
    /// The word in the tape's `type` field.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::ModelAsked(_) => "model_asked",
            Self::ModelAnswered(_) => "model_answered",
            Self::Waited(_) => "waited",
            Self::ToolStarted(_) => "tool_started",
            Self::ToolFinished(_) => "tool_finished",
            Self::Cancelled(_) => "cancelled",
            Self::RunEnded(_) => "run_ended",
            Self::Resumed(_) => "resumed",
            Self::SummaryAsked(_) => "summary_asked",
            Self::SummaryAnswered(_) => "summary_answered",
            Self::Compacted(_) => "compacted",
            Self::PersonAsked(_) => "person_asked",
            Self::PersonAnswered(_) => "person_answered",
        }
    }

    /// The turn the fact belongs to; 0 before the first turn, `None` for the end and cancellation.
    #[must_use]
    pub const fn turn(&self) -> Option<u32> {
        match self {
            Self::RunStarted(_) => Some(0),
            Self::ModelAsked(fact) => Some(fact.turn),
            Self::ModelAnswered(fact) => Some(fact.turn),
            Self::Waited(fact) => Some(fact.turn),
            Self::ToolStarted(fact) => Some(fact.key.turn),
            Self::ToolFinished(fact) => Some(fact.key.turn),
            Self::SummaryAsked(fact) => Some(fact.turn),
            Self::SummaryAnswered(fact) => Some(fact.turn),
            Self::Compacted(fact) => Some(fact.turn),
            Self::PersonAsked(fact) => Some(fact.key.turn),
            Self::PersonAnswered(fact) => Some(fact.key.turn),
            Self::Cancelled(_) | Self::RunEnded(_) | Self::Resumed(_) => None,
        }
    }

    /// The lines written since the last intent, where the fact is an intent or the end.
    #[must_use]
    pub fn heard(&self) -> &[String] {
        match self {
            Self::ModelAsked(fact) => &fact.heard,
            Self::ToolStarted(fact) => &fact.heard,
            Self::RunEnded(fact) => &fact.heard,
            Self::Resumed(fact) => &fact.heard,
            Self::SummaryAsked(fact) => &fact.heard,
            Self::PersonAsked(fact) => &fact.heard,
            _ => &[],
        }
    }
}

/// Who the run is, and everything needed to run it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id.
    pub run_id: RunId,
    /// The trace the run's spans belong to.
    pub trace_id: TraceId,
    /// The span that caused the run, if the caller passed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<SpanId>,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The agent's name.
    pub agent: String,
    /// The service the agent runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The provider, such as `openai` or `anthropic`.
    pub provider: String,
    /// The model asked for.
    pub model: String,
    /// The wire format, such as `chat` or `messages`.
    pub wire: String,
    /// What the run was asked to do.
    pub task: String,
    /// Blob: the agent's whole configuration as JSON, secrets left out.
    pub config: Hash,
    /// Blob: the specifications of all tools as JSON.
    pub tools: Hash,
    /// BLAKE3 of the system prompt's text.
    pub prompt_hash: Hash,
    /// The prompt's name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
    /// The prompt's version, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// The limits of the run by name, for spans and rows; the configuration holds the whole.
    pub limits: BTreeMap<String, f64>,
    /// The conversation this run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The run of that conversation that it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// Blob: what was said in the conversation before this run, as a JSON list of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Hash>,
    /// The same as messages.
    #[serde(skip)]
    pub earlier: Vec<Message>,
    /// The user it runs for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The deployment environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The release of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The case of a suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Which repeat of the case, 0-based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<u32>,
    /// Free words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The run that this one replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// How it replays it, such as `live_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_mode: Option<String>,
}

/// A request as it is about to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAsked {
    /// Turn, 1-based.
    pub turn: u32,
    /// Attempt within the turn, 1-based.
    pub attempt: u32,
    /// Path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: String,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// What the loop itself added since the last request: system prompt and task, nudges, corrections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Message>,
    /// The conversation before this request's new messages; absent when it starts afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Hash>,
    /// Blobs: the wire fragments added since `parent`, in order.
    pub fragments: Vec<Hash>,
    /// The conversation as sent: `node = H(parent, fragment)` over all fragments.
    pub head: Hash,
    /// How many fragments the conversation has.
    pub depth: u32,
    /// Blob: the body without its messages.
    pub frame: Hash,
    /// The stored answer that the body goes on from; the body then bears only what was said since that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_response_id: Option<String>,
    /// Length of the body in bytes: as sent, unless something in it was redacted.
    pub body_bytes: u64,
    /// BLAKE3 of the same body.
    pub body_hash: Hash,
    /// The lines written since the last intent, that one included, each as `seq:digest`. Redundant on purpose:
    /// it is rebuilt by an exact replay, so a recorded input that was changed and re-sealed is still found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}

/// What came back for one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// Turn, 1-based.
    pub turn: u32,
    /// Attempt within the turn, 1-based.
    pub attempt: u32,
    /// HTTP status; absent when no answer came at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The response headers that matter, lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Blob: the body's bytes as received, after redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Hash>,
    /// Whether `body` was written anew because a secret lay across the pieces of the original.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recut: bool,
    /// Whether the connection broke before the body's end; `fault` then says how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The chunks the body arrived in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// The answer, decoded from `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// What went wrong instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// From sending to the end of the answer, in nanoseconds of the run's clock.
    pub latency_ns: u64,
    /// Cost in US dollars by the price table; `None` where the price or the tokens are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl ModelAnswered {
    /// Time to the first chunk in milliseconds, where the answer came in chunks.
    #[must_use]
    pub fn ttft_ms(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of one call fit f64 exactly enough")]
        self.chunks.first().map(|chunk| chunk.after_ns as f64 / 1e6)
    }

    /// The tokens of the answer, if there is one.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.response.as_ref().map(|response| response.usage).unwrap_or_default()
    }
}

/// A piece of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Length in bytes.
    pub bytes: u32,
    /// Arrival after the request was sent, in nanoseconds.
    pub after_ns: u64,
}

/// A failure of a model call or a tool, in the words of the taxonomy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind; it alone decides on retry and stop.
    pub class: FaultClass,
    /// What happened, for people and for the model.
    pub message: String,
    /// How long the other side asked us to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How long it was waited for, where it took too long, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

impl Fault {
    /// A fault of this class with this message.
    #[must_use]
    pub fn new(class: FaultClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after_ms: None, elapsed_ms: None }
    }
}

/// A pause between attempts that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// Turn, 1-based.
    pub turn: u32,
    /// The attempt that failed before the pause.
    pub attempt: u32,
    /// How long, in milliseconds.
    pub ms: u64,
}

/// A tool call about to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// Which call.
    pub key: CallKey,
    /// The provider's id.
    pub call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments as canonical JSON.
    pub arguments: String,
    /// BLAKE3 of the tool's name and canonical arguments.
    pub args_hash: Hash,
    /// The decision that allows it, such as `allow`.
    pub permission: String,
    /// The rule that made the decision.
    pub permission_rule: String,
    /// Whether the tool may be run again when nobody knows whether it ran.
    pub idempotent: bool,
    /// Whether the intent was synced to disk before the tool started.
    pub synced: bool,
    /// What a call that is a run of its own may use up, by the names of [`RunStarted::limits`]; what the run has
    /// left, shared with the calls beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<BTreeMap<String, f64>>,
    /// As in [`ModelAsked::heard`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}

/// The one result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// Which call.
    pub key: CallKey,
    /// The provider's id, echoed exactly.
    pub call_id: String,
    /// The tool's name as the model wrote it.
    pub tool_name: String,
    /// The arguments: canonical JSON where they parse, else the text as received.
    pub arguments: String,
    /// BLAKE3 of the tool's name and canonical arguments.
    pub args_hash: Hash,
    /// How it ended.
    pub status: ToolStatus,
    /// Blob: the whole result as text.
    pub result: Hash,
    /// Blob: what the model is shown, if it was cut; otherwise the same as `result`.
    pub shown: Hash,
    /// What the model is shown, as text; the blob `shown` holds the same.
    #[serde(skip)]
    pub content: String,
    /// BLAKE3 of the result's canonical form; equal for results that say the same.
    pub result_hash: Hash,
    /// The kind of failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<FaultClass>,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_stage: Option<FailureStage>,
    /// The decision of the policy, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Time inside the tool, in nanoseconds; 0 where it was refused.
    pub latency_ns: u64,
    /// The run that the call was, where the tool is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<Child>>,
}

/// A request to end the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Who or what asked, such as `interrupt` or `deadline`.
    pub by: String,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// How it ended.
    pub outcome: Outcome,
    /// As in [`ModelAsked::heard`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}

/// The run goes on. The time since the line before does not count as the run's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The budget from here on, as the configuration spells it; absent where it stays as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<serde_json::Value>,
    /// The limits of that budget by name, as in [`RunStarted::limits`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, f64>,
    /// Runs that were calls of this one and whose end it never heard of, because its process died: what they used up,
    /// by their own tapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Child>,
    /// As in [`ModelAsked::heard`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}
