//! The load of `turn_cost` on rig: `rig-turns raw|rig|rig+otlp RUNS_AT_ONCE RUNS TOOL_TURNS ADDRESS`; one JSON line.
//!
//! `raw` is no agent at all: the same requests by reqwest alone, the floor for anything in Rust. `rig+otlp` exports
//! spans with content, which is the nearest it has to a tape.

use anyhow::{Result, ensure};
use futures::StreamExt;
use futures::future::BoxFuture;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use rig::agent::AgentBuilder;
use rig::providers::openai::{OpenAIConfig, Route};
use rig::tool::{Tool, ToolContext};
use serde::Deserialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing_subscriber::prelude::*;

const TASK: &str = "Add numbers until done.";

#[derive(Deserialize)]
struct Sum {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Add;

impl Tool for Add {
    const NAME: &'static str = "add";
    type Args = Sum;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Add two numbers".into()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]})
    }

    async fn call(&self, _: &mut ToolContext, sum: Sum) -> Result<String, Infallible> {
        Ok((sum.a + sum.b).to_string())
    }
}

async fn raw(client: &reqwest::Client, url: &str, model: &str) -> Result<()> {
    let tools = json!([{"type": "function", "function": {"name": "add", "description": "Add two numbers", "parameters": Add.parameters()}}]);
    let mut messages = vec![json!({"role": "user", "content": TASK})];
    loop {
        let request = client.post(url).json(&json!({"model": model, "messages": messages, "tools": tools}));
        let answer: Value = request.send().await?.json().await?;
        let message = answer["choices"][0]["message"].clone();
        messages.push(message.clone());
        let Some(calls) = message["tool_calls"].as_array() else { return Ok(()) };
        for call in calls {
            let sum: Sum = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or("{}"))?;
            let content = (sum.a + sum.b).to_string();
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": content}));
        }
    }
}

/// CPU time of all living threads of this process, in milliseconds.
fn cpu_ms() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let ns = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    ns.sum::<f64>() / 1e6
}

async fn exporter(root: &str) -> Result<SdkTracerProvider> {
    let url = format!("{root}/v1/traces");
    let build = move || {
        SpanExporter::builder().with_http().with_endpoint(url).with_protocol(Protocol::HttpBinary).build()
    };
    let batch = BatchConfigBuilder::default()
        .with_max_queue_size(16384)
        .with_max_export_batch_size(512)
        .with_scheduled_delay(Duration::from_millis(500))
        .build();
    let exporter = tokio::task::spawn_blocking(build).await??;
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batch).build();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
    let of_rig = tracing_subscriber::filter::filter_fn(|event| event.target().starts_with("rig"));
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("rig"));
    tracing_subscriber::registry().with(of_rig).with(layer).init();
    Ok(provider)
}

type Run = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

fn runner(mode: &str, root: &str, turns: usize) -> Run {
    let (base, model) = (format!("{root}/v1"), format!("fake-{turns}"));
    if mode == "raw" {
        let (client, url) = (reqwest::Client::new(), format!("{base}/chat/completions"));
        return Arc::new(move || {
            let (client, url, model) = (client.clone(), url.clone(), model.clone());
            Box::pin(async move { raw(&client, &url, &model).await })
        });
    }
    let client = rig_reqwest::ReqwestClient::from(reqwest::Client::new());
    let config = OpenAIConfig::new("x").with_base_url(base).with_route(Route::Chat);
    let builder = AgentBuilder::new(config.connect(client).completion(model)).tool(Add);
    let agent = Arc::new(builder.record_content_telemetry(mode == "rig+otlp").build());
    Arc::new(move || {
        let agent = agent.clone();
        Box::pin(async move {
            let said = agent.prompt(TASK).max_turns(turns + 5).await?;
            ensure!(said.to_string() == "42");
            Ok(())
        })
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let (mode, root) = (words[1].as_str(), words[5].as_str());
    let (at_once, runs, turns): (usize, usize, usize) = (words[2].parse()?, words[3].parse()?, words[4].parse()?);
    let provider = if mode == "rig+otlp" { Some(exporter(root).await?) } else { None };
    let run = runner(mode, root, turns);
    for _ in 0..2 {
        run().await?;
    }
    let (begun, before) = (Instant::now(), cpu_ms());
    let mut ended = futures::stream::iter((0..runs).map(|_| tokio::spawn(run()))).buffer_unordered(at_once);
    while let Some(one) = ended.next().await {
        one??;
    }
    if let Some(provider) = &provider {
        let provider = provider.clone();
        // Without the flush the spans of the last half second would cost nothing.
        tokio::task::spawn_blocking(move || provider.force_flush()).await??;
    }
    let (wall, cpu) = (begun.elapsed().as_secs_f64() * 1e3, cpu_ms() - before);
    let calls = (runs * (turns + 1)) as f64;
    println!(
        "{}",
        json!({"fw": mode, "conc": at_once, "runs": runs, "turns": turns, "trace": if provider.is_some() {"otlp"} else {"off"},
            "cpu_ms_per_call": cpu / calls, "ms_per_call": wall / calls})
    );
    Ok(())
}
