//! `loopdeck run`: an agent, a task, a tape.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use harness::agent::{Agent, AgentError, Finished, Task};
use harness::driver::Observer;
use harness::machine::Event;
use serde_json::json;
use std::path::PathBuf;
use tokio::task::JoinSet;
use trace::fact::Fact;
use trace::outcome::{RunStatus, ToolStatus};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/run.txt"))]
pub(crate) struct Args {
    /// The agent's configuration
    agent: PathBuf,
    /// What it is asked to do; `-` reads it from stdin
    task: String,
    /// The conversation this run belongs to
    #[arg(long)]
    session: Option<String>,
    /// A word to find the run by; may be given again
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Print the outcome as JSON instead of the answer
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let environment = |name: &str| std::env::var(name).ok();
    let agent = Agent::load(&args.agent, &environment).await.map_err(|why| match why {
        AgentError::Client { .. } => Failure::infrastructure(why),
        _ => Failure::usage(why),
    })?;
    for hint in agent.toolbox.lint() {
        say::warn(&hint);
    }
    let house = House::open()?;
    let studio = house.studio()?;
    let task =
        Task { text: read_task(&args.task)?, session_id: args.session, tags: args.tags, ..Task::default() };
    let mut tasks = JoinSet::new();
    let cancel = crate::on_interrupt(&mut tasks);
    let mut watcher = Watcher { quiet: args.quiet };
    let finished = agent.run(task, &studio, cancel, &mut watcher).await.map_err(Failure::infrastructure)?;
    conclude(&finished, args.json).await
}

/// Tells how a run ended, sends a copy of its spans, and gives the exit code.
pub(crate) async fn conclude(finished: &Finished, as_json: bool) -> Done {
    tell(finished, as_json)?;
    export(finished).await;
    Ok(Exit::of_stop(finished.outcome.stop_reason))
}

fn read_task(task: &str) -> Result<String, Failure> {
    let text = match task {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|why| Failure::usage(format!("stdin: {why}")))?,
        text => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the task is empty: say what the agent is to do"));
    }
    Ok(text)
}

fn tell(finished: &Finished, as_json: bool) -> Result<(), Failure> {
    let outcome = &finished.outcome;
    if as_json {
        return say::json(&json!({ "run_id": finished.run_id, "outcome": outcome, "tape": finished.tape }));
    }
    let tokens =
        outcome.usage.total().map_or("unknown tokens".to_owned(), |tokens| format!("{tokens} tokens"));
    let cost = outcome.cost_usd.map_or("unpriced".to_owned(), |cost| format!("${cost:.4}"));
    say::talk(&format!(
        "{} after {} turns, {} tool calls, {tokens}, {cost}, {} ms",
        say::accent(outcome.stop_reason.as_str(), colour(outcome.status)),
        outcome.turns,
        outcome.tool_calls,
        outcome.duration_ms
    ));
    if outcome.status != RunStatus::Completed {
        say::talk(&format!("why: {}", outcome.evidence.detail));
        if let Some(action) = &outcome.evidence.next_safe_action {
            say::talk(&format!("next: {action}"));
        }
    }
    say::talk(&format!("see:  loopdeck show {}", finished.run_id));
    if outcome.evidence.resumable {
        say::talk(&format!("go on: loopdeck resume {}", finished.run_id));
    }
    match &outcome.answer {
        Some(answer) => say::data(answer),
        None => Ok(()),
    }
}

const fn colour(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Completed => "32",
        RunStatus::Running | RunStatus::Paused => "33",
        RunStatus::Stopped | RunStatus::Failed | RunStatus::Aborted => "31",
    }
}

/// Sends a copy of the run's spans where OpenTelemetry's variables say; a failure is told and changes nothing.
async fn export(finished: &Finished) {
    let lookup = |name: &str| std::env::var(name).ok();
    let target = match trace::export::Destination::from_lookup(lookup) {
        Ok(Some(target)) => target,
        Ok(None) => return,
        Err(why) => return say::warn(&format!("no spans were exported: {why}")),
    };
    let spans = match trace::tape::Tape::read(&finished.tape) {
        Ok(tape) => trace::span::from_tape(&tape),
        Err(why) => return say::warn(&format!("no spans were exported: {why}")),
    };
    let exported = trace::export::export(&spans, &target).await;
    if exported.lost > 0 {
        let why = exported.why.unwrap_or_default();
        say::warn(&format!("{} of {} spans could not be exported: {why}", exported.lost, spans.len()));
    }
}

/// Says on stderr what the run does.
pub(crate) struct Watcher {
    pub(crate) quiet: bool,
}

impl Observer for Watcher {
    fn recorded(&mut self, _seq: u64, _at_ns: i64, fact: &Fact) {
        if self.quiet {
            return;
        }
        match fact {
            Fact::RunStarted(fact) => {
                say::talk(&format!("run {} of {} on {}", fact.run_id, fact.agent, fact.model));
            }
            Fact::ModelAnswered(fact) => {
                if let Some(response) = &fact.response {
                    let text = trace::message::joined_text(&response.parts);
                    if !text.trim().is_empty() && fact.response.as_ref().is_some_and(|r| has_calls(&r.parts))
                    {
                        say::talk(&format!("turn {}: {}", fact.turn, say::clip(&text)));
                    }
                }
            }
            Fact::ToolFinished(fact) => {
                let mark = if fact.status == ToolStatus::Ok { "32" } else { "31" };
                say::talk(&format!(
                    "turn {}: {} {} {} {} ms",
                    fact.key.turn,
                    fact.tool_name,
                    say::clip(&fact.arguments),
                    say::accent(fact.status.as_str(), mark),
                    fact.latency_ns / 1_000_000
                ));
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        if let (false, Event::Retrying { turn, ms, why }) = (self.quiet, event) {
            say::talk(&format!("turn {turn}: trying again in {ms} ms: {}", say::clip(why)));
        }
    }
}

fn has_calls(parts: &[trace::message::Part]) -> bool {
    trace::message::tool_calls(parts).next().is_some()
}
