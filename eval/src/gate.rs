//! The gate: one decision about a whole suite, with its reasons.
//!
//! Place in the flow: last step of [`crate::runner::run`]; the command line turns the decision into an exit code.
//! Pure. What could not be judged never becomes a pass.

use crate::report::{CaseReport, Comparison, Report};
use crate::scorer::Verdict;
use crate::statistic::{mcnemar, real};
use crate::suite::Suite;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The chance of a false alarm that a comparison with a baseline accepts.
pub const ALPHA: f64 = 0.05;

/// The most names a reason lists; the report holds them all.
const MAX_NAMES: usize = 5;

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// What must hold, holds.
    #[serde(rename = "PASS")]
    Pass,
    /// It does not hold.
    #[serde(rename = "FAIL")]
    Fail,
    /// The data suffice for neither.
    #[serde(rename = "INCONCLUSIVE")]
    Inconclusive,
    /// The baseline was judged otherwise or shares no case.
    #[serde(rename = "NOT COMPARABLE")]
    NotComparable,
    /// No trial was selected, or every one was skipped.
    #[serde(rename = "NOTHING TO EVALUATE")]
    NothingToEvaluate,
    /// Too many trials could not be judged.
    #[serde(rename = "COULD NOT FINISH")]
    CouldNotFinish,
    /// Somebody asked it to end early.
    #[serde(rename = "INTERRUPTED")]
    Interrupted,
}

impl Decision {
    /// The spelling in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::NotComparable => "NOT COMPARABLE",
            Self::NothingToEvaluate => "NOTHING TO EVALUATE",
            Self::CouldNotFinish => "COULD NOT FINISH",
            Self::Interrupted => "INTERRUPTED",
        }
    }

    /// The exit code of `loopdeck eval`, by the one table of the command line.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 3,
            Self::NotComparable | Self::NothingToEvaluate => 4,
            Self::CouldNotFinish => 5,
            Self::Interrupted => 130,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides about a report, and writes decision, reasons and comparison into it.
///
/// In this order: interrupted, nothing to evaluate, too many errors, a threshold missed, the baseline.
pub fn decide(suite: &Suite, report: &mut Report, baseline: Option<&Report>) {
    report.comparison = baseline.map(|baseline| compare(report, baseline));
    let (decision, reasons) = decided(suite, report);
    report.decision = decision;
    report.reasons = reasons;
}

fn decided(suite: &Suite, report: &Report) -> (Decision, Vec<String>) {
    let trials = &report.trials;
    let judged = trials.passed + trials.failed;
    if trials.not_run > 0 {
        let reason = format!("{} of {} trials were not run", trials.not_run, trials.planned);
        return (Decision::Interrupted, vec![reason]);
    }
    if judged + trials.errors == 0 {
        let reason = match trials.planned {
            0 => "no trial was selected; check cases, tags and conditions".to_owned(),
            planned => format!("all {planned} trials were skipped"),
        };
        return (Decision::NothingToEvaluate, vec![reason]);
    }
    let error_rate = real(trials.errors) / real(judged + trials.errors);
    if judged == 0 || error_rate > suite.gate.max_error_rate {
        let share = format!("{} of {} trials", trials.errors, judged + trials.errors);
        let allowed = suite.gate.max_error_rate;
        let reason =
            format!("{share} could not be judged; `gate.max_error_rate` allows a share of {allowed}");
        return (Decision::CouldNotFinish, vec![reason]);
    }
    let missed = missed_thresholds(suite, report);
    match (&report.comparison, missed.is_empty()) {
        (_, false) => (Decision::Fail, missed),
        (Some(comparison), true) => (comparison.decision, vec![comparison.reason.clone()]),
        (None, true) => (Decision::Pass, Vec::new()),
    }
}

