//! The report for people: the decision first, then figures with their denominators, then what failed and why.
//!
//! Place in the flow: printed by `loopdeck eval`, written by `-o report.txt`, fenced for `-o summary.md`.

use super::{CaseReport, PassRate, Report, Sum, TrialReport};
use crate::scorer::Verdict;
use std::fmt::{self, Write as _};

/// The most failing trials that are listed; the JSON report holds them all.
const MAX_LISTED: usize = 50;

/// The report as plain text.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_report(&mut out, report);
    out
}

/// The text in a Markdown fence that is longer than any inside it.
pub(super) fn fenced(report: &Report) -> String {
    let text = render(report);
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}{fence}\n")
}

fn write_report(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out, "{}: {}", plain(&report.suite), report.decision)?;
    for reason in report.reasons.iter().chain(&report.notes) {
        writeln!(out, "  {}", plain(reason))?;
    }
    write_counts(out, report)?;
    write_scorers(out, report)?;
    write_pass_k(out, report)?;
    write_trials(out, report, Verdict::Fail, "failed")?;
    write_trials(out, report, Verdict::Error, "errors: could not be judged, not counted as failures")
}

fn write_counts(out: &mut String, report: &Report) -> fmt::Result {
    let trials = &report.trials;
    write!(out, "\ntrials     {} passed, {} failed, {} errors", trials.passed, trials.failed, trials.errors)?;
    write!(out, ", {} skipped", trials.skipped)?;
    if trials.not_run > 0 {
        write!(out, ", {} not run", trials.not_run)?;
    }
    writeln!(out, " of {}", trials.planned)?;
    if let Some(rate) = &report.pass_rate {
        write_rate(out, rate)?;
    }
    write_sum(out, "tokens", &report.used.tokens, 0)?;
    write_sum(out, "cost USD", &report.used.cost_usd, 4)
}

fn write_rate(out: &mut String, rate: &PassRate) -> fmt::Result {
    write!(out, "pass rate  {:.4}, mean of {} cases", rate.mean_of_cases, rate.cases)?;
    write!(out, " ({} of {} trials", rate.passed, rate.judged)?;
    if let (Some(interval), Some(effective)) = (rate.interval, rate.effective_trials) {
        write!(out, "; 95 % interval {:.3} to {:.3}", interval.low, interval.high)?;
        write!(out, ", worth {effective:.1} independent trials")?;
    }
    writeln!(out, ")")
}

fn write_sum(out: &mut String, name: &str, sum: &Sum, digits: usize) -> fmt::Result {
    match sum.known {
        0 => writeln!(out, "{name:<10} unknown (told by 0 of {} runs)", sum.of),
        known => writeln!(out, "{name:<10} {:.digits$} (told by {known} of {} runs)", sum.total, sum.of),
    }
}

fn write_scorers(out: &mut String, report: &Report) -> fmt::Result {
    let width = report.scorers.iter().map(|one| plain(&one.scorer).chars().count()).max().unwrap_or(0).max(6);
    writeln!(out, "\n{:<width$}  passed  failed  errors  skipped  mean value", "scorer")?;
    for one in &report.scorers {
        write!(out, "{:<width$}  {:>6}  {:>6}", plain(&one.scorer), one.passed, one.failed)?;
        write!(out, "  {:>6}  {:>7}", one.errors, one.skipped)?;
        match one.mean_value {
            Some(mean) => writeln!(out, "  {mean:.4} of {}", one.values)?,
            None => writeln!(out, "  unknown")?,
        }
    }
    Ok(())
}

fn write_pass_k(out: &mut String, report: &Report) -> fmt::Result {
    if report.pass_k.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n k  pass@k  pass^k  cases")?;
    for row in &report.pass_k {
        writeln!(
            out,
            "{:>2}  {:.4}  {:.4}  {} of {}",
            row.k,
            row.pass_at_k,
            row.pass_hat_k,
            row.cases,
            report.cases.len()
        )?;
    }
    Ok(())
}

fn write_trials(out: &mut String, report: &Report, verdict: Verdict, title: &str) -> fmt::Result {
    let trials: Vec<(&CaseReport, &TrialReport)> = report
        .cases
        .iter()
        .flat_map(|case| case.trials.iter().map(move |trial| (case, trial)))
        .filter(|(_, trial)| trial.verdict == verdict)
        .collect();
    if trials.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for (case, trial) in trials.iter().take(MAX_LISTED) {
        let run = trial.run_id.as_ref().map_or_else(|| "no run".to_owned(), |run| format!("run {run}"));
        writeln!(out, "  {}  repeat {}  {}", plain(&case.case_id), trial.repeat, plain(&run))?;
        writeln!(out, "    {}", plain(&trial.told(report)))?;
    }
    match trials.len().checked_sub(MAX_LISTED) {
        Some(more) if more > 0 => writeln!(out, "  and {more} more"),
        _ => Ok(()),
    }
}

impl TrialReport {
    /// Why the trial is not a PASS, in one line.
    pub(super) fn told(&self, report: &Report) -> String {
        let scores = report.scorers.iter().zip(&self.scores);
        let told = scores
            .filter(|(_, score)| matches!(score.verdict, Verdict::Fail | Verdict::Error))
            .map(|(scorer, score)| format!("{} {}: {}", scorer.scorer, score.verdict, score.reason));
        self.infrastructure.iter().cloned().chain(told).collect::<Vec<_>>().join("; ")
    }
}

/// Text without control characters, so that no answer can move the cursor or colour a terminal.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn people_see_the_decision_first_and_every_figure_with_its_denominator() {
        let report = super::super::sample::report().await;
        insta::assert_snapshot!(render(&report), @r"
        desk: COULD NOT FINISH
          2 of 8 trials could not be judged; `gate.max_error_rate` allows a share of 0

        trials     3 passed, 3 failed, 2 errors, 0 skipped of 8
        pass rate  0.5000, mean of 3 cases (3 of 6 trials; 95 % interval 0.125 to 0.875, worth 3.0 independent trials)
        tokens     unknown (told by 0 of 6 runs)
        cost USD   unknown (told by 0 of 6 runs)

        scorer  passed  failed  errors  skipped  mean value
        answer       3       3       0        0  0.5000 of 6

         k  pass@k  pass^k  cases
         1  0.5000  0.5000  3 of 4
         2  0.6667  0.3333  3 of 4

        failed
          flickers  repeat 1  run run-flickers-1
            answer FAIL: expected `yes`, got `no </testcase> \u{1b}[31m````
          limit  repeat 0  run run-limit-0
            answer FAIL: no final answer: the run stopped with `max_turns`
          limit  repeat 1  run run-limit-1
            answer FAIL: no final answer: the run stopped with `max_turns`

        errors: could not be judged, not counted as failures
          unreachable  repeat 0  no run
            no route to 127.0.0.1:9
          unreachable  repeat 1  no run
            no route to 127.0.0.1:9
        ");
    }

    #[tokio::test]
    async fn no_answer_breaks_out_of_the_fence() {
        let fenced = fenced(&super::super::sample::report().await);
        // The sample's answer holds four backticks in a row.
        assert!(fenced.starts_with("`````text\n") && fenced.ends_with("\n`````\n"), "{fenced}");
    }
}
