//! How much of its budget a run has used: a fold over its facts, and the line that tells it.
//!
//! Place in the flow: fact -> **progress** -> the bar at the foot of the screen.

use std::collections::BTreeMap;
use std::time::Duration;
use trace::fact::Fact;

/// Cells of the bar.
const CELLS: usize = 16;

/// What is used up, beside its limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Progress {
    limits: BTreeMap<String, f64>,
    turns: u32,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
    unpriced: bool,
    activity: String,
}

impl Progress {
    /// Takes in what happened.
    pub(super) fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::RunStarted(fact) => self.limits.clone_from(&fact.limits),
            Fact::Resumed(fact) if !fact.limits.is_empty() => self.limits.clone_from(&fact.limits),
            Fact::ModelAsked(fact) => {
                self.turns = fact.turn;
                self.does("asks the model");
            }
            Fact::ModelAnswered(fact) | Fact::SummaryAnswered(fact) => {
                if let Some(tokens) = fact.usage().total() {
                    self.tokens = Some(self.tokens.unwrap_or(0) + tokens);
                }
                if fact.response.is_some() {
                    match fact.cost_usd {
                        Some(cost) => self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost),
                        None => self.unpriced = true,
                    }
                }
                self.does("");
            }
            Fact::ToolStarted(fact) => self.does(&format!("runs {}", crate::say::clip(&fact.tool_name))),
            Fact::ToolFinished(fact) => {
                // What a part of the run used up is the run's.
                if let Some(child) = &fact.child {
                    self.tokens = self.tokens.into_iter().chain(child.usage.total()).reduce(|a, b| a + b);
                    self.cost_usd = self.cost_usd.into_iter().chain(child.cost_usd).reduce(|a, b| a + b);
                    self.unpriced |= child.cost_usd.is_none();
                }
                self.does("");
            }
            Fact::Cancelled(_) => self.does("ends"),
            _ => {}
        }
    }

    /// Says what goes on now.
    pub(super) fn does(&mut self, what: &str) {
        what.clone_into(&mut self.activity);
    }

    /// The whole line: a bar for what is used up most, then each figure of its limit.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let limit = |name: &str| self.limits.get(name).copied();
        #[expect(clippy::cast_precision_loss, reason = "tokens of a run are far below 2^53")]
        let tokens = self.tokens.map(|tokens| tokens as f64);
        let used = [
            (Some(f64::from(self.turns)), limit("turns")),
            (tokens, limit("tokens")),
            (self.cost_usd, limit("cost_usd")),
            (Some(seconds), limit("wall_ms").map(|ms| ms / 1e3)),
        ];
        let most = used.iter().filter_map(|(used, limit)| Some((*used)? / limit.filter(|one| *one > 0.0)?));
        let most = most.fold(0.0, f64::max).min(1.0);
        let mut figures = vec![
            of("turn", f64::from(self.turns), limit("turns")),
            match tokens {
                Some(tokens) => figure(tokens, limit("tokens"), " tokens"),
                None => "tokens unknown".to_owned(),
            },
        ];
        match (self.cost_usd.filter(|_| !self.unpriced), limit("cost_usd")) {
            (Some(cost), Some(limit)) => figures.push(format!("${cost:.4}/${limit:.2}")),
            (Some(cost), None) => figures.push(format!("${cost:.4}")),
            (None, Some(limit)) if self.unpriced => figures.push(format!("cost unknown/${limit:.2}")),
            _ => {}
        }
        figures.push(figure(seconds.floor(), limit("wall_ms").map(|ms| ms / 1e3), " s"));
        figures.extend(Some(self.activity.clone()).filter(|activity| !activity.is_empty()));
        format!("[{}] {}", bar(most), figures.join(" | "))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few cells"
)]
fn bar(share: f64) -> String {
    let full = (share * CELLS as f64).round() as usize;
    format!("{}{}", "#".repeat(full.min(CELLS)), "-".repeat(CELLS - full.min(CELLS)))
}

fn of(what: &str, used: f64, limit: Option<f64>) -> String {
    limit.map_or_else(|| format!("{what} {used}"), |limit| format!("{what} {used}/{limit}"))
}

fn figure(used: f64, limit: Option<f64>, unit: &str) -> String {
    match limit {
        Some(limit) => format!("{}/{}{unit}", grouped(used), grouped(limit)),
        None => format!("{}{unit}", grouped(used)),
    }
}

/// A whole number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::{answered, asked, started, tool_started};
    use super::*;

    fn told(progress: &Progress, seconds: u64) -> String {
        progress.line(Duration::from_secs(seconds))
    }

    #[test]
    fn the_bar_tells_what_is_used_of_each_limit() {
        let mut progress = Progress::default();
        progress.take(&started(&[("turns", 6.0), ("tokens", 20_000.0), ("wall_ms", 30_000.0)]));
        insta::assert_snapshot!(told(&progress, 0), @"[----------------] turn 0/6 | tokens unknown | 0/30 s");
        progress.take(&asked(1));
        insta::assert_snapshot!(told(&progress, 1), @"[###-------------] turn 1/6 | tokens unknown | 1/30 s | asks the model");
        progress.take(&answered(1, "", 12_345, Some(0.0021)));
        progress.take(&tool_started(1, 0, "look_up_order", "{}"));
        insta::assert_snapshot!(told(&progress, 3), @"[##########------] turn 1/6 | 12,345/20,000 tokens | $0.0021 | 3/30 s | runs look_up_order");
        insta::assert_snapshot!(told(&progress, 40), @"[################] turn 1/6 | 12,345/20,000 tokens | $0.0021 | 40/30 s | runs look_up_order");
    }

    #[test]
    fn what_is_unknown_or_unlimited_is_no_zero() {
        let mut progress = Progress::default();
        progress.take(&started(&[("cost_usd", 0.5)]));
        progress.take(&asked(1));
        progress.take(&answered(1, "", 1000, Some(0.25)));
        insta::assert_snapshot!(told(&progress, 2), @"[########--------] turn 1 | 1,000 tokens | $0.2500/$0.50 | 2 s");
        progress.take(&answered(1, "", 1000, None));
        insta::assert_snapshot!(told(&progress, 2), @"[########--------] turn 1 | 2,000 tokens | cost unknown/$0.50 | 2 s");
    }
}
