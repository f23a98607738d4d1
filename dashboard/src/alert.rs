//! Alerts: which problems hold now, since when, and in which runs.
//!
//! Place in the flow: finding -> **alert** -> ops log, webhook and page. Pure: it is given what was seen and when,
//! and answers with the changes to append. An alert is identified by rule, agent, tool and arguments, so two
//! hundred runs on one broken tool are one alert with two hundred runs.

use std::collections::BTreeMap;
use trace::id::{Hash, RunId};
use trace::ops::{AlertChange, AlertState};
use trace::outcome::Evidence;
use trace::rule::{Finding, error_rate};

/// An alert names at most this many runs.
const RUNS_KEPT: usize = 1000;
/// News about an alert that goes on are appended at most this often.
const NEWS_EVERY_NS: i64 = 10_000_000_000;

/// What makes two findings the same problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) rule: String,
    pub(crate) agent: Option<String>,
    pub(crate) tool_name: Option<String>,
    pub(crate) args_hash: Option<String>,
}

/// One problem, firing or over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Alert {
    pub(crate) problem: Problem,
    pub(crate) state: AlertState,
    pub(crate) evidence: Option<Evidence>,
    /// The runs of this episode, the first first.
    pub(crate) runs: Vec<RunId>,
    pub(crate) fired_at_ns: i64,
    /// When it was last seen to happen.
    pub(crate) seen_at_ns: i64,
    pub(crate) resolved_at_ns: Option<i64>,
    /// When the ops log last heard of it; `None` for news that wait.
    told_at_ns: i64,
    has_news: bool,
}

/// All alerts that there ever were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Board {
    alerts: BTreeMap<Problem, Alert>,
}

impl Problem {
    /// What a finding in a run of this agent is about.
    pub(crate) fn of(finding: &Finding, agent: Option<&str>) -> Self {
        Self {
            rule: finding.rule.to_owned(),
            agent: agent.map(str::to_owned),
            tool_name: finding.tool_name.clone(),
            args_hash: finding.args_hash.map(|hash| hash.to_string()),
        }
    }

    /// The id under which logs and pagers know it.
    pub(crate) fn alert_id(&self) -> String {
        let parts = [Some(&self.rule), self.agent.as_ref(), self.tool_name.as_ref(), self.args_hash.as_ref()];
        let text: Vec<&str> = parts.map(|part| part.map_or("\u{1}", String::as_str)).to_vec();
        Hash::of(text.join("\u{0}").as_bytes()).short()
    }

    /// A rate is measured; everything else happens in a run.
    fn is_rate(&self) -> bool {
        self.rule == error_rate::RULE
    }
}

impl Alert {
    /// As the ops log remembers it.
    pub(crate) fn remembered(
        problem: Problem,
        state: AlertState,
        evidence: Option<Evidence>,
        runs: Vec<RunId>,
        [fired_at_ns, changed_at_ns]: [i64; 2],
        resolved_at_ns: Option<i64>,
    ) -> Self {
        Self {
            problem,
            state,
            evidence,
            runs,
            fired_at_ns,
            seen_at_ns: changed_at_ns,
            resolved_at_ns,
            told_at_ns: changed_at_ns,
            has_news: false,
        }
    }

    pub(crate) fn is_firing(&self) -> bool {
        self.state == AlertState::Firing
    }

    fn change(&self, at_ns: i64) -> AlertChange {
        AlertChange {
            alert_id: self.problem.alert_id(),
            rule: self.problem.rule.clone(),
            kind: if self.problem.is_rate() { "rate" } else { "run" }.to_owned(),
            state: self.state,
            agent: self.problem.agent.clone(),
            tool_name: self.problem.tool_name.clone(),
            args_hash: self.problem.args_hash.clone(),
            value: self.evidence.as_ref().and_then(|evidence| evidence.observed),
            threshold: self.evidence.as_ref().and_then(|evidence| evidence.threshold),
            runs: self.runs.clone(),
            evidence: self.evidence.clone(),
            at_ns,
        }
    }

