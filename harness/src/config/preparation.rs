//! `[preparation]` of agent.toml: a stage before the run that finds out what the run needs to know.
//!
//! Place in the flow: [`super::AgentConfig`] holds it, [`crate::preparation`] runs it.

use super::Budget;
use serde::{Deserialize, Serialize};

/// `[preparation]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreparationTable {
    /// What the stage is told to do; the task is what it does it for.
    pub prompt: String,
    /// The agent's tools that the stage may use; none where absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where its answer goes.
    #[serde(default)]
    pub inject: Inject,
    /// What happens where it comes to no answer.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Its own budget.
    #[serde(default)]
    pub budget: Budget,
}

/// Where the answer of a preparation goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inject {
    /// After the task.
    #[default]
    Task,
    /// After the system prompt.
    System,
    /// Both.
    Both,
}

/// What a failed preparation means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The run goes on without it.
    #[default]
    Degrade,
    /// The run does not begin: its end is the preparation's.
    Stop,
}
