//! What the loop itself costs: time per model call when model and tool answer at once, with every fact on a tape.
//!
//! `scripted` answers inside the process; `loopback` is the same over HTTP against a provider on this machine, so
//! the difference is the client, the server and the wire. Each run has 20 tool turns and one answer; 1, 16 and 128
//! runs go on at once, and the figure is elements (model calls) a second over all of them.
//!
//! `cargo bench -p harness --bench turn_overhead -- --quick`

#![expect(clippy::expect_used, reason = "a bench that cannot set itself up has nothing to measure")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use harness::agent::{Agent, Studio, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use harness::model::scripted::{ScriptTurn, Scripted};
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Toolbox};
use loopback::{Loopback, Play};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::fact::Fault;
use trace::message::{Finish, Part, Response, ToolCall, Usage};
use trace::outcome::RunStatus;
use trace::redact::Redactor;

const TOOL_TURNS: usize = 20;
const AT_ONCE: [usize; 3] = [1, 16, 128];

/// What the model asks the tool for.
#[derive(Debug, Deserialize, JsonSchema)]
struct Question {
    n: u64,
}

fn answer(turn: usize) -> Response {
    let ends = turn >= TOOL_TURNS;
    let part = match ends {
        true => Part::Text { text: "done".to_owned() },
        false => Part::ToolCall(ToolCall {
            call_id: format!("call_{turn}"),
            tool_name: "look_up".to_owned(),
            arguments: format!("{{\"n\":{turn}}}"),
        }),
    };
    Response {
        response_id: None,
        response_model: None,
        parts: vec![part],
        finish: if ends { Finish::EndTurn } else { Finish::ToolUse },
        finish_raw: None,
        usage: Usage { input_tokens: Some(100), output_tokens: Some(20), ..Usage::default() },
    }
}

fn agent(base_url: &str, folder: &Path) -> Agent {
    let text = format!(
        "[agent]\nprompt = \"You look things up.\"\n[model]\nname = \"bench\"\nbase_url = \"{base_url}\"\nkey_env = \"\"\n\
         stream = false\n[budget]\nmax_model_turns = 10000\nmax_tool_calls = 10000\nmax_calls_per_tool = 10000\nmax_total_tokens = 10000000\n"
    );
    let path = Path::new("agent.toml");
    let config = AgentConfig::parse(&text, path).expect("a configuration");
    let mut agent = Agent::of_config(config, path, folder, &|_| None).expect("an agent");
    let mut toolbox = Toolbox::of_specs(Vec::new()).expect("no tools yet");
    let look_up = |question: Question, _: &_| async move { Ok::<_, Fault>(format!("thing {}", question.n)) };
    let tool = Typed::new("look_up", "Looks a thing up.", Risk::Read, Effect::Pure, look_up);
    toolbox.add(Arc::new(tool)).expect("a name of its own");
    agent.toolbox = Arc::new(toolbox);
    agent
}

/// A fresh model that plays its script from the beginning, for each run.
fn scripted(agent: &Agent) -> Agent {
    let turns = (0..=TOOL_TURNS).map(|turn| ScriptTurn::Answer(answer(turn))).collect();
    let mut agent = agent.clone();
    agent.model.transport = Arc::new(Scripted::new(agent.model.wire.clone(), turns));
    agent
}

async fn run_all(at_once: usize, studio: &Studio, ready: impl Fn() -> Agent) {
    let mut runs = JoinSet::new();
    for _ in 0..at_once {
        let (agent, studio) = (ready(), studio.clone());
        runs.spawn(async move {
            let task = Task { text: "Look things up.".to_owned(), ..Task::default() };
            let ended = agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await;
            ended.expect("a tape").outcome
        });
    }
    while let Some(outcome) = runs.join_next().await {
        let outcome = outcome.expect("no panic");
        assert_eq!(outcome.status, RunStatus::Completed, "{outcome:?}");
    }
}

fn turn_overhead(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let redactor = Arc::new(Redactor::new([7; 32]).expect("patterns"));
    let studio = Studio { tapes: folder.path().to_owned(), redactor };
    let provider =
        runtime.block_on(Loopback::start(|seen| Play::answer(answer(seen.answers())))).expect("a port");
    let agent = agent(&provider.base_url(), folder.path());
    let mut group = criterion.benchmark_group("turn_overhead");
    group.sample_size(10);
    for at_once in AT_ONCE {
        let calls = u64::try_from(at_once * (TOOL_TURNS + 1)).unwrap_or(u64::MAX);
        group.throughput(Throughput::Elements(calls));
        group.bench_function(BenchmarkId::new("scripted", at_once), |bencher| {
            bencher.iter(|| runtime.block_on(run_all(at_once, &studio, || scripted(&agent))));
        });
        group.bench_function(BenchmarkId::new("loopback", at_once), |bencher| {
            bencher.iter(|| runtime.block_on(run_all(at_once, &studio, || agent.clone())));
        });
    }
    group.finish();
    runtime.block_on(provider.stop());
}

criterion_group!(benches, turn_overhead);
criterion_main!(benches);
