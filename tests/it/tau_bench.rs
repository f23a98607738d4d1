//! Real recorded conversations whose numbers are known: imported, asked and judged as a user would.

use crate::kit::program::{House, real_data};
use serde_json::{Value, json};

const SUITE: &str = r#"
name = "airline"

[recorded]
where = "true"

[[scorer]]
name = "reward"
kind = "reward"

[gate]
pass_rate = 0.4
"#;

#[test]
fn the_imported_airline_conversations_have_their_known_numbers() {
    let Some(file) = real_data("tau-bench/gpt-4o-airline.dev.json") else { return };
    let file = file.to_str().unwrap();
    let house = House::new();
    for _ in 0..2 {
        let said = house.run(&["import", file]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("100 runs"), "{}", said.err);
    }
    let facts: [(&str, Value); 13] = [
        ("select count(*) from runs", json!(100)),
        ("select count(distinct task_id) from runs", json!(25)),
        ("select count(*) from model_calls", json!(1163)),
        ("select count(*) from tool_calls", json!(577)),
        ("select count(*) from tool_calls where status = 'error'", json!(21)),
        ("select count(*) from runs where stop_reason = 'max_turns'", json!(2)),
        ("select count(*) from runs where stop_reason = 'transferred'", json!(29)),
        ("select sum(repeated_calls)::bigint from runs", json!(6)),
        ("select count(distinct run_id) from scores where scorer = 'reward' and value = 1", json!(49)),
        ("select count(*) from tool_calls where result is null", json!(0)),
        (
            "select count(*) from model_calls where input_tokens is not null or output_tokens is not null",
            json!(0),
        ),
        ("select count(*) from runs where cost_usd is not null or duration_ms is not null", json!(0)),
        ("select count(*) from tool_calls where latency_ms is not null or started_at is not null", json!(0)),
    ];
    for (statement, known) in facts {
        assert_eq!(house.value(statement), known, "{statement}");
    }
}

#[test]
fn the_recorded_rewards_give_the_known_pass_hat_k() {
    let Some(file) = real_data("tau-bench/gpt-4o-airline.dev.json") else { return };
    let house = House::new();
    assert_eq!(house.run(&["import", file.to_str().unwrap()]).code, 0);
    let suite = house.file("suite.toml", SUITE);
    let said = house.run(&["eval", suite.to_str().unwrap(), "--json", "-o", "junit.xml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let text = house.run(&["eval", suite.to_str().unwrap()]).out;
    for (k, known) in [(1, "0.4900"), (2, "0.3867"), (3, "0.3400"), (4, "0.3200")] {
        let row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut row =
            row.filter(|cells| cells.len() > 2 && cells[0] == k.to_string() && cells[1].contains('.'));
        let cells = row.next().unwrap_or_else(|| panic!("no row for k = {k} in {text}"));
        assert_eq!(cells[2], known, "pass^{k} in {text}");
    }
    assert!(report.is_object());
    let junit = std::fs::read_to_string(house.folder.path().join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"101\""), "100 trials and the gate: {}", &junit[..300]);
    // The same suite with a gate that these runs do not pass.
    let strict = house.file("strict.toml", SUITE.replace("0.4", "0.9"));
    assert_eq!(house.run(&["eval", strict.to_str().unwrap()]).code, 1);
}
