//! What an eval found: the one document that text, JSON and JUnit are written from, and a later eval is compared
//! with.
//!
//! Place in the flow: the runner assembles it, the gate decides into it, the command line writes it. Every share
//! stands beside its numerator and denominator; ERROR and FAIL are never added up.

mod json;
mod junit;
mod text;

use crate::case::Case;
use crate::gate::Decision;
use crate::runner::{Infrastructure, Options, Trial};
use crate::scorer::{Score, Verdict};
use crate::statistic::pass_k::{self, PassK};
use crate::statistic::wilson::{Interval, wilson};
use crate::statistic::{Tally, cluster, real};
use crate::subject::Subject;
use crate::suite::Suite;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use trace::id::{Hash, RunId};
use trace::outcome::StopReason;

pub use json::{ReadError, read};

/// The version of the JSON form; a reader refuses others.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The eval's id.
    pub eval_id: String,
    /// When it began, in nanoseconds since 1970.
    pub at_ns: i64,
    /// The suite's name.
    pub suite: String,
    /// Identifies how trials were judged.
    pub suite_hash: Hash,
    /// What the gate says.
    pub decision: Decision,
    /// Why it says so; empty for a plain pass.
    pub reasons: Vec<String>,
    /// Trials by verdict.
    pub trials: TrialCounts,
    /// The share of trials passed; absent where none was judged.
    pub pass_rate: Option<PassRate>,
    /// pass@k and pass^k.
    pub pass_k: Vec<PassK>,
    /// Each scorer's verdicts, in the order of the suite.
    pub scorers: Vec<ScorerCounts>,
    /// What the runs used up.
    pub used: Used,
    /// The comparison with a baseline, where one was given.
    pub comparison: Option<Comparison>,
    /// What a reader should know about where the subjects come from.
    pub notes: Vec<String>,
    /// Every case, in the order of the suite.
    pub cases: Vec<CaseReport>,
}

/// Trials by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialCounts {
    /// Trials there were to judge: the sum of all below.
    pub planned: u64,
    /// PASS.
    pub passed: u64,
    /// FAIL.
    pub failed: u64,
    /// ERROR: could not be judged.
    pub errors: u64,
    /// SKIPPED.
    pub skipped: u64,
    /// Not begun, because the eval was interrupted.
    pub not_run: u64,
}

/// The share of trials passed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassRate {
    /// Mean over cases of each case's share: what the gate compares.
    pub mean_of_cases: f64,
    /// Trials passed.
    pub passed: u64,
    /// Trials judged PASS or FAIL.
    pub judged: u64,
    /// Cases with a judged trial.
    pub cases: u64,
    /// 95 % interval of the share, for as many independent trials as the repeats are worth.
    pub interval: Option<Interval>,
    /// How many that is.
    pub effective_trials: Option<f64>,
}

/// One scorer's verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorerCounts {
    /// Its name in the suite.
    pub scorer: String,
    /// Its kind.
    pub kind: String,
    /// PASS.
    pub passed: u64,
    /// FAIL.
    pub failed: u64,
    /// ERROR.
    pub errors: u64,
    /// SKIPPED.
    pub skipped: u64,
    /// Mean value over the trials that have one; absent where none has.
    pub mean_value: Option<f64>,
    /// How many have one.
    pub values: u64,
}

/// A sum over the trials that tell the figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    /// The sum; 0 with `known` 0 says nothing.
    pub total: f64,
    /// Trials that tell it.
    pub known: u64,
    /// Trials with a run.
    pub of: u64,
}

/// What the runs used up, as far as they tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Input and output tokens.
    pub tokens: Sum,
    /// US dollars.
    pub cost_usd: Sum,
    /// Milliseconds, one trial after the other.
    pub latency_ms: Sum,
}

/// A comparison with an earlier report, case by case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The earlier eval.
    pub baseline_eval_id: String,
    /// What it says on its own.
    pub decision: Decision,
    /// Why.
    pub reason: String,
    /// Cases judged, unchanged, on both sides.
    pub paired: u64,
    /// Cases of this report without a partner.
    pub unpaired: u64,
    /// Cases that passed and fail now.
    pub broken: Vec<String>,
    /// Cases that failed and pass now.
    pub mended: Vec<String>,
    /// Chance of as many broken cases among the changed ones if nothing changed (exact one-sided McNemar).
    pub p_value: Option<f64>,
}

