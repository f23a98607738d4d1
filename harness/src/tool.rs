//! Tools: what the model may ask for.
//!
//! Place in the flow: the driver looks a call up in the [`Toolbox`], validates it, asks [`crate::policy`] for a
//! permit and hands it to [`crate::hands`]. A tool never sees a call without a permit.

pub mod builtin;
pub mod command;
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod output;
pub mod reserved;
#[cfg(test)]
pub(crate) mod sample;
pub mod shown;
pub mod situation;
mod toolbox;
pub mod typed;

pub use toolbox::{Environment, Toolbox, ToolboxError};

use crate::config::ToolTable;
use crate::model::ToolOffer;
use crate::policy::{CanUse, Permit};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use trace::fact::Fault;

/// What a tool can do to the world, from the mildest to the gravest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It only reads.
    Read,
    /// It changes something of ours.
    Write,
    /// It runs programs. The default, because a command can do anything.
    #[default]
    Execute,
    /// It reaches outside.
    External,
}

/// What happens if a tool runs twice; decides about retries and resuming.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing at all: it has no effect.
    Pure,
    /// The same as running once.
    Idempotent,
    /// A second effect: never run again unasked.
    #[default]
    AtMostOnce,
}

/// Everything the loop must know of a tool without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// What it can do.
    pub risk: Risk,
    /// Whether it may be repeated.
    pub effect: Effect,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// JSON Schema of the answer; `None` where the tool promises nothing about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl ToolSpec {
    /// What a `[[tool]]` table says of its tool.
    pub(crate) fn of_table(table: &ToolTable) -> Self {
        Self {
            name: table.tool_name().to_owned(),
            description: table.description.clone(),
            input_schema: match &table.agent {
                Some(_) => crate::team::input_schema(),
                None => table.input_schema.clone().unwrap_or_default(),
            },
            risk: table.risk.unwrap_or_default(),
            effect: table.effect.unwrap_or_default(),
            timeout_ms: table.timeout_ms(),
            output_schema: table.output_schema.clone(),
        }
    }

    /// The tool as the model sees it.
    #[must_use]
    pub fn offer(&self) -> ToolOffer {
        ToolOffer {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
        }
    }

    /// Whether it may run beside others: it only reads and has no effect.
    #[must_use]
    pub fn is_concurrent(&self) -> bool {
        self.risk == Risk::Read && self.effect == Effect::Pure
    }

    /// Whether it may be run again when nobody knows whether it ran.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.effect != Effect::AtMostOnce
    }
}

/// A tool.
pub trait Tool: Send + Sync + Debug {
    /// What the loop must know of it.
    fn spec(&self) -> &ToolSpec;

    /// Checks arguments that fit the schema for what a schema cannot say. Pure: no effect, no waiting.
    ///
    /// # Errors
    /// What is wrong, for the model to correct itself.
    fn validate(&self, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    /// What the tool itself says about a call; policy may be stricter, never milder. Pure: no effect, no waiting.
    ///
    /// # Errors
    /// Why it cannot tell: then the call is denied.
    fn can_use(&self, _arguments: &Value) -> Result<CanUse, String> {
        Ok(CanUse::default())
    }

    /// Whether an answer of the shape of [`output`] is a question to a person.
    fn may_ask(&self) -> bool {
        false
    }

    /// Whether it can run where it writes only to its folder and reaches no network.
    ///
    /// # Errors
    /// Why not.
    fn can_sandbox(&self) -> Result<(), String> {
        Err("only tools that are programs can run in one".to_owned())
    }

    /// Whether its permits show it the run: the conversation and results so far. They are copied for each call.
    fn wants_situation(&self) -> bool {
        false
    }

    /// Runs it once. The future is dropped to cancel.
    ///
    /// The answer is text for the model; objects are written as JSON text by the tool.
    ///
    /// # Errors
    /// A fault whose class decides whether it is tried again, shown to the model, or ends the run.
    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>>;
}
