//! Works a suite off: brings a subject for every trial, has it scored, keeps the order of the suite.
//!
//! Place in the flow: `loopdeck eval` calls [`run`] with an [`Execute`]; [`recorded`] reads stored runs, [`live`]
//! makes new ones. A trial whose subject could not be brought is an ERROR with its reason, never a FAIL.

pub mod live;
pub mod recorded;

use crate::case::Case;
use crate::gate;
use crate::report::{self, Report, TrialReport};
use crate::scorer::Verdict;
use crate::subject::Subject;
use crate::suite::Suite;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trace::id::RunId;

/// One run of one case, done or to be done.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The case.
    pub case: Arc<Case>,
    /// Which repeat of it, 0-based.
    pub repeat: u32,
}

/// Why there is nothing to judge: the agent is not to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Infrastructure {
    /// What happened and what to do.
    pub message: String,
    /// The run, if one was begun.
    pub run_id: Option<RunId>,
}

impl Infrastructure {
    /// A failure outside any run.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), run_id: None }
    }
}

/// Brings the subject of a trial, by running an agent or by reading what is stored.
pub trait Execute: Sync {
    /// The trials there are, in the order of the report; by default every case as often as the suite repeats it.
    fn trials(&self, suite: &Suite) -> Vec<Trial> {
        let cases = suite.cases.iter().cloned().map(Arc::new);
        cases
            .flat_map(|case| (0..suite.repeats).map(move |repeat| Trial { case: Arc::clone(&case), repeat }))
            .collect()
    }

    /// The subject of one trial.
    fn execute<'a>(&'a self, case: &'a Case, repeat: u32) -> BoxFuture<'a, Result<Subject, Infrastructure>>;

    /// What a reader of the report should know about where the subjects come from.
    fn notes(&self, _suite: &Suite) -> Vec<String> {
        Vec::new()
    }
}

/// Which cases are wanted; empty lists want all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ids of cases.
    pub cases: Vec<String>,
    /// Tags; a case with any of them is wanted.
    pub tags: Vec<String>,
}

impl Selection {
    fn wants(&self, case: &Case) -> bool {
        (self.cases.is_empty() || self.cases.contains(&case.id))
            && (self.tags.is_empty() || case.tags.iter().any(|tag| self.tags.contains(tag)))
    }
}

/// How far the work is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Trials judged so far, this one included.
    pub done: usize,
    /// Trials there are.
    pub planned: usize,
    /// The trial that was just judged.
    pub trial: &'a TrialReport,
}

/// What the caller of [`run`] decides.
#[derive(Default)]
pub struct Options<'a> {
    /// The eval's id, drawn by the caller; scores carry it.
    pub eval_id: String,
    /// When the eval began, in nanoseconds since 1970, by the caller's clock.
    pub at_ns: i64,
    /// Which cases.
    pub selection: Selection,
    /// An earlier report to compare with.
    pub baseline: Option<&'a Report>,
    /// Set by another to begin no further trial; those under way are waited for.
    pub cancel: Option<&'a AtomicBool>,
    /// Told of every trial as it is judged, in the order they end.
    pub progress: Option<&'a (dyn Fn(Progress<'_>) + Sync)>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("eval_id", &self.eval_id).finish_non_exhaustive()
    }
}

impl Options<'_> {
    fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

/// Judges every selected trial, at most `suite.concurrency` at a time, and decides.
pub async fn run(suite: &Suite, execute: &dyn Execute, options: &Options<'_>) -> Report {
    let trials: Vec<Trial> =
        execute.trials(suite).into_iter().filter(|trial| options.selection.wants(&trial.case)).collect();
    let planned = trials.len();
    let mut reports: Vec<Option<TrialReport>> = vec![None; planned];
    let mut done = 0;
    let mut judged = stream::iter(trials.iter().enumerate())
        .map(|(index, trial)| async move {
            match options.cancelled() {
                true => (index, None),
                false => (index, Some(judge(suite, execute, trial).await)),
            }
        })
        .buffer_unordered(suite.concurrency);
    while let Some((index, report)) = judged.next().await {
        if let (Some(tell), Some(report)) = (options.progress, &report) {
            done += 1;
            tell(Progress { done, planned, trial: report });
        }
        reports[index] = report;
    }
    drop(judged);
    let mut report = report::assemble(suite, &trials, reports, options);
    report.notes.extend(execute.notes(suite));
    gate::decide(suite, &mut report, options.baseline);
    report
}

