//! What a tool may see of the run it is called in, for as long as the call lasts.
//!
//! Place in the flow: the driver takes the picture for tools that want it and puts it into the permit, which the
//! tool borrows; so nothing of it can be kept past the call.

use serde_json::Value;
use std::collections::BTreeMap;
use trace::id::RunId;
use trace::message::Message;

/// The run at the moment of a call.
#[derive(Debug)]
pub struct Situation {
    pub(crate) run_id: RunId,
    pub(crate) turn: u32,
    pub(crate) messages: Vec<Message>,
    pub(crate) references: BTreeMap<String, Value>,
}

impl Situation {
    /// The run.
    #[must_use]
    pub const fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The turn that the call belongs to, 1-based.
    #[must_use]
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// The whole conversation, the message with this call included.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Results so far by their names, such as `$$r1`, where the run keeps them.
    #[must_use]
    pub const fn references(&self) -> &BTreeMap<String, Value> {
        &self.references
    }
}
