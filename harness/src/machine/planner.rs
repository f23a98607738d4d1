//! An answer that should have been a plan and is none.
//!
//! Place in the flow: where `[loop] planner` is on, [`crate::model::planner`] turns plans into calls; what is left as
//! text is an error like that of a tool. It counts in the same budget, and nothing of it is carried out.

use super::finish::Decision;
use super::state::Stop;
use super::{Event, Run};
use trace::outcome::StopReason;

/// Said to a model whose answer is no plan.
const PLAN_AGAIN: &str = include_str!("../../prompt/plan_again.txt");

impl Run {
    /// Whether this decision is about an answer that should have been a plan.
    pub(super) fn is_unplanned(&self, decision: &Decision) -> bool {
        let without_call = match decision {
            Decision::Complete { .. } | Decision::Nudge(_) => true,
            Decision::Stop { reason, .. } => *reason == StopReason::NoFinalAnswer,
            _ => false,
        };
        self.config.loop_.planner && without_call
    }

    /// Counts the error and asks for a plan; one error too many stops the run.
    pub(super) fn unplanned(&mut self, turn: u32) -> Vec<Event> {
        self.state.errors += 1;
        self.state.truncated_in_a_row = 0;
        let (limit, errors) = (self.config.budget.max_errors, self.state.errors);
        match errors > limit {
            true => {
                let stop = Stop::limit(StopReason::ErrorBudget, "max_errors", limit.into(), errors.into());
                self.stop(stop)
            }
            false => self.nudge(turn, PLAN_AGAIN),
        }
    }
}
