//! A goal while it is worked at: its state, and the checks that are made every few turns.
//!
//! Place in the flow: when all results of a turn are in. A check answers six questions from what the run shows and
//! puts the answers before the model with its next request, so they are on the tape; the state is folded from the
//! facts like everything else here.

use super::limit;
use super::state::State;
use super::{Event, Run};
use crate::config::{AgentConfig, GoalTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::message::{Message, Role};
use trace::outcome::{RunStatus, ToolStatus};

/// The six questions, for the model.
const QUESTIONS: &str = include_str!("../../prompt/checkpoint.txt");
/// The share of a budget from which it is time to think of handing over.
const NEARLY_USED: f64 = 0.8;
/// Calls that a check names as evidence.
const MAX_EVIDENCE: usize = 10;

/// A goal and what was done for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Objective, done condition, plan, validation and stop rules.
    #[serde(flatten)]
    pub goal: GoalTable,
    /// The limits it is worked at under, by name.
    pub budget: BTreeMap<String, f64>,
    /// Every check so far.
    pub checkpoints: Vec<Check>,
    /// What was done, turn by turn.
    pub progress: Vec<Progress>,
    /// Calls that were seen by a check.
    pub(super) checked_calls: usize,
}

/// One turn's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Turn, 1-based.
    pub turn: u32,
    /// Its calls, each with how it ended.
    pub calls: Vec<String>,
}

/// The answers to the six questions, as the run shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The turn after which it was made, 1-based.
    pub turn: u32,
    /// Is the objective still valid? No, where every call since the last check failed.
    pub is_valid: bool,
    /// What evidence proves progress? Calls since the last check that worked.
    pub evidence: Vec<String>,
    /// Is it within budget?
    pub is_within_budget: bool,
    /// Is the done condition met? Only an answer that was taken says so.
    pub is_done: bool,
    /// Is approval needed before the next step? Yes, where a call since the last check was denied.
    pub wants_approval: bool,
    /// Should the context be made smaller or the work handed over? Yes, where a budget is nearly used up.
    pub wants_handoff: bool,
}

impl Goal {
    pub(super) fn new(config: &AgentConfig) -> Option<Self> {
        Some(Self {
            goal: config.goal.clone()?,
            budget: config.budget.limits(),
            checkpoints: Vec::new(),
            progress: Vec::new(),
            checked_calls: 0,
        })
    }
}

impl Run {
    /// Takes a turn's work down, and makes a check where one is due: every few turns, and when the run ends.
    pub(super) fn checkpoint(&mut self) -> Vec<Event> {
        let Some(mut goal) = self.state.goal.take() else { return Vec::new() };
        let turn = self.state.turns;
        let worked = self.state.calls.iter().filter(|call| call.key.turn == turn);
        let calls = worked.map(|call| format!("{} {}", call.tool_name, call.status)).collect();
        goal.progress.push(Progress { turn, calls });
        let due = self.is_stopping() || turn.is_multiple_of(goal.goal.checkpoint_every.max(1));
        let mut events = Vec::new();
        if due {
            let check = check(&self.config, &self.state, &goal);
            if !self.is_stopping() {
                let record = serde_json::to_string(&check).unwrap_or_default();
                self.state.checked = Some(self.state.messages.len());
                self.state.say(Message::text(Role::User, format!("{} {record}", QUESTIONS.trim())));
            }
            goal.checked_calls = self.state.calls.len();
            goal.checkpoints.push(check.clone());
            events.push(Event::Checked(Box::new(check)));
        }
        self.state.goal = Some(goal);
        events
    }
}

fn check(config: &AgentConfig, state: &State, goal: &Goal) -> Check {
    let since = state.calls.get(goal.checked_calls..).unwrap_or_default();
    let worked = since.iter().filter(|call| call.status == ToolStatus::Ok);
    let evidence: Vec<String> =
        worked.map(|call| format!("{} at {}", call.tool_name, call.key)).take(MAX_EVIDENCE).collect();
    let done = state.stop.as_ref().is_some_and(|stop| stop.reason.status() == RunStatus::Completed);
    Check {
        turn: state.turns,
        is_valid: since.is_empty() || !evidence.is_empty(),
        evidence,
        is_within_budget: limit::exceeded(&config.budget, state).is_none(),
        is_done: done,
        wants_approval: since.iter().any(|call| call.status == ToolStatus::Denied),
        wants_handoff: used(config, state) >= NEARLY_USED,
    }
}

/// The largest share of a budget that is used up.
#[expect(clippy::cast_precision_loss, reason = "shares are read by people")]
fn used(config: &AgentConfig, state: &State) -> f64 {
    let budget = &config.budget;
    let turns = f64::from(state.turns) / f64::from(budget.max_model_turns);
    let used = state.usage.total().unwrap_or(0) as f64;
    let tokens = budget.max_total_tokens.map_or(0.0, |limit| used / limit as f64);
    let cost = budget.max_total_cost.map_or(0.0, |limit| state.cost_usd.unwrap_or(0.0) / limit);
    turns.max(tokens).max(cost)
}