    fn resolve(&mut self, now_ns: i64) -> AlertChange {
        self.state = AlertState::Resolved;
        self.resolved_at_ns = Some(now_ns);
        (self.told_at_ns, self.has_news) = (now_ns, false);
        self.change(now_ns)
    }
}

impl Board {
    /// The board as the ops log remembers it.
    pub(crate) fn new(alerts: impl IntoIterator<Item = Alert>) -> Self {
        Self { alerts: alerts.into_iter().map(|alert| (alert.problem.clone(), alert)).collect() }
    }

    /// All alerts, in order of rule, agent, tool and arguments.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }

    /// Whether this problem fires now.
    pub(crate) fn is_firing(&self, problem: &Problem) -> bool {
        self.alerts.get(problem).is_some_and(Alert::is_firing)
    }

    /// A run shows a problem. A run that was told before is no news, unless it got worse.
    pub(crate) fn see(
        &mut self,
        problem: Problem,
        run: &RunId,
        evidence: Evidence,
        now_ns: i64,
    ) -> Option<AlertChange> {
        match self.alerts.get_mut(&problem) {
            Some(alert) if alert.runs.contains(run) => {
                let worse = alert.evidence.as_ref().is_none_or(|told| told.observed < evidence.observed);
                if alert.is_firing() && worse {
                    (alert.seen_at_ns, alert.has_news, alert.evidence) = (now_ns, true, Some(evidence));
                }
                None
            }
            Some(alert) if alert.is_firing() => {
                if alert.runs.len() < RUNS_KEPT {
                    alert.runs.push(run.clone());
                }
                (alert.seen_at_ns, alert.has_news, alert.evidence) = (now_ns, true, Some(evidence));
                None
            }
            _ => Some(self.fire(problem, vec![run.clone()], evidence, now_ns)),
        }
    }

    /// The rates that are too high now; rates that fire and are not among them have fallen back.
    pub(crate) fn measure(&mut self, high: Vec<(Problem, Evidence)>, now_ns: i64) -> Vec<AlertChange> {
        let mut changes: Vec<AlertChange> = self
            .alerts
            .values_mut()
            .filter(|alert| alert.problem.is_rate() && alert.is_firing())
            .filter(|alert| !high.iter().any(|(problem, _)| *problem == alert.problem))
            .map(|alert| alert.resolve(now_ns))
            .collect();
        for (problem, evidence) in high {
            match self.alerts.get_mut(&problem) {
                Some(alert) if alert.is_firing() => {
                    (alert.seen_at_ns, alert.evidence) = (now_ns, Some(evidence));
                }
                _ => changes.push(self.fire(problem, Vec::new(), evidence, now_ns)),
            }
        }
        changes
    }

    /// Resolves what no run has shown for `resolve_after_ns`, and tells the news of what goes on.
    pub(crate) fn settle(&mut self, resolve_after_ns: i64, now_ns: i64) -> Vec<AlertChange> {
        let mut changes = Vec::new();
        for alert in self.alerts.values_mut().filter(|alert| alert.is_firing()) {
            if !alert.problem.is_rate() && now_ns - alert.seen_at_ns >= resolve_after_ns {
                changes.push(alert.resolve(now_ns));
            } else if alert.has_news && now_ns - alert.told_at_ns >= NEWS_EVERY_NS {
                (alert.told_at_ns, alert.has_news) = (now_ns, false);
                changes.push(alert.change(now_ns));
            }
        }
        changes
    }

    fn fire(&mut self, problem: Problem, runs: Vec<RunId>, evidence: Evidence, now_ns: i64) -> AlertChange {
        let times = [now_ns, now_ns];
        let alert = Alert::remembered(problem.clone(), AlertState::Firing, Some(evidence), runs, times, None);
        let change = alert.change(now_ns);
        self.alerts.insert(problem, alert);
        change
    }
}

#[cfg(test)]
mod tests;
