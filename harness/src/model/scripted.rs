//! A model that says what a script tells it: for tests, the demo and dry runs.
//!
//! Place in the flow: a [`Transport`] like any other. It answers in the bytes of the wire it was given, so that a
//! scripted run is encoded, decoded and recorded exactly as a real one.

use super::{Reply, Transport, Wire, WireRequest, chat, gemini, messages, responses};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use trace::fact::{Chunk, Fault};
use trace::message::Response;
use trace::outcome::FaultClass;

/// What a scripted model does when it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ScriptTurn {
    /// It answers.
    Answer(Response),
    /// It sends exactly this.
    Raw {
        /// HTTP status.
        status: u16,
        /// Response headers, lower case.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// The body.
        body: String,
    },
    /// No HTTP answer comes.
    Fault(Fault),
    /// It waits, then does the rest.
    After {
        /// How long, in milliseconds.
        delay_ms: u64,
        /// What it then does.
        then: Box<Self>,
    },
    /// It never answers.
    Hang,
}

/// An answer in the bytes of a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    /// The `content-type` header.
    pub content_type: &'static str,
    /// The body: one piece, or one for each event of a stream.
    pub pieces: Vec<String>,
}

/// What a provider of the wire with this name would send; `None` where no such wire is known.
#[must_use]
pub fn speak(wire: &str, response: &Response, stream: bool) -> Option<Spoken> {
    let pieces = match (wire, stream) {
        (chat::NAME, true) => chat::speak::events(response),
        (chat::NAME, false) => vec![chat::speak::body(response).to_string()],
        (messages::NAME, true) => messages::speak::events(response),
        (messages::NAME, false) => vec![messages::speak::body(response).to_string()],
        (responses::NAME, true) => responses::speak::events(response),
        (responses::NAME, false) => vec![responses::speak::body(response).to_string()],
        (gemini::NAME, true) => gemini::speak::events(response),
        (gemini::NAME, false) => vec![gemini::speak::body(response).to_string()],
        _ => return None,
    };
    Some(Spoken { content_type: if stream { "text/event-stream" } else { "application/json" }, pieces })
}

/// Answers from a list of turns, one a request, in order.
#[derive(Debug)]
pub struct Scripted {
    wire: Arc<dyn Wire>,
    turns: Vec<ScriptTurn>,
    next: AtomicUsize,
}

impl Scripted {
    /// A transport that plays these turns in the bytes of this wire.
    #[must_use]
    pub fn new(wire: Arc<dyn Wire>, turns: Vec<ScriptTurn>) -> Self {
        Self { wire, turns, next: AtomicUsize::new(0) }
    }

    /// How many requests were made.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    async fn play(
        &self,
        request: &WireRequest,
        on_chunk: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<Reply, Fault> {
        let started = Instant::now();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let mut turn = self.turns.get(index).ok_or_else(|| self.exhausted(index))?;
        loop {
            match turn {
                ScriptTurn::After { delay_ms, then } => {
                    tokio::time::sleep(Duration::from_millis(*delay_ms)).await;
                    turn = then;
                }
                ScriptTurn::Hang => return std::future::pending().await,
                ScriptTurn::Fault(fault) => return Err(fault.clone()),
                ScriptTurn::Raw { status, headers, body } => {
                    return Ok(reply(
                        *status,
                        headers.clone(),
                        std::slice::from_ref(body),
                        started,
                        on_chunk,
                    ));
                }
                ScriptTurn::Answer(response) => {
                    let spoken =
                        speak(self.wire.name(), response, request.stream).ok_or_else(|| self.mute())?;
                    let headers =
                        BTreeMap::from([("content-type".to_owned(), spoken.content_type.to_owned())]);
                    return Ok(reply(200, headers, &spoken.pieces, started, on_chunk));
                }
            }
        }
    }

    fn exhausted(&self, index: usize) -> Fault {
        let (asked, turns) = (index + 1, self.turns.len());
        let message =
            format!("the script has {turns} turns, and turn {asked} was asked for: add a turn to it");
        Fault::new(FaultClass::Permanent, message)
    }

    fn mute(&self) -> Fault {
        let message = format!("a script cannot speak the wire `{}`", self.wire.name());
        Fault::new(FaultClass::Permanent, message)
    }
}

impl Transport for Scripted {
    fn send<'a>(
        &'a self,
        request: &'a WireRequest,
        on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(self.play(request, on_chunk))
    }
}

fn reply(
    status: u16,
    headers: BTreeMap<String, String>,
    pieces: &[String],
    started: Instant,
    on_chunk: &mut (dyn FnMut(&[u8]) + Send),
) -> Reply {
    let elapsed_ns = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut chunks = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        chunks.push(Chunk { bytes, after_ns: elapsed_ns() });
        if (200..300).contains(&status) {
            on_chunk(piece.as_bytes());
        }
    }
    Reply { status, headers, body: pieces.concat().into_bytes(), chunks, latency_ns: elapsed_ns(), cut: None }
}

#[cfg(test)]
mod tests;