async fn judge(suite: &Suite, execute: &dyn Execute, trial: &Trial) -> TrialReport {
    let subject = match execute.execute(&trial.case, trial.repeat).await {
        Ok(subject) => subject,
        Err(failure) => return TrialReport::infrastructure(trial.repeat, failure),
    };
    if let Some(message) = subject.infrastructure_fault() {
        let failure = Infrastructure { message, run_id: Some(subject.run_id.clone()) };
        return TrialReport {
            figures: report::Figures::of(&subject),
            ..TrialReport::infrastructure(trial.repeat, failure)
        };
    }
    let scores = suite.score(&trial.case, &subject);
    TrialReport {
        repeat: trial.repeat,
        run_id: Some(subject.run_id.clone()),
        verdict: verdict(suite, &scores),
        infrastructure: None,
        figures: report::Figures::of(&subject),
        scores,
    }
}

/// The verdict of a trial, from its scores in the order of the suite's scorers.
///
/// A primary scorer's verdict is the trial's. Otherwise an ERROR of any scorer with weight makes an ERROR, and the
/// rest must all pass, or reach the suite's threshold by the weighted mean of their values.
fn verdict(suite: &Suite, scores: &[crate::scorer::Score]) -> Verdict {
    let own = || suite.scorers.iter().zip(scores);
    if let Some((_, score)) = own().find(|(scorer, _)| scorer.primary) {
        return score.verdict;
    }
    let counted: Vec<_> =
        own().filter(|(scorer, score)| scorer.weight > 0.0 && score.verdict != Verdict::Skipped).collect();
    if counted.is_empty() {
        return Verdict::Skipped;
    }
    if counted.iter().any(|(_, score)| score.verdict == Verdict::Error) {
        return Verdict::Error;
    }
    let passes = match suite.pass_threshold {
        None => counted.iter().all(|(_, score)| score.verdict == Verdict::Pass),
        Some(threshold) => {
            let weights: f64 = counted.iter().map(|(scorer, _)| scorer.weight).sum();
            let values: f64 =
                counted.iter().map(|(scorer, score)| scorer.weight * score.value.unwrap_or(0.0)).sum();
            // Rounding of the sum must not fail a trial that is exactly at the threshold.
            values / weights >= threshold - 1e-9
        }
    };
    if passes { Verdict::Pass } else { Verdict::Fail }
}

#[cfg(test)]
pub(crate) mod sample {
    //! An executor for tests: answers from a function of case and repeat.
    use super::*;

    /// Brings what the function says.
    pub(crate) struct By<F>(pub(crate) F);

    impl<F> Execute for By<F>
    where
        F: Fn(&Case, u32) -> Result<Subject, Infrastructure> + Sync,
    {
        fn execute<'a>(
            &'a self,
            case: &'a Case,
            repeat: u32,
        ) -> BoxFuture<'a, Result<Subject, Infrastructure>> {
            Box::pin(async move {
                // Later repeats end earlier, so that the order of ends differs from the order of the suite.
                for _ in repeat..8 {
                    tokio::task::yield_now().await;
                }
                (self.0)(case, repeat)
            })
        }
    }

    /// A suite of these cases with scorer `answer` (exact) and more TOML.
    pub(crate) fn suite(ids: &[&str], more: &str) -> Suite {
        let folder = tempfile::tempdir().unwrap();
        let cases: Vec<String> = ids
            .iter()
            .map(|id| {
                serde_json::json!({"id": id, "input": "say yes", "expected": "yes", "tags": [&id[..1]]})
                    .to_string()
            })
            .collect();
        std::fs::write(folder.path().join("cases.jsonl"), cases.join("\n")).unwrap();
        let head = "name = \"desk\"\nagent = \"agent.toml\"\ncases = \"cases.jsonl\"\n";
        Suite::parse(&folder.path().join("suite.toml"), &format!("{head}{more}")).unwrap()
    }

    /// One scorer for [`suite`].
    pub(crate) const ANSWER: &str = "[[scorer]]\nname = \"answer\"\nkind = \"exact\"\n";
}

#[cfg(test)]
mod tests {
    use super::sample::{ANSWER, By, suite};
    use super::*;
    use crate::gate::Decision;
    use crate::subject::sample::{answering, stopped};
    use trace::outcome::StopReason;

    #[tokio::test]
    async fn trials_end_in_any_order_and_are_reported_in_the_order_of_the_suite() {
        let suite = suite(&["b", "a"], &format!("repeats = 3\n{ANSWER}"));
        let ended = std::sync::Mutex::new(Vec::new());
        let tell = |progress: Progress<'_>| ended.lock().unwrap().push(progress.trial.repeat);
        let options = Options { progress: Some(&tell), ..Options::default() };
        let report = run(&suite, &By(|_: &Case, _| Ok(answering("yes"))), &options).await;
        let order: Vec<_> = report
            .cases
            .iter()
            .flat_map(|case| case.trials.iter().map(|trial| (case.case_id.as_str(), trial.repeat)))
            .collect();
        assert_eq!(order, [("b", 0), ("b", 1), ("b", 2), ("a", 0), ("a", 1), ("a", 2)]);
        let ended = ended.into_inner().unwrap();
        assert_eq!(ended.len(), 6);
        assert_ne!(ended, [0, 1, 2, 0, 1, 2], "the trials really overlapped");
        assert_eq!(report.decision, Decision::Pass);
    }

