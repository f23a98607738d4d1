//! Smaller views and the summaries they may need.
//!
//! Place in the flow: the machine says that the model is to be shown less; here the new view is put on the tape, and
//! the conversation is encoded anew. A summary is a model call like any other: intent, answer, tokens and cost.

use super::Driver;
use crate::context::summarise::INSTRUCTION;
use crate::conversation::Conversation;
use crate::model::{CallSpec, Model, WireRequest};
use trace::fact::{Compacted, Fact, ModelAsked};
use trace::id::Hash;
use trace::message::Message;
use trace::tape::TapeError;

impl Driver<'_> {
    /// Shows the model less from here on.
    pub(super) fn compact(&mut self, compacted: Compacted) -> Result<(), TapeError> {
        self.record(Fact::Compacted(Box::new(compacted)))?;
        self.conversation.restart();
        Ok(())
    }

    /// Asks for a summary. Whatever comes back is a fact; without a summary the machine goes on as if it were asked
    /// to prune.
    pub(super) async fn summarise(&mut self, turn: u32, messages: &[Message]) -> Result<(), TapeError> {
        let (model, spec) = self.summariser();
        let price = self.setup.config.context_model().price;
        let mut side = Conversation::new(model.wire.frame(&spec), self.recorder)?;
        let messages: Vec<&Message> = messages.iter().collect();
        let added = side.extend(&*model.wire, &messages, self.recorder)?;
        let body = side.body();
        let kept = side.kept(&body);
        let endpoint = model.wire.endpoint(&spec.model, spec.stream);
        self.record(Fact::SummaryAsked(Box::new(ModelAsked {
            turn,
            attempt: 1,
            endpoint: endpoint.clone(),
            stream: spec.stream,
            said: Vec::new(),
            parent: added.parent,
            fragments: added.fragments,
            head: added.head,
            depth: added.depth,
            frame: side.frame_hash(),
            previous_response_id: None,
            body_bytes: kept.len() as u64,
            body_hash: Hash::of(&kept),
            heard: Vec::new(),
        })))?;
        let request = WireRequest { endpoint, body, stream: spec.stream };
        let answer = self.send(&model, &request, false).await;
        let fact = self.take_answer((&model, price), (turn, 1), spec.stream, answer)?;
        self.record(Fact::SummaryAnswered(Box::new(fact)))
    }

    /// The model that writes summaries, and what every request to it says.
    fn summariser(&self) -> (Model, CallSpec) {
        let config = &self.setup.config;
        let tier = config.context.tier.as_ref().and_then(|tier| self.setup.tiers.get(tier));
        let model = tier.unwrap_or(&self.setup.model).clone();
        let table = config.context_model();
        let spec = CallSpec {
            model: table.name.clone(),
            system: INSTRUCTION.trim().to_owned(),
            tools: Vec::new(),
            max_output_tokens: table.max_output_tokens,
            temperature: table.temperature,
            stream: table.stream,
            cache: false,
            store: false,
            output_schema: None,
            extra: table.extra,
        };
        (model, spec)
    }
}
