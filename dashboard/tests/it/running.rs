//! A server on free ports of loopback, with a home of its own.

use dashboard::{ServeConfig, ServeError, start};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::home::Home;
use trace::lock::Owner;
use trace::redact::Redactor;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/x-protobuf";

pub(crate) struct Running {
    pub(crate) home: Home,
    pub(crate) pages: String,
    pub(crate) otlp: String,
    /// The address that makes a browser the owner's.
    pub(crate) enter: String,
    pub(crate) client: reqwest::Client,
    stop: CancellationToken,
    work: JoinSet<Result<(), ServeError>>,
}

pub(crate) fn config() -> ServeConfig {
    ServeConfig {
        listen: "127.0.0.1:0".to_owned(),
        otlp_http: "127.0.0.1:0".to_owned(),
        redactor: Redactor::new([7; 32]).unwrap(),
        user: Some("ada".to_owned()),
    }
}

/// A server over this folder.
pub(crate) async fn serve(folder: &Path) -> Running {
    let home = Home::open(folder.to_owned()).unwrap();
    let serving = start(config(), home.clone()).await.unwrap();
    let (pages, otlp) = (format!("http://{}", serving.pages), format!("http://{}", serving.otlp));
    let enter = serving.enter();
    let stop = CancellationToken::new();
    let mut work = JoinSet::new();
    let stopped = stop.clone();
    work.spawn(async move { serving.until(stopped.cancelled_owned()).await });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    Running { home, pages, otlp, enter, client, stop, work }
}

impl Running {
    /// Ends it and waits until the lock is free.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        drop(self.client);
        while let Some(ended) = self.work.join_next().await {
            ended.unwrap().unwrap();
        }
    }

    pub(crate) async fn post(&self, content_type: &str, body: impl Into<Vec<u8>>) -> reqwest::Response {
        let url = format!("{}/v1/traces", self.otlp);
        self.client.post(url).header("content-type", content_type).body(body.into()).send().await.unwrap()
    }

    pub(crate) async fn page(&self, path: &str) -> String {
        self.client.get(format!("{}{path}", self.pages)).send().await.unwrap().text().await.unwrap()
    }

    /// The first column of the first row.
    pub(crate) async fn ask(&self, sql: &str) -> Value {
        let token = Owner::read(&self.home).unwrap().token;
        let body = json!({"sql": sql, "params": [], "limit": 10});
        let url = format!("{}/api/query", self.pages);
        let answer = self.client.post(url).bearer_auth(token).json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert!(answer.get("error").is_none(), "{sql}: {answer}");
        answer["rows"][0][0].clone()
    }

    /// Waits until a page says this.
    pub(crate) async fn until_page_says(&self, path: &str, text: &str) -> String {
        let began = Instant::now();
        loop {
            let page = self.page(path).await;
            if page.contains(text) {
                return page;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{path} never said `{text}`: {page}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    let now = std::process::Command::new("date").arg("+%s").output().unwrap().stdout;
    String::from_utf8(now).unwrap().trim().parse().unwrap()
}

/// A body of spans.
pub(crate) fn body(spans: &[Value]) -> Vec<u8> {
    let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "test"}}]});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}]}]})
        .to_string()
        .into_bytes()
}

/// Spans of one foreign run: an agent, a model call a turn, one tool call each, all just now.
pub(crate) fn looping_run(trace: u64, agent: &str, tool: &str, turns: u64, fails: bool) -> Vec<Value> {
    let now = now_s();
    let at = |offset: u64| ((now - 60) * 1_000_000_000 + offset * 1_000_000).to_string();
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let span = |id: u64, parent: Option<u64>, name: &str, from: u64, to: u64, attributes: Vec<Value>| {
        json!({
            "traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"),
            "parentSpanId": parent.map(|id| format!("{id:016x}")), "name": name, "kind": 1,
            "startTimeUnixNano": at(from), "endTimeUnixNano": at(to), "attributes": attributes,
        })
    };
    let root = vec![text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", agent)];
    let mut spans = vec![span(1, None, "invoke_agent", 0, turns * 10 + 5, root)];
    for turn in 1..=turns {
        let chat = vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.request.model", "m"),
            json!({"key": "gen_ai.usage.input_tokens", "value": {"intValue": "100"}}),
            json!({"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": {"values": [{"stringValue": "tool_calls"}]}}}),
        ];
        spans.push(span(turn * 10, Some(1), "chat", turn * 10, turn * 10 + 2, chat));
        let call = vec![
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", tool),
            text("gen_ai.tool.call.arguments", "{\"q\":1}"),
            text("gen_ai.tool.call.result", "nothing found"),
        ];
        let mut call = span(turn * 10 + 1, Some(1), "execute_tool", turn * 10 + 3, turn * 10 + 4, call);
        if fails {
            call["status"] = json!({"code": 2, "message": "boom"});
        }
        spans.push(call);
    }
    spans
}
