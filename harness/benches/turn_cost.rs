//! What a model call costs, to be set beside other agent loops: the client half of `benches/turn_overhead`.
//!
//! `cargo bench -p harness --bench turn_cost -- RUNS_AT_ONCE RUNS TOOL_TURNS ADDRESS` runs agents against the fake
//! provider of another process and prints one JSON line: CPU and wall time a model call, the tape's bytes a run.
//! Every run has a tape with all content, sealed and synced at its end. The CPU time is that of this process alone,
//! by the scheduler's own account of its threads.

#![expect(clippy::expect_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "its one line is what it is for")]

use harness::agent::{Agent, Studio, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Toolbox};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::fact::Fault;
use trace::redact::Redactor;

/// What the model asks the tool for.
#[derive(Debug, Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

/// What to run.
struct Load {
    at_once: usize,
    runs: usize,
    turns: usize,
    address: String,
}

fn load() -> Load {
    // `cargo bench` adds a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |at: usize, default| words.get(at).map_or(default, |word| word.parse().expect("a number"));
    Load {
        at_once: number(0, 1),
        runs: number(1, 30),
        turns: number(2, 20),
        address: words.get(3).cloned().unwrap_or_else(|| "http://127.0.0.1:8901".to_owned()),
    }
}

fn agent(load: &Load) -> Agent {
    let text = format!(
        "[agent]\nname = \"adder\"\n[model]\nname = \"fake-{}\"\nbase_url = \"{}/v1\"\nkey_env = \"\"\nstream = false\n\
         [budget]\nmax_model_turns = 100000\nmax_tool_calls = 100000\nmax_calls_per_tool = 100000\n\
         max_total_tokens = 100000000000\nmax_wall_time_seconds = 3600\n",
        load.turns, load.address
    );
    let path = Path::new("agent.toml");
    let config = AgentConfig::parse(&text, path).expect("a configuration");
    let mut agent = Agent::of_config(config, path, Path::new("."), &|_| None).expect("an agent");
    let mut toolbox = Toolbox::default();
    let add = |sum: Sum, _: &_| async move { Ok::<_, Fault>((sum.a + sum.b).to_string()) };
    toolbox
        .add(Arc::new(Typed::new("add", "Add two numbers", Risk::Read, Effect::Pure, add)))
        .expect("one tool");
    agent.toolbox = Arc::new(toolbox);
    agent
}

/// Runs to the end; how many bytes all sealed tapes have.
async fn run_all(agent: &Agent, studio: &Studio, load: &Load, runs: usize) -> u64 {
    let gate = Arc::new(Semaphore::new(load.at_once));
    let mut set = JoinSet::new();
    for _ in 0..runs {
        let (agent, studio, gate) = (agent.clone(), studio.clone(), gate.clone());
        set.spawn(async move {
            let _turn = gate.acquire().await.expect("the gate stays open");
            let task = Task { text: "Add numbers until done.".to_owned(), ..Task::default() };
            let ended =
                agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await.expect("a tape");
            assert_eq!(ended.outcome.answer.as_deref(), Some("42"), "{:?}", ended.outcome);
            std::fs::metadata(&ended.tape).expect("its tape").len()
        });
    }
    let mut bytes = 0;
    while let Some(one) = set.join_next().await {
        bytes += one.expect("no panic");
    }
    bytes
}

/// CPU time of all living threads of this process, in milliseconds.
fn cpu_ms() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux tells a process its threads");
    let ns = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    ns.sum::<f64>() / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
fn main() {
    let load = load();
    let agent = agent(&load);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let redactor = Arc::new(Redactor::new([7; 32]).expect("patterns"));
    let studio = Studio { tapes: folder.path().to_owned(), redactor };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run_all(&agent, &studio, &load, 2));
    let (begun, before) = (Instant::now(), cpu_ms());
    let bytes = runtime.block_on(run_all(&agent, &studio, &load, load.runs));
    let (wall_ms, cpu) = (begun.elapsed().as_secs_f64() * 1e3, cpu_ms() - before);
    let calls = (load.runs * (load.turns + 1)) as f64;
    println!(
        "{}",
        serde_json::json!({
            "fw": "loopdeck", "conc": load.at_once, "runs": load.runs, "turns": load.turns, "trace": "tape",
            "cpu_ms_per_call": cpu / calls, "ms_per_call": wall_ms / calls,
            "tape_bytes_per_run": bytes as f64 / load.runs as f64,
        })
    );
}
