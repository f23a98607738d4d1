//! Alerts end to end: spans in, a page out, over failures and restarts.

use crate::running::{JSON, Running, body, looping_run, serve};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A receiver that fails as often as it is told to, and keeps what it takes.
#[derive(Clone, Default)]
struct Pager {
    failures: Arc<Mutex<u32>>,
    taken: Arc<Mutex<Vec<Value>>>,
}

async fn page(State(pager): State<Pager>, axum::Json(body): axum::Json<Value>) -> StatusCode {
    let mut failures = pager.failures.lock().unwrap();
    if *failures > 0 {
        *failures -= 1;
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    pager.taken.lock().unwrap().push(body);
    StatusCode::OK
}

impl Pager {
    async fn listen(&self, tasks: &mut JoinSet<()>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().route("/hook", post(page)).with_state(self.clone());
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    async fn until_taken(&self, rule: &str, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let taken = self.taken.lock().unwrap().clone();
            let found = taken
                .iter()
                .find(|body| body["groupLabels"]["alertname"] == rule && body["status"] == status);
            if let Some(body) = found {
                return body.clone();
            }
            assert!(began.elapsed() < Duration::from_secs(20), "no {status} {rule} in {taken:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn settings(folder: &Path, url: &str, more: &str) {
    let text = format!(
        "[agents.booker]\nmax_turns = 6\nmax_tokens = 500\n[alerts]\n{more}\n[alerts.error_rate]\nmin_calls = 5\nwindow_s = 3600\n[[webhook]]\nname = \"pager\"\nurl = \"{url}\"\n"
    );
    std::fs::write(folder.join("loopdeck.toml"), text).unwrap();
}

async fn firing(server: &Running) -> String {
    let sql = "select string_agg(rule, ' ' order by rule) from alerts where state = 'firing'";
    server.ask(sql).await.as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_five_rules_fire_page_through_failures_and_are_remembered_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (pager, mut tasks) = (Pager::default(), JoinSet::new());
    *pager.failures.lock().unwrap() = 2;
    settings(folder.path(), &pager.listen(&mut tasks).await, "");
    let server = serve(folder.path()).await;
    for trace in 1..=3 {
        assert_eq!(
            server.post(JSON, body(&looping_run(trace, "booker", "search", 6, true))).await.status(),
            200
        );
    }
    let rules = ["max_turns", "tool_overuse", "repeated_call", "token_budget", "error_rate"];
    for rule in rules {
        let told = pager.until_taken(rule, "firing").await;
        assert_eq!((&told["version"], &told["receiver"]), (&"4".into(), &"pager".into()));
        let alert = &told["alerts"][0];
        assert_eq!(alert["endsAt"], "0001-01-01T00:00:00Z");
        assert!(!alert["annotations"]["summary"].as_str().unwrap().is_empty(), "{alert}");
    }
    let runs = "select max(len(runs)) from alerts where rule = 'tool_overuse'";
    let began = Instant::now();
    while server.ask(runs).await != 3 {
        assert!(began.elapsed() < Duration::from_secs(20), "three runs are one alert with three runs");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(server.ask("select count(*) from alerts where rule = 'tool_overuse'").await, 1);
    assert!(server.page("/metrics").await.contains("loopdeck_delivery_failures_total 2"));
    let before = firing(&server).await;
    assert_eq!(before, "error_rate max_turns repeated_call token_budget tool_overuse");
    server.end().await;

    let told = pager.taken.lock().unwrap().len();
    let again = serve(folder.path()).await;
    again.until_page_says("/readyz", "ready").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(firing(&again).await, before);
    assert_eq!(pager.taken.lock().unwrap().len(), told, "what was told is not told again");
    again.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_of_nonsense_stops_neither_the_rules_nor_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let mut nonsense = looping_run(1, "liar", "search", 6, false);
    for span in &mut nonsense {
        let attributes = span["attributes"].as_array_mut().unwrap();
        for (key, value) in [
            ("loopdeck.tool.args_hash", serde_json::json!({"stringValue": "zzz"})),
            ("loopdeck.tool.result_hash", serde_json::json!({"intValue": -1})),
            ("loopdeck.turn.index", serde_json::json!({"intValue": -3})),
            ("loopdeck.tool.call_index", serde_json::json!({"intValue": "9223372036854775807"})),
            ("gen_ai.usage.input_tokens", serde_json::json!({"intValue": "9223372036854775807"})),
            ("gen_ai.usage.output_tokens", serde_json::json!({"intValue": "9223372036854775807"})),
            ("loopdeck.budget.turns.limit", serde_json::json!({"intValue": "9223372036854775807"})),
            ("loopdeck.stop.evidence", serde_json::json!({"stringValue": "{"})),
            ("loopdeck.run.status", serde_json::json!({"stringValue": "splendid"})),
        ] {
            attributes.push(serde_json::json!({"key": key, "value": value}));
        }
    }
    assert_eq!(server.post(JSON, body(&nonsense)).await.status(), 200);
    assert_eq!(server.post(JSON, body(&looping_run(2, "booker", "search", 6, false))).await.status(), 200);
    server.until_page_says("/alerts", "booker").await;
    let metrics = server.page("/metrics").await;
    assert!(metrics.contains("loopdeck_evaluation_failures_total 0"), "{metrics}");
    let liar = server.ask("select run_id from runs where agent = 'liar'").await;
    for path in ["/", &format!("/runs/{}", liar.as_str().unwrap())] {
        let page = server.page(path).await;
        assert!(page.contains("liar") && !page.contains("Not now"), "{path}: {page}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_resolves_when_no_run_shows_it_any_more_and_that_is_told_after_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let (pager, mut tasks) = (Pager::default(), JoinSet::new());
    let url = pager.listen(&mut tasks).await;
    settings(folder.path(), &url, "resolve_after_s = 120");
    let server = serve(folder.path()).await;
    server.post(JSON, body(&looping_run(1, "booker", "search", 6, false))).await;
    pager.until_taken("tool_overuse", "firing").await;
    server.end().await;

    settings(folder.path(), &url, "resolve_after_s = 1");
    let again = serve(folder.path()).await;
    let told = pager.until_taken("tool_overuse", "resolved").await;
    assert_ne!(told["alerts"][0]["endsAt"], "0001-01-01T00:00:00Z");
    assert_eq!(firing(&again).await, "");
    again.until_page_says("/alerts", "✓ resolved").await;
    again.end().await;
}