impl Comparison {
    /// A comparison before anything was paired.
    pub(crate) fn not_comparable(baseline: &Report) -> Self {
        Self {
            baseline_eval_id: baseline.eval_id.clone(),
            decision: Decision::NotComparable,
            reason: String::new(),
            paired: 0,
            unpaired: 0,
            broken: Vec::new(),
            mended: Vec::new(),
            p_value: None,
        }
    }
}

/// One case with its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    /// The case.
    pub case_id: String,
    /// Identifies what it asks and expects.
    pub case_hash: Hash,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its trials that were run, by repeat.
    pub trials: Vec<TrialReport>,
}

impl CaseReport {
    /// How often it was judged and how often it passed.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let count = |verdict| self.trials.iter().filter(|trial| trial.verdict == verdict).count() as u64;
        let passed = count(Verdict::Pass);
        Tally { judged: passed + count(Verdict::Fail), passed }
    }
}

/// One trial of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReport {
    /// Which repeat, 0-based.
    pub repeat: u32,
    /// The run, if there was one.
    pub run_id: Option<RunId>,
    /// The trial's verdict.
    pub verdict: Verdict,
    /// What the infrastructure did, where that is why the trial is an ERROR.
    pub infrastructure: Option<String>,
    /// What is known of the run.
    pub figures: Figures,
    /// One score a scorer, in the order of the suite; empty where there was nothing to score.
    pub scores: Vec<Score>,
}

/// What is known of a trial's run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Why it stopped.
    pub stop_reason: Option<StopReason>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Milliseconds.
    pub latency_ms: Option<f64>,
}

impl Figures {
    /// The figures of a subject.
    #[must_use]
    pub fn of(subject: &Subject) -> Self {
        Self {
            stop_reason: Some(subject.stop_reason),
            turns: subject.turns,
            tool_calls: Some(subject.tool_calls.len() as u64),
            input_tokens: subject.input_tokens,
            output_tokens: subject.output_tokens,
            cost_usd: subject.cost_usd,
            latency_ms: subject.latency_ms,
        }
    }
}

impl TrialReport {
    /// A trial that has nothing to judge.
    pub(crate) fn infrastructure(repeat: u32, failure: Infrastructure) -> Self {
        Self {
            repeat,
            run_id: failure.run_id,
            verdict: Verdict::Error,
            infrastructure: Some(failure.message),
            figures: Figures::default(),
            scores: Vec::new(),
        }
    }
}

/// Puts the trials of an eval together; the gate has not decided yet.
pub(crate) fn assemble(
    suite: &Suite,
    trials: &[Trial],
    reports: Vec<Option<TrialReport>>,
    options: &Options<'_>,
) -> Report {
    let not_run = reports.iter().filter(|report| report.is_none()).count() as u64;
    let cases = by_case(trials, reports);
    let tallies: Vec<Tally> = cases.iter().map(CaseReport::tally).collect();
    Report {
        schema_version: SCHEMA_VERSION,
        eval_id: options.eval_id.clone(),
        at_ns: options.at_ns,
        suite: suite.name.clone(),
        suite_hash: suite.hash(),
        decision: Decision::NothingToEvaluate,
        reasons: Vec::new(),
        trials: count_trials(&cases, trials.len() as u64, not_run),
        pass_rate: pass_rate(&tallies),
        pass_k: pass_k::table(&tallies),
        scorers: count_scorers(suite, &cases),
        used: used(&cases),
        comparison: None,
        notes: Vec::new(),
        cases,
    }
}

/// Groups trials by case, in the order in which the cases first appear.
fn by_case(trials: &[Trial], reports: Vec<Option<TrialReport>>) -> Vec<CaseReport> {
    let mut cases: Vec<CaseReport> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (trial, report) in trials.iter().zip(reports) {
        let place = *places.entry(trial.case.id.as_str()).or_insert_with(|| {
            cases.push(case_report(&trial.case));
            cases.len() - 1
        });
        cases[place].trials.extend(report);
    }
    cases
}

fn case_report(case: &Case) -> CaseReport {
    CaseReport {
        case_id: case.id.clone(),
        case_hash: case.hash(),
        tags: case.tags.clone(),
        trials: Vec::new(),
    }
}

fn count_trials(cases: &[CaseReport], planned: u64, not_run: u64) -> TrialCounts {
    let mut counts = TrialCounts { planned, not_run, ..TrialCounts::default() };
    for trial in cases.iter().flat_map(|case| &case.trials) {
        match trial.verdict {
            Verdict::Pass => counts.passed += 1,
            Verdict::Fail => counts.failed += 1,
            Verdict::Error => counts.errors += 1,
            Verdict::Skipped => counts.skipped += 1,
        }
    }
    counts
}

