//! Pages, health, metrics and the API as a browser, a prober and a command see them.

use crate::running::{JSON, body, config, looping_run, serve};
use dashboard::start;
use serde_json::json;
use trace::home::Home;
use trace::lock::Owner;

const HOSTILE: &str = "<script>alert('x')</script>\"&";

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_name_is_shown_and_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let spans = looping_run(7, HOSTILE, HOSTILE, 6, true);
    assert_eq!(server.post(JSON, body(&spans)).await.status(), 200);
    let run_id = server.ask("select run_id from runs").await.as_str().unwrap().to_owned();
    let run_page = format!("/runs/{run_id}");
    server.until_page_says("/alerts", "tool_overuse").await;
    for path in ["/", "/alerts", &run_page, "/runs/%3Cscript%3E"] {
        let page = server.page(path).await;
        assert!(!page.contains("<script"), "{path}: {page}");
        assert!(page.contains("script"), "{path} shows it: {page}");
        assert!(page.len() < 100 * 1024, "{path} has {} bytes", page.len());
        assert!(page.contains("rules evaluated at") && page.contains("ingest lag"), "{path}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_page_tells_why_and_collapses_what_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    server.post(JSON, body(&looping_run(7, "booker", "search", 6, false))).await;
    server.ask("select 1").await;
    let page = server.page("/runs/latest").await;
    assert!(page.contains("turns 1–6: search ×6 with the same arguments and result"), "{page}");
    assert!(page.contains("<td>1–6 <strong>×6</strong></td>"), "{page}");
    assert!(page.contains("<code>search</code> <code class=\"arguments\">{&#34;q&#34;:1}</code>"), "{page}");
    assert!(page.contains("600 → –"), "{page}");
    let overview = server.page("/").await;
    for part in ["Why runs end", "Latest runs", "booker", "<code>search</code>", "5 repeated"] {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_guarded_and_foreign_hosts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    for path in ["/", "/alerts", "/healthz", "/metrics", "/static/style.css", "/nowhere"] {
        let url = format!("{}{path}", server.pages);
        let answer = server.client.get(&url).send().await.unwrap();
        assert!(
            answer.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'")
        );
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        let foreign = server.client.get(&url).header("host", "evil.example").send().await.unwrap();
        assert_eq!(foreign.status(), 421, "{path}");
    }
    let foreign = server.client.post(format!("{}/v1/traces", server.otlp)).header("host", "evil.example");
    assert_eq!(foreign.header("content-type", JSON).body("{}").send().await.unwrap().status(), 421);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_answers_who_has_the_token_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let owner = Owner::read(&server.home).unwrap();
    assert_eq!(format!("http://{}", owner.addr), server.pages);
    let url = format!("{}/api/query", server.pages);
    for (token, body, status, told) in [
        ("wrong", json!({"sql": "select 1", "limit": 1}), 401, "bearer token"),
        (&owner.token, json!({"sql": "select 1"}), 400, "limit"),
        (&owner.token, json!({"sql": "drop table span", "limit": 1}), 400, "reads"),
        (&owner.token, json!({"sql": "select * from nothing", "limit": 1}), 400, "nothing"),
    ] {
        let answer = server.client.post(&url).bearer_auth(token).json(&body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{body}");
        let error = answer.json::<serde_json::Value>().await.unwrap()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(told), "{body} gave {error}");
    }
    server.end().await;
    assert!(
        Owner::read(&Home::open(folder.path().to_owned()).unwrap()).is_none(),
        "nobody is announced any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn health_readiness_and_metrics_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    assert_eq!(server.page("/healthz").await, "ok\n");
    server.until_page_says("/readyz", "ready").await;
    server.post(JSON, body(&looping_run(7, "booker", "search", 6, false))).await;
    server.until_page_says("/metrics", "loopdeck_alerts_firing{rule=\"tool_overuse\"} 1").await;
    let metrics = server.page("/metrics").await;
    for line in [
        "loopdeck_tool_calls{tool_name=\"search\",status=\"ok\"} 6",
        "loopdeck_tokens{kind=\"input\"} 600",
        "loopdeck_otlp_spans_total{result=\"accepted\"} 13",
        "loopdeck_otlp_requests_total{result=\"accepted\"} 1",
        "loopdeck_spans_indexed_total 13",
        "loopdeck_alerts_firing{rule=\"max_turns\"} 0",
        "loopdeck_last_evaluation_timestamp_seconds 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_is_told_what_is_in_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let taken = server.pages.trim_start_matches("http://").to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = dashboard::ServeConfig { listen: taken.clone(), ..config() };
    let told = start(other, Home::open(elsewhere.path().to_owned()).unwrap()).await.unwrap_err().to_string();
    assert!(told.starts_with(&format!("--listen {taken}: the port is in use")), "{told}");
    let told = start(config(), server.home.clone()).await.unwrap_err().to_string();
    assert!(told.contains("is in use by"), "{told}");

    std::fs::write(elsewhere.path().join("loopdeck.toml"), "[alert]\n").unwrap();
    let told =
        start(config(), Home::open(elsewhere.path().to_owned()).unwrap()).await.unwrap_err().to_string();
    assert!(told.contains("loopdeck.toml: ") && told.contains("unknown field `alert`"), "{told}");
    server.end().await;
}
