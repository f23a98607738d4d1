//! HTTP tools against a server on loopback.

use super::*;
use crate::tool::sample::{permit, ran};
use crate::tool::{Effect, Risk};
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::any;
use serde_json::json;
use tokio::task::JoinSet;

/// A server that plays echo, redirects and failures; it ends with its tasks.
async fn server() -> (String, JoinSet<()>) {
    let app = Router::new()
        .route("/echo", any(echo))
        .route("/long", any(async || "x".repeat(MAX_BODY_BYTES + 1)))
        .route("/bytes", any(async || vec![0xff_u8; 9]))
        .route("/moved", any(async || Redirect::permanent("/echo")))
        .route("/see", any(async || Redirect::to("/echo")))
        .route("/away", any(async || Redirect::permanent("http://169.254.169.254/latest/meta-data")))
        .route("/round", any(async || Redirect::permanent("/round")))
        .route("/status/{code}", any(status));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (base, tasks)
}

async fn echo(request: Request) -> String {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    json!({
        "line": format!("{} {}", parts.method, parts.uri),
        "body": String::from_utf8(body.to_vec()).unwrap(),
        "key": header("idempotency-key"),
        "authorization": header("authorization"),
        "traceparent": header("traceparent"),
    })
    .to_string()
}

async fn status(axum::extract::Path(code): axum::extract::Path<u16>) -> axum::response::Response {
    (StatusCode::from_u16(code).unwrap(), [("retry-after", "7")], "sorry").into_response()
}

fn tool(method: Method, url: &str) -> HttpTool {
    let spec = ToolSpec {
        name: "t".to_owned(),
        description: String::new(),
        input_schema: json!({}),
        risk: Risk::External,
        effect: Effect::AtMostOnce,
        timeout_ms: 5000,
        output_schema: None,
    };
    let table = HttpTable { method, url: url.to_owned(), bearer_env: Some("KEY".to_owned()) };
    HttpTool::new(spec, &table, &|name| (name == "KEY").then(|| "k-1".to_owned())).unwrap()
}

async fn echoed(tool: &HttpTool, arguments: &Value) -> Value {
    serde_json::from_str(&ran(tool, &arguments.to_string()).await.unwrap()).unwrap()
}

#[tokio::test]
async fn arguments_become_the_query_or_the_body_and_never_the_address() {
    let (base, _tasks) = server().await;
    let url = format!("{base}/echo?fixed=1");
    let hostile = json!({"q": "a b&fixed=2#/../admin?x=http://evil.example/", "n": 3, "list": ["a", "b"], "none": null});
    let get = echoed(&tool(Method::Get, &url), &hostile).await;
    assert_eq!(
        get["line"],
        "GET /echo?fixed=1&list=a&list=b&n=3&q=a+b%26fixed%3D2%23%2F..%2Fadmin%3Fx%3Dhttp%3A%2F%2Fevil.example%2F"
    );
    assert_eq!(get["body"], "");
    let post = echoed(&tool(Method::Post, &url), &hostile).await;
    assert_eq!(
        (post["line"].as_str(), post["body"].as_str()),
        (Some("POST /echo?fixed=1"), Some(&*hostile.to_string()))
    );
    let empty = echoed(&tool(Method::Delete, &format!("{base}/echo")), &json!({})).await;
    assert_eq!(empty["line"], "DELETE /echo");
}

#[tokio::test]
async fn the_key_of_the_call_and_the_bearer_token_go_along() {
    let (base, _tasks) = server().await;
    let tool = tool(Method::Put, &format!("{base}/echo"));
    let permit = permit(tool.spec(), "{}");
    let (one, two) = (tool.call(&permit).await.unwrap(), tool.call(&permit).await.unwrap());
    let echo: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(echo["key"], permit.idempotency_key());
    assert_eq!(echo["authorization"], "Bearer k-1");
    assert_eq!(one, two, "a second attempt of the same call looks the same");
    assert!(!format!("{tool:?}").contains("k-1"));
}

#[tokio::test]
async fn an_endpoint_is_told_the_span_of_the_call_and_nothing_where_there_is_none() {
    let (base, _tasks) = server().await;
    let tool = tool(Method::Get, &format!("{base}/echo"));
    let run = trace::id::RunId::from_draw(7);
    let permit = permit(tool.spec(), "{}").in_trace(Some(trace::id::TraceId::new([3; 16])), &run);
    let echo: Value = serde_json::from_str(&tool.call(&permit).await.unwrap()).unwrap();
    let span = run.span(trace::attribute::operation::EXECUTE_TOOL, 1, 0);
    assert_eq!(echo["traceparent"], format!("00-{}-{span}-01", "03".repeat(16)));
    assert_eq!(echoed(&tool, &json!({})).await["traceparent"], "-");
}

#[tokio::test]
async fn a_redirect_is_followed_only_where_the_request_stays_whole_and_at_home() {
    let (base, _tasks) = server().await;
    let moved = echoed(&tool(Method::Post, &format!("{base}/moved")), &json!({"a": 1})).await;
    assert_eq!((moved["line"].as_str(), moved["body"].as_str()), (Some("POST /echo"), Some(r#"{"a":1}"#)));
    for (path, to) in
        [("away", "http://169.254.169.254/latest/meta-data"), ("see", "/echo"), ("round", "/round")]
    {
        let fault = ran(&tool(Method::Post, &format!("{base}/{path}")), "{}").await.unwrap_err();
        assert_eq!(fault.class, FaultClass::Permanent, "{}", fault.message);
        assert!(
            fault.message.contains(&format!("redirect to `{to}`, which is not followed")),
            "{}",
            fault.message
        );
    }
}

#[tokio::test]
async fn a_status_becomes_its_class_and_retry_after_is_kept() {
    let (base, _tasks) = server().await;
    for (code, class) in [
        (400, FaultClass::Permanent),
        (401, FaultClass::Auth),
        (403, FaultClass::Auth),
        (404, FaultClass::Permanent),
        (408, FaultClass::Transient),
        (429, FaultClass::Transient),
        (503, FaultClass::Transient),
    ] {
        let fault = ran(&tool(Method::Get, &format!("{base}/status/{code}")), "{}").await.unwrap_err();
        assert_eq!((fault.class, fault.retry_after_ms), (class, Some(7000)), "{code}");
        assert!(fault.message.ends_with(&format!("answered {code}: sorry")), "{}", fault.message);
    }
}

#[tokio::test]
async fn answers_are_bounded_and_always_text() {
    let (base, _tasks) = server().await;
    let long = ran(&tool(Method::Get, &format!("{base}/long")), "{}").await.unwrap();
    assert!(long.ends_with("bytes; the rest was dropped]") && long.len() < MAX_BODY_BYTES + 100);
    let bytes = ran(&tool(Method::Get, &format!("{base}/bytes")), "{}").await.unwrap();
    assert_eq!(bytes, "[the answer is 9 bytes of something that is no text]");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transient_fault() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let fault = ran(&tool(Method::Get, &url), "{}").await.unwrap_err();
    assert_eq!(fault.class, FaultClass::Transient, "{}", fault.message);
}

#[test]
fn a_missing_key_is_named_with_its_tool() {
    let why = bearer(Some("WEATHER_KEY"), "weather", &|_| None).unwrap_err().to_string();
    assert_eq!(why, "the environment variable WEATHER_KEY is not set; `weather` needs it");
}
