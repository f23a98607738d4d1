//! Facts about parts: a run that was a call of another, and a conversation that is shown in part.
//!
//! Place in the flow: as [`crate::fact`].

use crate::id::RunId;
use crate::message::{Message, Usage};
use serde::{Deserialize, Serialize};

/// A run that was a tool call of another: what it used up is the other's too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// The run, on a tape of its own.
    pub run_id: RunId,
    /// The agent's name.
    pub agent: String,
    /// Why it stopped.
    pub stop_reason: crate::outcome::StopReason,
    /// Tokens of all its model calls, those of its own children included.
    pub usage: Usage,
    /// Cost of the same in US dollars; `None` where one is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Tool calls, those of its own children included.
    pub tool_calls: u32,
}

/// The model is shown less of the conversation, or shown it in fewer words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The turn that is asked next, 1-based.
    pub turn: u32,
    /// What was done: `prune`, `summarise` or `selective`.
    pub strategy: String,
    /// Why: `max_tokens`, `every_turns` or `context_full`.
    pub trigger: String,
    /// Tokens of what the model would have been shown, estimated.
    pub before_tokens: u64,
    /// Tokens of what it is shown, estimated.
    pub after_tokens: u64,
    /// How many messages the conversation had; those said later are shown after `view`.
    pub messages: u32,
    /// What is shown of them, in order.
    pub view: Vec<Shown>,
}

/// A piece of what the model is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Messages of the conversation as they are: from this index to before that one.
    Stay(u32, u32),
    /// Words of the loop in place of messages.
    Said(Message),
}
