//! `[policy]` of agent.toml: decisions by risk and rules by tool. [`crate::policy`] applies them.

use serde::{Deserialize, Serialize};

/// How long a person's leave is worth something, in seconds, where the table does not say: a day.
const APPROVAL_VALID_SECONDS: u64 = 86_400;

/// `[policy]`: decisions by risk, and rules by tool. The strictest wins.
///
/// The order of the fields is the order on tapes; new ones come last and are left out where they are the default.
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
    /// How long a question to a person can be answered, in seconds; then it is asked again.
    #[serde(skip_serializing_if = "is_approval_default")]
    pub approval_valid_seconds: u64,
    /// Tools without which no run begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_approval_default(seconds: &u64) -> bool {
    *seconds == APPROVAL_VALID_SECONDS
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
            approval_valid_seconds: APPROVAL_VALID_SECONDS,
            required_tools: Vec::new(),
        }
    }
}

/// What policy says about a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may run in a sandbox only.
    Sandbox,
    /// A person must allow it first.
    Ask,
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
