//! A real, small and fallible model behind an OpenAI-compatible address: opt-in, for what no script thinks of.
//!
//! `LOOPDECK_LOCAL_MODEL=http://127.0.0.1:8089 cargo test --test it local_model` with any server that has `/v1` below
//! that address; `LOOPDECK_LOCAL_MODEL_NAME` names the model where the server wants a name. What the model says is
//! its own affair: these tests ask whether the loop ends, records it, and replays it exactly.

use crate::kit::{Deed, InProcess, assert_exact, checked, studio};
use harness::agent::{Agent, Finished, Task};
use harness::config::AgentConfig;
use harness::driver::{Observer, Unobserved};
use harness::model::Delta;
use harness::tool::{Tool, Toolbox};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use trace::fact::Fact;
use trace::outcome::{RunStatus, StopReason};
use trace::tape::Tape;

/// An agent on the local model; `None`, said aloud, where there is none.
fn agent(stream: bool, tools: &[Arc<InProcess>]) -> Option<Agent> {
    let Ok(address) = std::env::var("LOOPDECK_LOCAL_MODEL") else {
        // Past the capture of the test runner, or nobody would hear it.
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("skipped: LOOPDECK_LOCAL_MODEL names no local model\n"),
        );
        return None;
    };
    let name =
        std::env::var("LOOPDECK_LOCAL_MODEL_NAME").unwrap_or_else(|_| "smollm2-135m-instruct".to_owned());
    let text = format!(
        "[agent]\nname = \"local\"\nprompt = \"You answer in one short sentence.\"\n[model]\nname = \"{name}\"\n\
         base_url = \"{}/v1\"\nkey_env = \"\"\nstream = {stream}\nmax_output_tokens = 40\ntemperature = 0.2\n\
         timeout_seconds = 600\n[budget]\nmax_model_turns = 4\nmax_wall_time_seconds = 1200\n",
        address.trim_end_matches('/')
    );
    let config = AgentConfig::parse(&text, Path::new("agent.toml")).unwrap();
    let mut agent = Agent::of_config(config, Path::new("agent.toml"), Path::new("."), &|_| None).unwrap();
    let mut toolbox = Toolbox::default();
    tools.iter().for_each(|tool| toolbox.add(tool.clone() as Arc<dyn Tool>).unwrap());
    agent.toolbox = Arc::new(toolbox);
    Some(agent)
}

async fn run(agent: &Agent, task: &str, folder: &TempDir) -> (Finished, Arc<Tape>) {
    let task = Task { text: task.to_owned(), ..Task::default() };
    let studio = studio(folder.path());
    let finished = agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await.unwrap();
    let tape = Arc::new(checked(&finished.tape));
    assert_exact(&tape).await;
    (finished, tape)
}

#[tokio::test]
async fn runs_on_a_real_model_end_and_replay_exactly_streamed_or_not() {
    for stream in [false, true] {
        let Some(agent) = agent(stream, &[]) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (finished, tape) = run(&agent, "Say hello.", &folder).await;
        let outcome = finished.outcome;
        match outcome.stop_reason {
            StopReason::Completed => assert!(outcome.answer.is_some_and(|answer| !answer.trim().is_empty())),
            // A talkative model; that it was cut off is told and never taken for an answer.
            StopReason::OutputTruncated => assert_eq!(outcome.answer, None),
            _ => panic!("stream {stream}: {outcome:?}"),
        }
        assert!(outcome.usage.total().is_some_and(|tokens| tokens > 0), "the server counts tokens");
        let chunks = tape.lines().iter().filter_map(|line| match &line.fact {
            Fact::ModelAnswered(fact) => Some(fact.chunks.len()),
            _ => None,
        });
        assert!(chunks.max() > Some(0));
    }
}

#[tokio::test]
async fn a_real_model_with_tools_at_hand_ends_by_its_word_or_by_a_limit() {
    let look = InProcess::reading("look_up_order", Deed::Say("{\"state\":\"on its way\"}"));
    for stream in [false, true] {
        let Some(agent) = agent(stream, std::slice::from_ref(&look)) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (finished, tape) = run(&agent, "Look up order 1001 and tell me its state.", &folder).await;
        let outcome = finished.outcome;
        assert!(
            matches!(outcome.status, RunStatus::Completed | RunStatus::Stopped | RunStatus::Failed)
                && outcome.stop_reason != StopReason::ModelError,
            "stream {stream}: {outcome:?}"
        );
        let kinds = tape.lines().iter().map(|line| line.fact.kind());
        assert_eq!(kinds.filter(|kind| *kind == "model_answered").count(), outcome.turns as usize);
    }
}

/// Cancels at the first word.
struct Impatient(CancellationToken);

impl Observer for Impatient {
    fn delta(&mut self, delta: &Delta) {
        if matches!(delta, Delta::Text(_)) {
            self.0.cancel();
        }
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_within_the_stream_of_a_real_model_can_go_on() {
    let Some(agent) = agent(true, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (studio, cancel) = (studio(folder.path()), CancellationToken::new());
    let task = Task { text: "Count from one to ten in words.".to_owned(), ..Task::default() };
    let ended = agent.run(task, &studio, cancel.clone(), &mut Impatient(cancel)).await.unwrap();
    assert_eq!(ended.outcome.stop_reason, StopReason::Aborted, "{:?}", ended.outcome);
    let tape = Arc::new(checked(&ended.tape));
    assert_exact(&tape).await;
    let token = CancellationToken::new();
    let resumed = agent.resume(&tape, None, &studio, token, &mut Unobserved).await.unwrap();
    let reason = resumed.outcome.stop_reason;
    assert!(matches!(reason, StopReason::Completed | StopReason::OutputTruncated), "{:?}", resumed.outcome);
    assert_exact(&Arc::new(checked(&resumed.tape))).await;
}