fn pass_rate(tallies: &[Tally]) -> Option<PassRate> {
    let judged = tallies.iter().map(|tally| tally.judged).sum();
    let passed = tallies.iter().map(|tally| tally.passed).sum();
    let rates: Vec<f64> = tallies.iter().filter_map(|tally| tally.rate()).collect();
    let overall = Tally { judged, passed }.rate()?;
    let effective_trials = cluster::effective_trials(tallies);
    Some(PassRate {
        mean_of_cases: rates.iter().sum::<f64>() / real(rates.len() as u64),
        passed,
        judged,
        cases: rates.len() as u64,
        interval: effective_trials.and_then(|trials| wilson(overall, trials)),
        effective_trials,
    })
}

fn count_scorers(suite: &Suite, cases: &[CaseReport]) -> Vec<ScorerCounts> {
    let counted = |(index, scorer): (usize, &crate::suite::SuiteScorer)| {
        let trials = cases.iter().flat_map(|case| &case.trials);
        let scores: Vec<&Score> = trials.filter_map(|trial| trial.scores.get(index)).collect();
        let count = |verdict| scores.iter().filter(|score| score.verdict == verdict).count() as u64;
        let values: Vec<f64> = scores.iter().filter_map(|score| score.value).collect();
        ScorerCounts {
            scorer: scorer.name.clone(),
            kind: scorer.kind.clone(),
            passed: count(Verdict::Pass),
            failed: count(Verdict::Fail),
            errors: count(Verdict::Error),
            skipped: count(Verdict::Skipped),
            mean_value: (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len() as u64)),
            values: values.len() as u64,
        }
    };
    suite.scorers.iter().enumerate().map(counted).collect()
}

fn used(cases: &[CaseReport]) -> Used {
    let figures: Vec<Figures> = cases
        .iter()
        .flat_map(|case| &case.trials)
        .filter(|trial| trial.run_id.is_some())
        .map(|trial| trial.figures)
        .collect();
    let sum = |of: fn(&Figures) -> Option<f64>| {
        let known: Vec<f64> = figures.iter().filter_map(of).collect();
        Sum { total: known.iter().sum(), known: known.len() as u64, of: figures.len() as u64 }
    };
    Used {
        tokens: sum(|one| Some(real(one.input_tokens?) + real(one.output_tokens?))),
        cost_usd: sum(|one| one.cost_usd),
        latency_ms: sum(|one| one.latency_ms),
    }
}

impl Report {
    /// The scores as rows for the ops log; trials without a run have none.
    #[must_use]
    pub fn score_rows(&self) -> Vec<trace::ops::Score> {
        let mut rows = Vec::new();
        for case in &self.cases {
            for trial in &case.trials {
                let Some(run_id) = &trial.run_id else { continue };
                for (scorer, score) in self.scorers.iter().zip(&trial.scores) {
                    rows.push(self.score_row(run_id, case, trial, &scorer.scorer, score));
                }
            }
        }
        rows
    }

    fn score_row(
        &self,
        run_id: &RunId,
        case: &CaseReport,
        trial: &TrialReport,
        scorer: &str,
        score: &Score,
    ) -> trace::ops::Score {
        trace::ops::Score {
            run_id: run_id.clone(),
            suite: self.suite.clone(),
            case_id: case.case_id.clone(),
            repeat: trial.repeat,
            scorer: scorer.to_owned(),
            value: score.value,
            verdict: score.verdict.as_str().to_owned(),
            label: score.label.clone(),
            reason: Some(score.reason.clone()),
            eval_id: Some(self.eval_id.clone()),
            at_ns: Some(self.at_ns),
        }
    }
}

/// A form that a report can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// The text in a fence, for a CI's step summary.
    Markdown,
    /// The whole report; also what `--baseline` reads.
    Json,
    /// For CI systems.
    Junit,
}

/// Why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The suffix names no form.
    #[error("{}: the suffix names no form of report; use .json, .xml (JUnit), .txt or .md", .0.display())]
    Suffix(PathBuf),
    /// The document could not be made.
    #[error("{}: cannot be written as {form}: {why}", file.display())]
    Render {
        /// The file.
        file: PathBuf,
        /// The form.
        form: &'static str,
        /// Why.
        why: String,
    },
    /// The file could not be written.
    #[error("{}: cannot be written: {source}; check that its folder exists and may be written", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Format {
    /// The form that the file's suffix names. Ask before the eval, so that no result is lost after it.
    ///
    /// # Errors
    /// Where the suffix names none.
    pub fn of(file: &Path) -> Result<Self, WriteError> {
        match file.extension().and_then(|suffix| suffix.to_str()) {
            Some("json") => Ok(Self::Json),
            Some("xml") => Ok(Self::Junit),
            Some("txt") => Ok(Self::Text),
            Some("md") => Ok(Self::Markdown),
            _ => Err(WriteError::Suffix(file.to_owned())),
        }
    }
}

