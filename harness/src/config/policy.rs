//! `[policy]` of agent.toml: decisions by risk and rules by tool. [`crate::policy`] applies them.

use serde::{Deserialize, Serialize};

/// `[policy]`: decisions by risk, and rules by tool. The strictest wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    /// For tools that only read.
    pub read: Verdict,
    /// For tools that change something.
    pub write: Verdict,
    /// For tools that run programs.
    pub execute: Verdict,
    /// For tools that reach outside.
    pub external: Verdict,
    /// Whether a denied call ends the run.
    pub deny_is_terminal: bool,
    /// Rules by tool.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
}

impl Default for PolicyTable {
    fn default() -> Self {
        Self {
            read: Verdict::Allow,
            write: Verdict::Allow,
            execute: Verdict::Allow,
            external: Verdict::Allow,
            deny_is_terminal: false,
            rules: Vec::new(),
        }
    }
}

/// What policy says about a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
}

/// `[[policy.rule]]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// The tool it speaks of.
    pub tool: String,
    /// What it says.
    pub decision: Verdict,
    /// Why, for the model and for people.
    #[serde(default)]
    pub reason: String,
}
