//! What a model's bytes mean, and what of them is kept.
//!
//! Place in the flow: the driver sends a request; here the reply becomes the fact [`ModelAnswered`], decoded for
//! the machine and redacted for the tape.

use super::Driver;
use crate::config::Price;
use crate::model::scripted::speak;
use crate::model::{DecodeError, Model, Reply};
use trace::fact::{Chunk, Fault, ModelAnswered};
use trace::message::Response;
use trace::tape::TapeError;

impl Driver<'_> {
    pub(super) fn take_answer(
        &mut self,
        (model, price): (&Model, Option<Price>),
        (turn, attempt): (u32, u32),
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
        match decode(model, stream, &reply) {
            Ok(response) => {
                fact.cost_usd = price.and_then(|price| price.cost_usd(&response.usage));
                fact.response = Some(response);
            }
            Err(fault) => fact.fault = Some(fault),
        }
        let body = self.kept_body(model, stream, &reply, fact.response.as_ref());
        fact.recut = body.recut;
        fact.chunks = body.chunks;
        fact.body = Some(self.recorder.blob(&body.bytes)?);
        fact.headers = reply.headers;
        Ok(fact)
    }

    /// The body to keep: as received, or without the secrets in it, cut anew.
    fn kept_body(&self, model: &Model, stream: bool, reply: &Reply, response: Option<&Response>) -> Kept {
        let redactor = self.recorder.redactor();
        let redacted = redactor.bytes(&reply.body);
        let mut kept =
            Kept { chunks: recut(&reply.chunks, redacted.len()), bytes: redacted.into_owned(), recut: false };
        // A secret can lie across the pieces of a stream, where no pattern sees it. Then the text that was put
        // together shows it, and the body is spoken anew from the redacted text.
        if let Some(clean) = response.and_then(|response| redacted_response(redactor, response)) {
            let read_back = decode(model, stream, &Reply { body: kept.bytes.clone(), ..reply.clone() });
            if read_back.as_ref() != Ok(&clean) {
                let spoken = speak(model.wire.name(), &clean, stream);
                kept.bytes = spoken.map(|spoken| spoken.pieces.concat().into_bytes()).unwrap_or_default();
                kept.chunks = recut(&reply.chunks, kept.bytes.len());
                kept.recut = true;
            }
        }
        kept
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
