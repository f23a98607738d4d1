//! `loopdeck run`: an agent, a task, a tape.
//!
//! Parts: [`watcher`] tells what happens while it runs, on [`screen`] for people (with [`flow`] for streamed text and
//! [`progress`] for the bar) and as [`event`]s for programs.

mod event;
mod flow;
mod progress;
#[cfg(test)]
mod sample;
mod screen;
mod watcher;

pub(crate) use watcher::{Manner, Watcher};

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use harness::agent::{Agent, AgentError, Finished, Studio, Task};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;
use trace::caller;
use trace::id::{RunId, SpanId, TraceId};
use trace::message::Message;
use trace::outcome::RunStatus;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/run.txt"))]
pub(crate) struct Args {
    /// The agent's configuration
    agent: PathBuf,
    /// What it is asked to do; `-` reads it from stdin
    task: String,
    /// The conversation this run belongs to: it goes on from the newest run of that name that has ended
    #[arg(long)]
    session: Option<String>,
    /// A word to find the run by; may be given again
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Print events as JSON lines while it runs; the last one holds the outcome
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let environment = |name: &str| std::env::var(name).ok();
    let mut agent = Agent::load(&args.agent, &environment).await.map_err(|why| match why {
        AgentError::Client { .. } => Failure::infrastructure(why),
        _ => Failure::usage(why),
    })?;
    agent.person = crate::terminal::person();
    for hint in agent.toolbox.lint() {
        say::warn(&hint);
    }
    let (agent, parent) = called(agent, &environment);
    let house = House::open()?;
    let studio = house.studio()?;
    let continues = match &args.session {
        Some(session) => earlier(&studio, session, args.quiet)?,
        None => None,
    };
    let task = Task {
        text: read_task(&args.task)?,
        session_id: args.session,
        continues,
        tags: args.tags,
        parent,
        ..Task::default()
    };
    let manner = Manner { json: args.json, quiet: args.quiet };
    let mut watcher = Watcher::new(manner, studio.redactor.clone());
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, watcher.teller());
    let finished = agent.run(task, &studio, cancel, &mut watcher).await.map_err(Failure::infrastructure)?;
    let folder = args.agent.parent().unwrap_or(Path::new(""));
    conclude(&finished, watcher, manner, folder).await
}

/// Tells how a run ended, sends a copy of its spans, and gives the exit code. `folder` is where its tools run.
pub(crate) async fn conclude(finished: &Finished, watcher: Watcher, manner: Manner, folder: &Path) -> Done {
    let shown = watcher.close();
    let go_on = finished.outcome.evidence.resumable.then(|| go_on(finished, folder));
    match manner.json {
        true => event::of_end(finished, go_on.as_deref()).iter().for_each(say::event),
        false => tell(finished, go_on.as_deref(), &shown)?,
    }
    export(finished).await;
    Ok(Exit::of_stop(finished.outcome.stop_reason))
}

/// The command that goes on with the run from where the person is now.
fn go_on(finished: &Finished, folder: &Path) -> String {
    match folder.as_os_str().is_empty() || folder == Path::new(".") {
        true => format!("loopdeck resume {}", finished.run_id),
        false => format!("loopdeck resume {} --folder {}", finished.run_id, folder.display()),
    }
}

/// The agent under the names, and below the span, of whoever started this process.
fn called(agent: Agent, environment: &dyn Fn(&str) -> Option<String>) -> (Agent, Option<(TraceId, SpanId)>) {
    let resource = caller::resource(environment).unwrap_or_else(|why| {
        say::warn(&why.to_string());
        BTreeMap::new()
    });
    let parent = caller::parent(environment).unwrap_or_else(|why| {
        say::warn(&why.to_string());
        None
    });
    (agent.known_as(&resource), parent.map(|parent| (parent.trace_id, parent.span_id)))
}

/// What the conversation has so far.
fn earlier(studio: &Studio, session: &str, quiet: bool) -> Result<Option<(RunId, Vec<Message>)>, Failure> {
    let (found, unreadable) = harness::session::earlier(&studio.tapes, session)
        .map_err(|why| Failure::infrastructure(format!("{}: {why}", studio.tapes.display())))?;
    for why in unreadable {
        say::warn(&why.to_string());
    }
    let Some(found) = found else { return Ok(None) };
    if !quiet {
        say::talk(&format!("goes on from run {}, {} messages", found.run_id, found.messages.len()));
    }
    Ok(Some((found.run_id, found.messages)))
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

/// Tells the end to people; the answer goes to stdout, unless it stands on the same terminal already.
fn tell(finished: &Finished, go_on: Option<&str>, shown: &str) -> Result<(), Failure> {
    let outcome = &finished.outcome;
    let tokens =
        outcome.usage.total().map_or("unknown tokens".to_owned(), |tokens| format!("{tokens} tokens"));
    let cost = outcome.cost_usd.map_or("unpriced".to_owned(), |cost| format!("${cost:.4}"));
    say::talk(&format!(
        "{} after {}, {}, {tokens}, {cost}, {} ms",
        say::accent(outcome.stop_reason.as_str(), colour(outcome.status)),
        say::counted(outcome.turns, "turn"),
        say::counted(outcome.tool_calls, "tool call"),
        outcome.duration_ms
    ));
    if outcome.status != RunStatus::Completed {
        say::talk(&format!("why: {}", outcome.evidence.detail));
        if let Some(action) = &outcome.evidence.next_safe_action {
            say::talk(&format!("next: {action}"));
        }
    }
    say::talk(&format!("see:  loopdeck show {}", finished.run_id));
    if let Some(go_on) = go_on {
        say::talk(&format!("go on: {go_on}"));
    }
    match &outcome.answer {
        Some(answer) if answer.trim() == shown.trim() && say::stdout_is_terminal() => Ok(()),
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