/// The thresholds of `[gate]` that do not hold, each as a sentence.
fn missed_thresholds(suite: &Suite, report: &Report) -> Vec<String> {
    let mut missed = Vec::new();
    // Beside a baseline the default would fail every suite that is not perfect, so then only a written one counts.
    let least = suite.gate.pass_rate.or_else(|| report.comparison.is_none().then_some(1.0));
    if let (Some(least), Some(rate)) = (least, &report.pass_rate)
        // Rounding of a mean must not fail a suite that is exactly at its threshold.
        && rate.mean_of_cases < least - 1e-9
    {
        let of = format!("{} of {} trials", rate.passed, rate.judged);
        missed.push(format!("pass rate {:.4} ({of}) is below the gate's {least}", rate.mean_of_cases));
    }
    if let Some(least) = suite.gate.case_pass_rate {
        let below = |case: &&CaseReport| case.tally().rate().is_some_and(|rate| rate < least - 1e-9);
        let names: Vec<&str> = report.cases.iter().filter(below).map(|case| case.case_id.as_str()).collect();
        if !names.is_empty() {
            let of = format!("{} of {} cases", names.len(), report.cases.len());
            missed
                .push(format!("{of} pass less than a share of {least} of their trials: {}", listed(&names)));
        }
    }
    missed
}

/// Pairs the cases of two reports and tests whether more broke than chance explains.
///
/// A case counts as passed where all its judged trials passed, so repeats of a case are never taken for
/// independent observations.
fn compare(report: &Report, baseline: &Report) -> Comparison {
    let mut comparison = Comparison::not_comparable(baseline);
    if report.suite_hash != baseline.suite_hash {
        comparison.reason = format!(
            "the baseline is of suite `{}` with other scorers or thresholds; record a new baseline",
            baseline.suite
        );
        return comparison;
    }
    let before: BTreeMap<&str, &CaseReport> =
        baseline.cases.iter().map(|case| (case.case_id.as_str(), case)).collect();
    for case in &report.cases {
        let same = before.get(case.case_id.as_str()).filter(|other| other.case_hash == case.case_hash);
        let pair = same.and_then(|other| Some((verdict(other)?, verdict(case)?)));
        match pair {
            None => comparison.unpaired += 1,
            Some((Verdict::Pass, Verdict::Fail)) => comparison.broken.push(case.case_id.clone()),
            Some((Verdict::Fail, Verdict::Pass)) => comparison.mended.push(case.case_id.clone()),
            Some(_) => {}
        }
        comparison.paired += u64::from(pair.is_some());
    }
    judge(&mut comparison);
    comparison
}

/// PASS where all judged trials passed; `None` where none was judged.
fn verdict(case: &CaseReport) -> Option<Verdict> {
    let tally = case.tally();
    match (tally.judged, tally.passed) {
        (0, _) => None,
        (judged, passed) if judged == passed => Some(Verdict::Pass),
        _ => Some(Verdict::Fail),
    }
}

fn judge(comparison: &mut Comparison) {
    let (broken, mended) = (comparison.broken.len() as u64, comparison.mended.len() as u64);
    let paired = comparison.paired;
    if paired == 0 {
        comparison.reason = "no case was judged, unchanged, on both sides".to_owned();
        return;
    }
    let p = mcnemar::p_value(broken, mended);
    comparison.p_value = Some(p);
    let names: Vec<&str> = comparison.broken.iter().map(String::as_str).collect();
    let counts = format!("of {paired} paired cases {broken} broke and {mended} were mended");
    (comparison.decision, comparison.reason) = match broken {
        0 => (Decision::Pass, format!("{counts}; none that passed in the baseline fails now")),
        _ if p <= ALPHA => (Decision::Fail, format!("{counts} (p = {p:.4}): {}", listed(&names))),
        _ => {
            let why = format!("{counts} (p = {p:.4}, above {ALPHA}): {}", listed(&names));
            (Decision::Inconclusive, format!("{why}; more cases or repeats would tell"))
        }
    };
}

