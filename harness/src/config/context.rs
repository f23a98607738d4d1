//! `[context]` of agent.toml: how much of the conversation the model is shown. [`crate::context`] applies it.

use serde::{Deserialize, Serialize};

/// `[context]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContextTable {
    /// How the conversation is made smaller.
    pub strategy: Strategy,
    /// Estimated tokens of the conversation above which it is made smaller.
    pub max_tokens: u64,
    /// Tool turns after which it is made smaller whatever its size; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_turns: Option<u32>,
    /// The newest tool turns, which stay word for word.
    pub keep_turns: u32,
    /// What is shown must shrink to this share at most, or the run stops.
    pub max_share: f64,
    /// The tier of `[model.tiers]` that writes summaries; the run's own model where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What the agent knows from before, told with every task and never left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// A file with it, beside agent.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_file: Option<std::path::PathBuf>,
}

impl Default for ContextTable {
    fn default() -> Self {
        Self {
            strategy: Strategy::None,
            max_tokens: 32_000,
            every_turns: None,
            keep_turns: 3,
            max_share: 0.8,
            tier: None,
            memory: String::new(),
            memory_file: None,
        }
    }
}

impl ContextTable {
    /// Whether nothing is set, so that nothing is written down.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What cannot work: the key, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        match () {
            () if !(self.max_share > 0.0 && self.max_share < 1.0) => Err((
                "context.max_share",
                "must be above 0 and below 1: what stays as it is does not shrink".to_owned(),
            )),
            () if self.every_turns == Some(0) => {
                Err(("context.every_turns", "must be at least 1; leave the key out for never".to_owned()))
            }
            () => Ok(()),
        }
    }
}

/// How a conversation is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Not at all.
    None,
    /// The newest tool turns stay, older ones are left out.
    Prune,
    /// Older turns are put into few words by a model.
    Summarise,
    /// Of the older turns those stay that have to do with the task.
    Selective,
}

impl Strategy {
    /// Its word in agent.toml and on tapes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Prune => "prune",
            Self::Summarise => "summarise",
            Self::Selective => "selective",
        }
    }
}