impl Report {
    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        text::render(self)
    }

    /// Writes the report in the form that the file's suffix names.
    ///
    /// # Errors
    /// Where the suffix names no form, or the file cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), WriteError> {
        let failed = |form, why| WriteError::Render { file: file.to_owned(), form, why };
        let document = match Format::of(file)? {
            Format::Text => self.text(),
            Format::Markdown => text::fenced(self),
            Format::Json => json::render(self).map_err(|error| failed("JSON", error.to_string()))?,
            Format::Junit => junit::render(self).map_err(|error| failed("JUnit", error.to_string()))?,
        };
        std::fs::write(file, document).map_err(|source| WriteError::Write { file: file.to_owned(), source })
    }
}

#[cfg(test)]
pub(crate) mod sample {
    //! One report with every verdict, for the tests of the forms.
    use super::*;
    use crate::runner::sample::{ANSWER, By, suite};
    use crate::runner::{Infrastructure, run};
    use crate::subject::sample::{answering, stopped};

    /// Four cases, two repeats: one passes, one flickers, one hits its limit, one has no provider.
    pub(crate) async fn report() -> Report {
        let more = format!("repeats = 2\n{ANSWER}");
        let execute = By(|case: &Case, repeat| {
            let subject = match (case.id.as_str(), repeat) {
                ("limit", _) => stopped(StopReason::MaxTurns),
                ("flickers", 1) => answering("no </testcase> \u{1b}[31m```"),
                ("unreachable", _) => return Err(Infrastructure::new("no route to 127.0.0.1:9")),
                _ => answering("yes"),
            };
            let run_id = RunId::new(format!("run-{}-{repeat}", case.id));
            Ok(Subject { run_id, latency_ms: Some(250.0), ..subject })
        });
        let options = Options { eval_id: "eval-1".to_owned(), at_ns: 7, ..Options::default() };
        run(&suite(&["passes", "flickers", "limit", "unreachable"], &more), &execute, &options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_figure_has_its_denominator_and_errors_stay_apart() {
        let report = sample::report().await;
        let expected = TrialCounts { planned: 8, passed: 3, failed: 3, errors: 2, skipped: 0, not_run: 0 };
        assert_eq!(report.trials, expected);
        let rate = report.pass_rate.unwrap();
        assert_eq!((rate.passed, rate.judged, rate.cases, rate.mean_of_cases), (3, 6, 3, 0.5));
        assert_eq!((report.pass_k[1].pass_at_k, report.pass_k[1].cases), (2.0 / 3.0, 3));
        assert_eq!(
            (report.used.latency_ms.known, report.used.tokens.known, report.used.tokens.of),
            (6, 0, 6)
        );
    }

    #[tokio::test]
    async fn scores_become_rows_and_a_trial_without_a_run_has_none() {
        let rows = sample::report().await.score_rows();
        assert_eq!(rows.len(), 6);
        insta::assert_json_snapshot!(rows[3], @r#"
        {
          "run_id": "run-flickers-1",
          "suite": "desk",
          "case_id": "flickers",
          "repeat": 1,
          "scorer": "answer",
          "value": 0.0,
          "verdict": "FAIL",
          "label": "mismatch",
          "reason": "expected `yes`, got `no </testcase> \u001b[31m````",
          "eval_id": "eval-1",
          "at_ns": 7
        }
        "#);
    }

    #[tokio::test]
    async fn reports_are_written_by_suffix_and_an_unknown_one_is_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let report = sample::report().await;
        for name in ["report.json", "junit.xml", "report.txt", "summary.md"] {
            report.write(&folder.path().join(name)).unwrap();
            assert!(std::fs::metadata(folder.path().join(name)).unwrap().len() > 100, "{name}");
        }
        insta::assert_snapshot!(Format::of(Path::new("report.html")).unwrap_err(), @"report.html: the suffix names no form of report; use .json, .xml (JUnit), .txt or .md");
        assert!(matches!(report.write(&folder.path().join("no/such/a.json")), Err(WriteError::Write { .. })));
    }
}
