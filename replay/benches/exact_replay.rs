//! What an exact replay costs: turns a second at 10, 100 and 1000 turns. Equal figures mean that a replay is linear
//! in turns, though the context it rebuilds grows with each.
//!
//! The tape is recorded once by a scripted run whose tool answers about a kilobyte; each iteration replays it from
//! memory, so the disk has no part in it.
//!
//! `cargo bench -p replay --bench exact_replay -- --quick`

#![expect(clippy::expect_used, reason = "a bench that cannot set itself up has nothing to measure")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use harness::agent::{Agent, Studio, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use harness::model::scripted::{ScriptTurn, Scripted};
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Toolbox};
use replay::exact::exact;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trace::fact::Fault;
use trace::message::{Finish, Part, Response, ToolCall, Usage};
use trace::outcome::RunStatus;
use trace::redact::Redactor;
use trace::tape::Tape;

/// What the model asks the tool for.
#[derive(Debug, Deserialize, JsonSchema)]
struct Question {
    n: u64,
}

fn answer(turn: usize, turns: usize) -> ScriptTurn {
    let ends = turn == turns;
    let part = match ends {
        true => Part::Text { text: "done".to_owned() },
        false => Part::ToolCall(ToolCall {
            call_id: format!("call_{turn}"),
            tool_name: "look_up".to_owned(),
            arguments: format!("{{\"n\":{turn}}}"),
        }),
    };
    ScriptTurn::Answer(Response {
        response_id: None,
        response_model: None,
        parts: vec![part],
        finish: if ends { Finish::EndTurn } else { Finish::ToolUse },
        finish_raw: None,
        usage: Usage { input_tokens: Some(100), output_tokens: Some(20), ..Usage::default() },
    })
}

/// Records a run of so many turns; the last one answers.
async fn recorded(turns: usize) -> Arc<Tape> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "[agent]\nprompt = \"You look things up.\"\n[model]\nname = \"bench\"\nkey_env = \"\"\nstream = false\n\
                [budget]\nmax_model_turns = 10000\nmax_tool_calls = 10000\nmax_calls_per_tool = 10000\nmax_total_tokens = 10000000\n";
    let path = Path::new("agent.toml");
    let config = AgentConfig::parse(text, path).expect("a configuration");
    let mut agent = Agent::of_config(config, path, folder.path(), &|_| None).expect("an agent");
    let mut toolbox = Toolbox::of_specs(Vec::new()).expect("no tools yet");
    let look_up = |question: Question, _: &_| async move {
        Ok::<_, Fault>(format!("thing {}: {}", question.n, "word ".repeat(200)))
    };
    let tool = Typed::new("look_up", "Looks a thing up.", Risk::Read, Effect::Pure, look_up);
    toolbox.add(Arc::new(tool)).expect("a name of its own");
    agent.toolbox = Arc::new(toolbox);
    let script = (1..=turns).map(|turn| answer(turn, turns)).collect();
    agent.model.transport = Arc::new(Scripted::new(agent.model.wire.clone(), script));
    let redactor = Arc::new(Redactor::new([7; 32]).expect("patterns"));
    let studio = Studio { tapes: folder.path().to_owned(), redactor };
    let task = Task { text: "Look things up.".to_owned(), ..Task::default() };
    let finished = agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await.expect("a tape");
    assert_eq!(finished.outcome.status, RunStatus::Completed, "{:?}", finished.outcome);
    Arc::new(Tape::read(&finished.tape).expect("a whole tape"))
}

fn exact_replay(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("exact_replay");
    group.sample_size(10);
    for turns in [10_usize, 100, 1000] {
        let tape = runtime.block_on(recorded(turns));
        group.throughput(Throughput::Elements(u64::try_from(turns).unwrap_or(u64::MAX)));
        group.bench_function(BenchmarkId::from_parameter(turns), |bencher| {
            bencher.iter(|| {
                let found = runtime.block_on(exact(tape.clone())).expect("a replay");
                assert!(found.is_exact(), "{:?}", found.mismatch);
                found.turns
            });
        });
    }
    group.finish();
}

criterion_group!(benches, exact_replay);
criterion_main!(benches);
