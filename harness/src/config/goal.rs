//! `[goal]` of agent.toml: an objective that can be measured, worked at over many turns.
//!
//! Place in the flow: [`super::AgentConfig`] holds it, the system prompt tells it, [`crate::machine`] checks it every
//! few turns. A goal without an objective or without a condition to be done by is refused: it would never end.

use super::AgentConfig;
use serde::{Deserialize, Serialize};

/// The confidence from which an answer ends a goal, where nothing else is said.
const CONFIDENCE: u8 = 80;

/// `[goal]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalTable {
    /// What is to be reached.
    #[serde(default)]
    pub objective: String,
    /// How one sees that it is reached.
    #[serde(default)]
    pub done_condition: String,
    /// How that is checked, such as a command that must pass.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub validation: String,
    /// The plan to begin with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
    /// When to stop even though it is not reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_rules: Vec<String>,
    /// Turns between two checks.
    #[serde(default = "every")]
    pub checkpoint_every: u32,
}

const fn every() -> u32 {
    5
}

impl GoalTable {
    /// What is wrong with it: the key and the reason.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let missing = |text: &str| text.trim().is_empty();
        match () {
            () if missing(&self.objective) => {
                Err(("goal.objective", "is missing; say in one sentence what is to be reached".to_owned()))
            }
            () if missing(&self.done_condition) => Err((
                "goal.done_condition",
                "is missing; say how one sees that the objective is reached, or use a plain task".to_owned(),
            )),
            () if self.checkpoint_every == 0 => {
                Err(("goal.checkpoint_every", "is 0; check every turn (1) or less often".to_owned()))
            }
            () => Ok(()),
        }
    }

    /// The goal as the model is told it.
    pub(super) fn told(&self) -> String {
        let list = |name: &str, items: &[String]| match items {
            [] => String::new(),
            items => format!(
                "\n{name}:\n{}",
                items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
            ),
        };
        let validation = match self.validation.as_str() {
            "" => String::new(),
            how => format!("\nHow it is checked: {how}"),
        };
        format!(
            "Objective: {}\nDone when: {}{validation}{}{}",
            self.objective,
            self.done_condition,
            list("Plan", &self.plan),
            list("Stop when", &self.stop_rules)
        )
    }
}

impl AgentConfig {
    /// The confidence from which an answer ends the run, if there is one; a goal has one by itself.
    #[must_use]
    pub fn confidence_threshold(&self) -> Option<u8> {
        self.loop_.confidence_threshold.or_else(|| self.goal.as_ref().map(|_| CONFIDENCE))
    }
}
