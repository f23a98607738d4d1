//! Stored runs are judged: rows become subjects, and real trajectories give their published figures.

use super::*;
use crate::gate::Decision;
use crate::report::Report;
use crate::runner::{Options, run};
use crate::scorer::Verdict;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace::home::Home;
use trace::inbox::Inbox;
use trace::redact::Redactor;

fn suite(text: &str) -> Suite {
    Suite::parse(Path::new("suite.toml"), text).unwrap()
}

const REWARDED: &str = "name = \"airline\"\n[recorded]\nwhere = \"task_id is not null\"\n[[scorer]]\nname = \"reward\"\nkind = \"reward\"\n";

fn row(run_id: &str, task_id: Value, trial: Value) -> Value {
    json!({"run_id": run_id, "task_id": task_id, "trial": trial, "status": "completed", "stop_reason": "completed",
        "answer": "done", "turns": 2, "reward": 1.0})
}

/// Stored runs made of rows as the statements give them.
fn recorded(runs: &[Value], calls: &[Value]) -> Recorded {
    fn read<T: DeserializeOwned>(rows: &[Value]) -> Vec<T> {
        rows.iter().map(|row| serde_json::from_value(row.clone()).unwrap()).collect()
    }
    Recorded::from_rows(read(runs), read(calls))
}

/// A reader of an empty home in this folder.
fn reader(folder: &Path) -> (Home, Reader) {
    let home = Home::open(folder.join("home")).unwrap();
    let reader = Reader::open(&home, Duration::ZERO).unwrap();
    (home, reader)
}

#[test]
fn runs_are_grouped_by_task_and_numbered_by_trial() {
    let stored = recorded(
        &[
            row("d", json!("10"), json!(0)),
            row("b", json!("2"), json!(3)),
            row("a", json!("2"), json!(1)),
            row("c", json!(null), json!(null)),
            row("x", json!("twice"), json!(0)),
            row("y", json!("twice"), json!(0)),
        ],
        &[],
    );
    let trials: Vec<(String, u32)> =
        stored.trials(&suite(REWARDED)).iter().map(|trial| (trial.case.id.clone(), trial.repeat)).collect();
    let wanted = [("c", 0), ("twice", 0), ("twice", 1), ("2", 1), ("2", 3), ("10", 0)];
    assert_eq!(trials, wanted.map(|(task, repeat)| (task.to_owned(), repeat)));
}

#[test]
fn calls_come_in_the_order_of_turns_and_what_is_unknown_stays_unknown() {
    let call = |turn, index, name: &str| json!({"run_id": "a", "turn": turn, "call_index": index, "tool_name": name, "arguments": null, "status": "error"});
    let stored =
        recorded(&[row("a", json!("1"), json!(0))], &[call(2, 0, "c"), call(1, 1, "b"), call(1, 0, "a")]);
    let subject = &stored.runs["1"][&0];
    let names: Vec<&str> = subject.tool_calls.iter().map(|call| call.tool_name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        (subject.tool_calls[0].status, subject.tool_calls[0].arguments.as_ref()),
        (Some(ToolStatus::Error), None)
    );
    assert_eq!((subject.tokens(), subject.cost_usd, subject.latency_ms), (None, None, None));
}

#[tokio::test]
async fn the_condition_of_the_suite_may_end_in_a_comment_and_a_wrong_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (_home, reader) = reader(folder.path());
    assert_eq!(Recorded::read("trial = 0 -- the first", &reader).await.unwrap().runs(), 0);
    let error = Recorded::read("tsk = 1", &reader).await.unwrap_err().to_string();
    assert!(error.contains("tsk") && error.contains("`recorded.where`"), "{error}");
}

#[tokio::test]
async fn a_case_without_a_stored_run_is_an_error_and_a_run_without_a_case_is_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cases.jsonl"), "{\"id\":\"1\"}\n{\"id\":\"2\"}").unwrap();
    let text = format!("cases = \"cases.jsonl\"\n{REWARDED}");
    let suite = Suite::parse(&folder.path().join("suite.toml"), &text).unwrap();
    let stored = recorded(&[row("a", json!("1"), json!(0)), row("b", json!("3"), json!(0))], &[]);
    let report = run(&suite, &stored, &Options::default()).await;
    let verdicts: Vec<Verdict> = report.cases.iter().map(|case| case.trials[0].verdict).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Error]);
    assert_eq!(report.notes, ["1 of 2 stored runs belong to no case of the suite"]);
    assert_eq!(report.decision, Decision::CouldNotFinish);
}

#[tokio::test]
async fn no_stored_run_at_all_is_nothing_to_evaluate() {
    let report = run(&suite(REWARDED), &recorded(&[], &[]), &Options::default()).await;
    assert_eq!(report.decision, Decision::NothingToEvaluate);
}

/// Where real recorded input lies, or `None`, said aloud, where it is absent.
fn real_data(file: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let data = std::env::var_os("LOOPDECK_REAL_DATA").map_or(beside, PathBuf::from);
    let file = data.join(file);
    if file.exists() {
        return Some(file);
    }
    // Past the capture of the test runner, or nobody would hear it.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("skipped: no real data\n"));
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "real data must be there in CI");
    None
}

/// The eval of real trajectories by their recorded reward, from the file to the report.
async fn tau_bench() -> Option<Report> {
    let file = real_data("tau-bench/gpt-4o-airline.dev.json")?;
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().join("home")).unwrap();
    let inbox = Inbox::new(&home);
    let redactor = Redactor::new([0; 32]).unwrap();
    for entry in trace::import::file(&file, &redactor).unwrap().entries(0) {
        inbox.append(&entry).unwrap();
    }
    let reader = Reader::open(&home, Duration::ZERO).unwrap();
    let stored = Recorded::read("task_id is not null", &reader).await.unwrap();
    Some(run(&suite(REWARDED), &stored, &Options::default()).await)
}

#[tokio::test]
async fn tau_bench_gives_its_known_pass_rates() {
    let Some(report) = tau_bench().await else { return };
    assert_eq!((report.cases.len(), report.trials.planned, report.trials.passed), (25, 100, 49));
    let known = [(0.49, 0.49), (0.5933, 0.3867), (0.65, 0.34), (0.68, 0.32)];
    assert_eq!(report.pass_k.len(), known.len());
    for (row, (at, hat)) in report.pass_k.iter().zip(known) {
        assert_eq!(row.cases, 25);
        assert!((row.pass_at_k - at).abs() < 5e-5, "pass@{} is {}", row.k, row.pass_at_k);
        assert!((row.pass_hat_k - hat).abs() < 5e-5, "pass^{} is {}", row.k, row.pass_hat_k);
    }
    let rate = report.pass_rate.unwrap();
    let interval = rate.interval.unwrap();
    let naive = crate::statistic::wilson::wilson(0.49, 100.0).unwrap();
    assert!(
        interval.high - interval.low > 1.3 * (naive.high - naive.low),
        "repeats of a task are not independent"
    );
    assert_eq!(report.decision, Decision::Fail);
}
