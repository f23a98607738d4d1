//! Models: a wire (pure translation of messages to bytes and back) over a transport (who carries the bytes).
//!
//! Place in the flow: the driver encodes the conversation with a [`Wire`], hands the body to a [`Transport`] and
//! decodes the answer with the same wire. Recorded runs, scripted runs and real providers differ only in their
//! transport, so all three go through the same encoding and decoding.

pub mod chat;
pub mod fault;
mod frame;
pub mod gemini;
pub mod http;
pub mod messages;
pub mod planner;
pub mod responses;
pub mod scripted;
pub mod sse;

use futures::future::BoxFuture;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use trace::fact::{Chunk, Fault};
use trace::message::{Message, Response};

/// What a request says besides its messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallSpec {
    /// The model asked for.
    pub model: String,
    /// The system prompt; a wire puts it into the frame or into the messages, as its provider wants.
    pub system: String,
    /// The tools on offer.
    pub tools: Vec<ToolOffer>,
    /// Cap on output tokens of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether the frame is marked for the provider's prompt cache, on a wire that has such marks.
    #[serde(default)]
    pub cache: bool,
    /// Whether the provider is to store what is said, so that a request can go on from the answer before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub store: bool,
    /// JSON Schema that the model's text must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Further members of the body, as the configuration gives them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// A tool as it is offered to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOffer {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A request body without its messages: `head`, then the fragments joined by commas, then `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Everything up to and including the `[` of the messages.
    pub head: String,
    /// Everything from the `]` of the messages on.
    pub tail: String,
}

impl Frame {
    /// The bytes that are stored: head and tail with a NUL between, which JSON text never holds.
    #[must_use]
    pub fn stored(&self) -> String {
        format!("{}\u{0}{}", self.head, self.tail)
    }

    /// The frame of stored bytes.
    #[must_use]
    pub fn from_stored(text: &str) -> Option<Self> {
        let (head, tail) = text.split_once('\u{0}')?;
        Some(Self { head: head.to_owned(), tail: tail.to_owned() })
    }

    /// The whole body.
    #[must_use]
    pub fn body(&self, fragments: &[impl AsRef<str>]) -> Vec<u8> {
        let length = fragments.iter().map(|one| one.as_ref().len() + 1).sum::<usize>();
        let mut body = Vec::with_capacity(self.head.len() + length + self.tail.len());
        body.extend_from_slice(self.head.as_bytes());
        for (index, fragment) in fragments.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(fragment.as_ref().as_bytes());
        }
        body.extend_from_slice(self.tail.as_bytes());
        body
    }

    /// The body of a request that goes on from a stored answer: with what was said since, and the answer's id.
    #[must_use]
    pub fn body_after(&self, response_id: &str, fragments: &[impl AsRef<str>]) -> Vec<u8> {
        let mut body = self.body(fragments);
        // The last brace closes the body, whatever the wire's members are.
        body.pop();
        let id = Value::String(response_id.to_owned());
        body.extend_from_slice(format!(",\"previous_response_id\":{id}}}").as_bytes());
        body
    }
}

/// A piece of a streamed answer, for people who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A tool call begins.
    ToolCall {
        /// The tool's name.
        name: String,
    },
}

/// Bytes that are no answer in this wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not the format at all.
    #[error("the {wire} answer is malformed: {why}")]
    Malformed {
        /// The wire.
        wire: &'static str,
        /// What and where.
        why: String,
    },
    /// The stream ended before the message did; nothing of it may be executed.
    #[error("the {wire} stream ended early: {why}")]
    Incomplete {
        /// The wire.
        wire: &'static str,
        /// What was missing.
        why: String,
    },
    /// The provider reported an error inside the stream.
    #[error("{}", .0.message)]
    Provider(Fault),
}

impl DecodeError {
    /// What it means for the call. A cut or malformed answer may come whole the next time.
    #[must_use]
    pub fn into_fault(self) -> Fault {
        match self {
            Self::Provider(fault) => fault,
            other => Fault::new(trace::outcome::FaultClass::Transient, other.to_string()),
        }
    }
}

/// A wire format: pure, so that it can be tested and replayed without a network.
pub trait Wire: Send + Sync + Debug {
    /// Its name in configuration and tapes, one of [`NAMES`].
    fn name(&self) -> &'static str;

    /// Path, and query if there is one, after the base URL, such as `/chat/completions`.
    fn endpoint(&self, model: &str, stream: bool) -> String;

    /// The body's member that lists the messages, such as `messages`.
    fn list(&self) -> &'static str;

    /// Request headers; the key is exposed only here.
    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)>;

    /// The body around the messages.
    fn frame(&self, spec: &CallSpec) -> Frame;

    /// A message as zero or more JSON values for the body's list of messages.
    ///
    /// The same message always gives the same text, and no other message changes it: so encoding is linear.
    fn fragments(&self, message: &Message) -> Vec<String>;

    /// Decodes an answer that was not streamed.
    ///
    /// # Errors
    /// Where the body is not an answer in this wire.
    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError>;

    /// A decoder for one streamed answer.
    fn stream(&self) -> Box<dyn StreamDecoder>;

    /// What an HTTP answer outside 2xx means.
    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault;
}

/// Decodes one streamed answer from pieces cut anywhere.
pub trait StreamDecoder: Send {
    /// Takes the next bytes and tells what became visible.
    ///
    /// # Errors
    /// Where the stream is malformed or the provider reports an error in it.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, DecodeError>;

    /// The whole answer; only now are arguments of tool calls complete.
    ///
    /// # Errors
    /// Where the stream ended before the message did.
    fn finish(self: Box<Self>) -> Result<Response, DecodeError>;
}

/// A request ready to be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRequest {
    /// Path and query after the base URL.
    pub endpoint: String,
    /// The body as sent.
    pub body: Vec<u8>,
    /// Whether the answer is expected as a stream.
    pub stream: bool,
}

/// What came back, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The headers that matter (see [`http::KEPT_HEADERS`]), lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The chunks it came in.
    pub chunks: Vec<Chunk>,
    /// From sending to the last byte, in nanoseconds.
    pub latency_ns: u64,
    /// Why the body is not whole, if the connection broke.
    pub cut: Option<Fault>,
}

/// Carries request bytes to a model and answer bytes back.
pub trait Transport: Send + Sync + Debug {
    /// Sends a request. `on_chunk` sees each piece of a 2xx body as it arrives.
    ///
    /// The future is dropped to cancel. Any HTTP status is a `Reply`.
    ///
    /// # Errors
    /// A fault where no HTTP answer came at all (refused, timed out, unreachable).
    fn send<'a>(
        &'a self,
        request: &'a WireRequest,
        on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>>;
}

/// A wire over a transport.
#[derive(Debug, Clone)]
pub struct Model {
    /// The provider's name, such as `openai`.
    pub provider: String,
    /// The translation.
    pub wire: Arc<dyn Wire>,
    /// The carrier.
    pub transport: Arc<dyn Transport>,
}

/// The names of all wires.
pub const NAMES: [&str; 4] = [chat::NAME, responses::NAME, messages::NAME, gemini::NAME];

/// The wire with this name.
#[must_use]
pub fn wire(name: &str) -> Option<Arc<dyn Wire>> {
    match name {
        chat::NAME => Some(Arc::new(chat::Chat)),
        responses::NAME => Some(Arc::new(responses::Responses)),
        messages::NAME => Some(Arc::new(messages::Messages)),
        gemini::NAME => Some(Arc::new(gemini::Gemini)),
        _ => None,
    }
}
