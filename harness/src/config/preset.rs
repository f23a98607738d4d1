//! `budget.preset`: how many turns a kind of task deserves.
//!
//! Place in the flow: while agent.toml is read. A preset fills in what the file leaves out; what it says wins, and
//! the tape holds the figures themselves.

use super::Budget;
use serde::{Deserialize, Serialize};

/// Kinds of tasks, with the turns that guidance gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Questions and answers.
    Qa,
    /// Research.
    Research,
    /// Code and its tests.
    Coding,
}

impl Preset {
    /// Its turns.
    #[must_use]
    pub const fn max_model_turns(self) -> u32 {
        match self {
            Self::Qa => 5,
            Self::Research => 15,
            Self::Coding => 30,
        }
    }
}

impl Budget {
    /// Fills in what the preset knows and the file's own table, found under these keys, leaves out.
    pub(super) fn fill_in(&mut self, text: &str, keys: &[&str]) {
        let Some(preset) = self.preset else { return };
        let said = toml::from_str::<toml::Table>(text)
            .ok()
            .and_then(|table| keys.iter().try_fold(table, |table, key| table.get(*key)?.as_table().cloned()));
        if !said.is_some_and(|budget| budget.contains_key("max_model_turns")) {
            self.max_model_turns = preset.max_model_turns();
        }
    }
}
