//! Scenarios in which somebody is asked: leave that is waited for, given, denied or given elsewhere, and tools that ask.

use super::Scenario;
use crate::kit::person::{Answer, Later, Steady};
use crate::kit::{Deed, InProcess, Kit, asks, said};
use harness::config::Verdict;
use trace::fact::Wants;
use trace::outcome::StopReason;

pub(super) fn all() -> Vec<Scenario> {
    let one = |name, kit, stop| Scenario { name, kit, stop };
    vec![
        one("leave that nobody gives", paying, StopReason::AwaitingApproval),
        one("leave that somebody gives", given, StopReason::Completed),
        one("leave that somebody denies, once for all", denied, StopReason::Completed),
        one("leave that is given later, after the question expired", given_later, StopReason::Completed),
        one("a tool that wants leave for some calls", by_tool, StopReason::Completed),
        one("a tool that asks and is not answered", asking, StopReason::AwaitingInput),
        one("a tool that asks and hears yes", confirmed, StopReason::Completed),
        one("a tool that asks and hears a change, later", changed_later, StopReason::Completed),
        one("a tool that asks and hears no", cancelled, StopReason::Completed),
        one("a tool that asks and hears of something else", fresh, StopReason::Completed),
    ]
}

/// A call that wants leave between two that do not, and then words.
fn paying() -> Kit {
    let calls = [("a", "look", "{}"), ("b", "pay", "{\"n\":7}"), ("c", "look", "{\"n\":1}")];
    Kit::new([asks(&calls), said("Paid.")])
        .tool(&InProcess::reading("look", Deed::Say("seen")))
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")))
        .with(|config| config.policy.write = Verdict::Ask)
}

fn given() -> Kit {
    paying().asking(Steady::who(Answer::Allow))
}

/// The same call again is not asked about again; another one is.
fn denied() -> Kit {
    let pay = |n: &'static str| asks(&[("d", "pay", n)]);
    let mut kit = paying().asking(Steady::who(Answer::Deny("too much")));
    kit.turns = vec![kit.turns[0].clone(), pay("{ \"n\": 7 }"), pay("{\"n\":8}"), said("As you wish.")];
    kit
}

fn given_later() -> Kit {
    paying().asking(Later::who(Answer::Allow)).with(|config| config.policy.approval_valid_seconds = 1800)
}

fn by_tool() -> Kit {
    Kit::new([asks(&[("a", "rule", "{\"n\":2}"), ("b", "rule", "{\"n\":3}")]), said("Half of it.")])
        .tool(&InProcess::writing("rule", Deed::Rule))
        .asking(Steady::who(Answer::Allow))
}

/// A tool that asks, and a call beside it.
fn asks_a_person(wants: Wants) -> Kit {
    Kit::new([asks(&[("a", "book", "{\"n\":3}"), ("b", "look", "{}")]), said("So be it.")])
        .tool(&InProcess::writing("book", Deed::Ask(wants, "Book three?")))
        .tool(&InProcess::reading("look", Deed::Say("seen")))
}

fn asking() -> Kit {
    asks_a_person(Wants::Input)
}

fn confirmed() -> Kit {
    asks_a_person(Wants::Confirmation).asking(Steady::who(Answer::Say("yes")))
}

fn changed_later() -> Kit {
    asks_a_person(Wants::Input).asking(Later::who(Answer::Say("make it four")))
}

fn cancelled() -> Kit {
    asks_a_person(Wants::Confirmation).asking(Steady::who(Answer::Say("no thanks")))
}

fn fresh() -> Kit {
    asks_a_person(Wants::Confirmation).asking(Steady::who(Answer::Say("what is the weather in Rome?")))
}