    #[tokio::test]
    async fn never_more_trials_than_the_suite_allows_are_under_way() {
        use std::sync::atomic::AtomicUsize;
        struct Counting {
            now: AtomicUsize,
            most: AtomicUsize,
        }
        impl Execute for Counting {
            fn execute<'a>(&'a self, _: &'a Case, _: u32) -> BoxFuture<'a, Result<Subject, Infrastructure>> {
                Box::pin(async move {
                    let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                    self.most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    self.now.fetch_sub(1, Ordering::SeqCst);
                    Ok(answering("yes"))
                })
            }
        }
        let suite = suite(&["a", "b"], &format!("repeats = 10\nconcurrency = 3\n{ANSWER}"));
        let counting = Counting { now: AtomicUsize::new(0), most: AtomicUsize::new(0) };
        run(&suite, &counting, &Options::default()).await;
        assert_eq!(counting.most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn what_the_infrastructure_broke_is_an_error_and_not_a_failure() {
        let suite = suite(&["down", "provider", "wrong"], ANSWER);
        let execute = By(|case: &Case, _| match case.id.as_str() {
            "down" => Err(Infrastructure::new("no route to the provider")),
            "provider" => Ok(stopped(StopReason::ModelError)),
            _ => Ok(answering("no")),
        });
        let report = run(&suite, &execute, &Options::default()).await;
        let verdicts: Vec<Verdict> = report.cases.iter().map(|case| case.trials[0].verdict).collect();
        assert_eq!(verdicts, [Verdict::Error, Verdict::Error, Verdict::Fail]);
        assert_eq!((report.trials.failed, report.trials.errors), (1, 2));
    }

    #[tokio::test]
    async fn a_cancelled_eval_begins_no_further_trial_and_says_so() {
        let suite = suite(&["a", "b", "c"], &format!("concurrency = 1\n{ANSWER}"));
        let cancel = AtomicBool::new(false);
        let tell = |_: Progress<'_>| cancel.store(true, Ordering::Relaxed);
        let options = Options { cancel: Some(&cancel), progress: Some(&tell), ..Options::default() };
        let report = run(&suite, &By(|_: &Case, _| Ok(answering("yes"))), &options).await;
        assert_eq!((report.trials.planned, report.trials.passed, report.trials.not_run), (3, 1, 2));
        assert_eq!(report.decision, Decision::Interrupted);
    }

    #[tokio::test]
    async fn a_selection_that_finds_nothing_is_never_a_pass() {
        let suite = suite(&["a"], ANSWER);
        let selection = Selection { tags: vec!["nothing".to_owned()], ..Selection::default() };
        let options = Options { selection, ..Options::default() };
        let report = run(&suite, &By(|_: &Case, _| Ok(answering("yes"))), &options).await;
        assert_eq!(report.decision, Decision::NothingToEvaluate);
        assert_eq!(report.decision.exit_code(), 4);
    }

    #[test]
    fn a_trials_verdict_follows_its_scorers() {
        use crate::scorer::Score;
        let two = format!(
            "{ANSWER}[[scorer]]\nname = \"kept\"\nkind = \"budget\"\nWEIGHT\n[scorer.options]\nmax_turns = 3\n"
        );
        let by =
            |head: &str, weight: &str| suite(&["a"], &format!("{head}{}", two.replace("WEIGHT", weight)));
        let (pass, fail) = (Score::pass(""), Score::fail("x", ""));
        let (error, skipped) = (Score::error("x", ""), Score::skipped(""));
        for (suite, scores, wanted) in [
            (by("", ""), [&pass, &pass], Verdict::Pass),
            (by("", ""), [&pass, &fail], Verdict::Fail),
            (by("", ""), [&fail, &error], Verdict::Error),
            (by("", ""), [&pass, &skipped], Verdict::Pass),
            (by("", ""), [&skipped, &skipped], Verdict::Skipped),
            (by("", "weight = 0"), [&pass, &error], Verdict::Pass),
            (by("", "primary = true"), [&fail, &pass], Verdict::Pass),
            (by("pass_threshold = 0.5\n", ""), [&pass, &fail], Verdict::Pass),
            (by("pass_threshold = 0.5\n", "weight = 3"), [&pass, &fail], Verdict::Fail),
        ] {
            assert_eq!(verdict(&suite, &scores.map(Clone::clone)), wanted, "{scores:?}");
        }
    }
}
