//! Answers that the provider keeps, for requests that go on from one of them.
//!
//! Place in the flow: [`crate::server`] puts what was stored before what a request says, so that the checks see the
//! whole conversation, and keeps the script's answer under a new id.

use crate::request::RequestSeen;
use harness::model::responses;
use harness::model::scripted::ScriptTurn;
use serde_json::Value;
use std::collections::BTreeMap;

/// Conversations by the id of their last answer.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    conversations: BTreeMap<String, Vec<Value>>,
}

impl Stored {
    /// Puts what was said before into a request that names a stored answer.
    ///
    /// # Errors
    /// The id, where nothing is stored under it.
    pub(crate) fn recall(&self, request: &mut RequestSeen) -> Result<(), String> {
        let Some(id) = request.json["previous_response_id"].as_str() else { return Ok(()) };
        let mut whole = self.conversations.get(id).ok_or(id)?.clone();
        whole.extend_from_slice(request.messages());
        request.json["input"] = Value::Array(whole);
        Ok(())
    }

    /// Keeps an answer to a request that asks for it, under an id that the answer then bears.
    pub(crate) fn keep(&mut self, request: &RequestSeen, turn: &mut ScriptTurn) {
        match turn {
            ScriptTurn::After { then, .. } => self.keep(request, then),
            ScriptTurn::Answer(response) if request.json["store"] == true => {
                let id = format!("resp_{}", self.conversations.len() + 1);
                response.response_id = Some(id.clone());
                let mut whole = request.messages().to_vec();
                if let Some(items) = responses::speak::body(response)["output"].as_array() {
                    whole.extend_from_slice(items);
                }
                self.conversations.insert(id, whole);
            }
            _ => {}
        }
    }
}