fn listed(names: &[&str]) -> String {
    match names.len().checked_sub(MAX_NAMES) {
        Some(more) if more > 0 => format!("{} and {more} more", names[..MAX_NAMES].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::runner::sample::{ANSWER, By, suite};
    use crate::runner::{Infrastructure, Options, run};
    use crate::subject::sample::answering;

    /// The report of a suite whose case `id` passes its repeat where `passes` says so; `None` is an error.
    async fn report(
        ids: &[&str],
        more: &str,
        baseline: Option<&Report>,
        passes: impl Fn(&str, u32) -> Option<bool> + Sync,
    ) -> Report {
        let execute = By(|case: &Case, repeat| match passes(&case.id, repeat) {
            None => Err(Infrastructure::new("down")),
            Some(passes) => Ok(answering(if passes { "yes" } else { "no" })),
        });
        let options = Options { baseline, ..Options::default() };
        run(&suite(ids, &more.replace("ANSWER", ANSWER)), &execute, &options).await
    }

    #[tokio::test]
    async fn every_decision_has_its_suite() {
        for (more, passes, wanted) in [
            ("ANSWER", [Some(true), Some(true)], Decision::Pass),
            ("ANSWER", [Some(true), Some(false)], Decision::Fail),
            ("ANSWER[gate]\npass_rate = 0.5\n", [Some(true), Some(false)], Decision::Pass),
            (
                "ANSWER[gate]\npass_rate = 0.5\ncase_pass_rate = 0.5\n",
                [Some(true), Some(false)],
                Decision::Fail,
            ),
            ("ANSWER", [Some(true), None], Decision::CouldNotFinish),
            ("ANSWER[gate]\nmax_error_rate = 0.5\n", [Some(true), None], Decision::Pass),
            ("ANSWER[gate]\nmax_error_rate = 1\n", [None, None], Decision::CouldNotFinish),
        ] {
            let report = report(&["a", "b"], more, None, |id, _| passes[usize::from(id == "b")]).await;
            assert_eq!(report.decision, wanted, "{more} {passes:?}: {:?}", report.reasons);
        }
    }

    #[tokio::test]
    async fn a_mean_hides_no_broken_case_from_a_gate_on_cases() {
        let more = "repeats = 4\nANSWER[gate]\npass_rate = 0.8\ncase_pass_rate = 0.5\n";
        let report =
            report(&["a", "b", "c", "d", "e"], more, None, |id, repeat| Some(id != "c" || repeat == 0)).await;
        assert_eq!(report.decision, Decision::Fail);
        insta::assert_snapshot!(report.reasons.join("\n"), @"1 of 5 cases pass less than a share of 0.5 of their trials: c");
    }

    const IDS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h"];

    #[tokio::test]
    async fn a_baseline_tells_regression_from_noise() {
        let before = report(IDS, "ANSWER", None, |id, _| Some(id != "h")).await;
        for (now_failing, wanted) in [
            ("h", Decision::Pass),
            ("", Decision::Pass),
            ("ah", Decision::Inconclusive),
            ("abcdh", Decision::Inconclusive),
            ("abcdeh", Decision::Fail),
            ("abcde", Decision::Inconclusive),
        ] {
            let now = report(IDS, "ANSWER", Some(&before), |id, _| Some(!now_failing.contains(id))).await;
            assert_eq!(now.decision, wanted, "failing {now_failing}: {:?}", now.reasons);
        }
    }

    #[tokio::test]
    async fn what_was_judged_otherwise_is_not_compared() {
        let before = report(IDS, "ANSWER", None, |_, _| Some(true)).await;
        let other_scorer = "[[scorer]]\nname = \"answer\"\nkind = \"contains\"\n";
        let now = report(IDS, other_scorer, Some(&before), |_, _| Some(true)).await;
        assert_eq!((now.decision, now.decision.exit_code()), (Decision::NotComparable, 4));
        let others = report(&["x", "y"], "ANSWER", Some(&before), |_, _| Some(true)).await;
        assert_eq!(others.decision, Decision::NotComparable);
        assert_eq!(others.comparison.unwrap().unpaired, 2);
    }

    #[test]
    fn exit_codes_are_those_of_the_table() {
        let codes = [
            (Decision::Pass, 0),
            (Decision::Fail, 1),
            (Decision::Inconclusive, 3),
            (Decision::NotComparable, 4),
            (Decision::NothingToEvaluate, 4),
            (Decision::CouldNotFinish, 5),
            (Decision::Interrupted, 130),
        ];
        assert!(codes.iter().all(|(decision, code)| decision.exit_code() == *code));
    }
}
