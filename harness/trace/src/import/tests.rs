//! Files as runs.

use super::*;
use crate::home::Home;
use crate::inbox::Inbox;
use crate::store::Store;
use serde_json::{Value, json};
use std::io::Write as _;

fn redactor() -> Redactor {
    Redactor::new([1; 32]).unwrap()
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn indexed(path: &Path) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().to_owned()).unwrap();
    let inbox = Inbox::new(&home);
    for _ in 0..2 {
        for entry in file(path, &redactor()).unwrap().entries(1) {
            inbox.append(&entry).unwrap();
        }
    }
    let store = Store::open(&home).unwrap();
    store.catch_up().unwrap();
    (folder, store)
}

fn ask(store: &Store, sql: &str) -> Value {
    json!(store.query(sql, &[], 1000).unwrap().rows)
}

/// A small trajectory that uses one call id for two calls, repeats one call and fails at it.
fn trajectory() -> Value {
    let call = |name: &str, args: &str| json!([{"id": "call_1", "type": "function", "function": {"name": name, "arguments": args}}]);
    let result = |text: &str| json!({"role": "tool", "tool_call_id": "call_1", "name": "x", "content": text});
    json!([{"task_id": 4, "trial": 1, "reward": 1.0, "info": {}, "traj": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Book."},
        {"role": "assistant", "content": null, "tool_calls": call("get_user", "{\"id\": 1, \"x\": 2}")},
        result("{}"),
        {"role": "assistant", "content": null, "tool_calls": call("calculate", "{}")},
        result("ERROR: no expression"),
        {"role": "assistant", "content": null, "tool_calls": call("get_user", "{\"x\":2,\"id\":1.0}")},
        result("{}"),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Thanks ###STOP###"},
    ]}])
}

#[test]
fn a_trajectory_becomes_a_run_and_importing_it_twice_changes_nothing() {
    let (_folder, store) = indexed(written(&trajectory().to_string()).path());
    assert_eq!(
        ask(&store, "select task_id, trial, status, stop_reason, turns, tool_calls, tool_errors, repeated_calls, input_tokens, cost_usd,
            started_at, source, source_dialect, task, answer from runs"),
        json!([["4", 1, "completed", "completed", 4, 3, 1, 1, null, null, null, "import", "tau_bench", "Book.", "Done."]])
    );
    assert_eq!(
        ask(&store, "select turn, tool_name, status, result from tool_calls order by turn"),
        json!([
            [1, "get_user", "ok", "{}"],
            [2, "calculate", "error", "ERROR: no expression"],
            [3, "get_user", "ok", "{}"]
        ])
    );
    assert_eq!(
        ask(
            &store,
            "select position, role, content from messages where position in (0, 2, 5, 9) order by position"
        ),
        json!([
            [0, "system", "Be brief."],
            [2, "assistant", "get_user({\"id\": 1, \"x\": 2})"],
            [5, "tool", "ERROR: no expression"],
            [9, "user", "Thanks ###STOP###"]
        ])
    );
    assert_eq!(ask(&store, "select count(*), count(distinct position) from messages"), json!([[10, 10]]));
    assert_eq!(
        ask(&store, "select suite, case_id, repeat, scorer, value, verdict from scores"),
        json!([["tau-bench", "4", 1, "reward", 1.0, "pass"]])
    );
}

#[test]
fn one_conversation_reads_the_same_as_a_list_an_object_and_json_lines() {
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]);
    let object = json!({ "messages": messages });
    let files = [
        messages.to_string(),
        object.to_string(),
        format!("[{object}]"),
        format!("{object}\n\n{object}\n"),
        format!("{messages}\n{object}"),
    ];
    let counts: Vec<usize> =
        files.iter().map(|text| file(written(text).path(), &redactor()).unwrap().runs.len()).collect();
    assert_eq!(counts, [1, 1, 1, 2, 2]);
    let (_folder, store) = indexed(written(&files[3]).path());
    assert_eq!(
        ask(&store, "select count(*), any_value(stop_reason) from runs"),
        json!([[2, "completed"]]),
        "the same twice is two runs"
    );
}

#[test]
fn an_error_names_file_entry_and_field() {
    for (text, wanted) in [
        ("", "line 1: EOF"),
        ("nonsense", "line 1: expected ident"),
        ("[]", "holds no conversation"),
        ("{\"messages\": 3}", "entry 1: `messages` is not a list of messages"),
        ("[{\"traj\": []}]", "entry 1: `traj` is empty"),
        ("{\"a\": 1}", "entry 1: `messages` is missing"),
        (
            "[{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}, {\"messages\": [{\"content\": \"x\"}]}]",
            "entry 2: `messages[0].role` is missing",
        ),
        ("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n{\"messages\":", "line 2: EOF"),
        (
            "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {}}]}]}",
            "`messages[0].tool_calls[0].function.name` is not text",
        ),
        ("[{\"traj\": [{\"role\": \"user\"}], \"reward\": \"high\"}]", "`reward` is not a number"),
    ] {
        let told = file(written(text).path(), &redactor()).unwrap_err().to_string();
        assert!(told.contains(wanted), "{text}: {told}");
    }
    let told = file(Path::new("/nonexistent.json"), &redactor()).unwrap_err().to_string();
    assert!(told.starts_with("cannot read /nonexistent.json"), "{told}");
}

#[test]
fn a_call_without_a_result_has_an_unknown_outcome() {
    let text = json!([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ""}}]}]);
    let (_folder, store) = indexed(written(&text.to_string()).path());
    assert_eq!(
        ask(&store, "select status, arguments, result from tool_calls"),
        json!([["unknown_outcome", "{}", null]])
    );
    assert_eq!(ask(&store, "select status, stop_reason from runs"), json!([[null, "unknown"]]));
}

#[test]
fn the_real_tau_bench_file_has_its_known_counts() {
    let data = std::env::var_os("LOOPDECK_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = data.join("tau-bench/gpt-4o-airline.dev.json");
    if !path.exists() {
        // Past the capture of the test runner, or nobody would hear it.
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("skipped: no real data at {}\n", path.display()),
        );
        assert!(std::env::var("CI").is_err(), "the real data must be there in CI");
        return;
    }
    let (_folder, store) = indexed(&path);
    let counts = "select (select count(*) from runs), (select count(distinct task_id) from runs), (select count(*) from model_calls),
        (select count(*) from tool_calls), (select count(*) from tool_calls where status = 'error'), (select sum(repeated_calls) from runs),
        (select count(*) from scores where scorer = 'reward' and value = 1),
        (select count(*) from model_calls where input_tokens is not null or cost_usd is not null or started_at is not null)";
    assert_eq!(ask(&store, counts), json!([[100, 25, 1163, 577, 21, 6, 49, 0]]));
    assert_eq!(
        ask(&store, "select stop_reason, count(*) from runs group by 1 order by 1"),
        json!([["completed", 69], ["max_turns", 2], ["transferred", 29]])
    );
}
