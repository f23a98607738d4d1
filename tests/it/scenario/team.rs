//! Scenarios in which agents are tools: one after the other, and side by side under a budget that they share.

use super::Scenario;
use crate::kit::{Deed, InProcess, Kit, asks, said};
use crate::team::{ORDER, helper, side_by_side, table};
use trace::outcome::StopReason;

pub(super) fn all() -> Vec<Scenario> {
    let one = |name, kit, stop| Scenario { name, kit, stop };
    vec![
        one("an agent as a tool", one_after_the_other, StopReason::Completed),
        one("agents side by side", together, StopReason::Completed),
        one("an agent that uses the budget up", used_up, StopReason::BudgetExceeded),
    ]
}

fn one_after_the_other() -> Kit {
    let other = Kit::new([asks(&[("y", "pay", "{}")]), said("Paid.")])
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")));
    Kit::new([asks(&[("a", "count", ORDER), ("b", "other", ORDER)]), said("Three, and paid.")])
        .agent(table("count"), helper())
        .agent(table("other"), other)
}

fn together() -> Kit {
    let slow = Kit::new([asks(&[("y", "peek", "{}")]), said("Four.")])
        .tool(&InProcess::reading("peek", Deed::After(50, "a hare")));
    Kit::new([asks(&[("a", "count", ORDER), ("b", "other", ORDER)]), said("Seven.")])
        .agent(side_by_side("count"), helper())
        .agent(side_by_side("other"), slow)
        .with(|config| config.budget.max_total_tokens = Some(2000))
}

fn used_up() -> Kit {
    let turns = (0..9).map(|n| asks(&[("x", "look", &format!("{{\"n\":{n}}}"))]));
    let busy = Kit::new(turns).tool(&InProcess::reading("look", Deed::Say("a fox")));
    Kit::new([asks(&[("a", "count", ORDER)]), said("Dear.")])
        .agent(table("count"), busy)
        .with(|config| config.budget.max_total_tokens = Some(480))
}
