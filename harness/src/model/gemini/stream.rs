//! A streamed Gemini answer, gathered.
//!
//! Place in the flow: chunks of bytes -> events -> pieces of the answer -> [`Response`]. The stream has no event of
//! its own for the end: the piece with the `finishReason` is the last that says something.

use super::decode::Gathered;
use super::{incomplete, malformed};
use crate::model::sse::SseParser;
use crate::model::{DecodeError, Delta, StreamDecoder};
use trace::message::Response;

/// Gathers one streamed answer.
#[derive(Debug, Default)]
pub struct GeminiStream {
    sse: SseParser,
    gathered: Gathered,
}

impl StreamDecoder for GeminiStream {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, DecodeError> {
        let mut deltas = Vec::new();
        for event in self.sse.push(bytes).map_err(|error| malformed(error.to_string()))? {
            self.take_in(&event.data, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn finish(mut self: Box<Self>) -> Result<Response, DecodeError> {
        if let Some(event) = std::mem::take(&mut self.sse).finish() {
            // What the stream breaks off in is not worth more than the rest of it.
            self.take_in(&event.data, &mut Vec::new()).map_err(|error| match error {
                DecodeError::Malformed { why, .. } => {
                    incomplete(format!("it breaks off inside an event: {why}"))
                }
                other => other,
            })?;
        }
        self.gathered.response().ok_or_else(|| incomplete("no finishReason came"))
    }
}

impl GeminiStream {
    fn take_in(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        if data.trim().is_empty() || data.trim() == "[DONE]" {
            return Ok(());
        }
        self.gathered.take_in(data, deltas)
    }
}
