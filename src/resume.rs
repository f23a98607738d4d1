//! `loopdeck resume`: a run goes on, after a crash, an interruption or a limit.

use crate::exit::{Done, Failure};
use crate::house::House;
use crate::run::{Manner, Watcher, conclude};
use harness::agent::Agent;
use harness::driver::ResumeError;
use std::path::PathBuf;
use tokio::task::JoinSet;
use trace::outcome::RunStatus;
use trace::tape::Tape;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/resume.txt"))]
pub(crate) struct Args {
    /// A run, as in `show`
    run: String,
    /// The folder that the agent's commands run in
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// From here on at most so many model turns in all
    #[arg(long)]
    max_turns: Option<u32>,
    /// From here on at most so many tokens in all
    #[arg(long)]
    max_total_tokens: Option<u64>,
    /// From here on at most so many seconds in all
    #[arg(long)]
    max_wall_time_seconds: Option<u64>,
    /// Print events as JSON lines while it runs; the last one holds the outcome
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let tape = house.tape(&args.run).await?;
    check(&tape)?;
    let environment = |name: &str| std::env::var(name).ok();
    let agent = Agent::of_tape(&tape, &args.folder, &environment).map_err(Failure::usage)?;
    let agent = agent.connect(tape.path(), &args.folder, &environment).await.map_err(Failure::usage)?;
    let mut budget = agent.config.budget.clone();
    budget.max_model_turns = args.max_turns.unwrap_or(budget.max_model_turns);
    budget.max_total_tokens = args.max_total_tokens.or(budget.max_total_tokens);
    budget.max_wall_time_seconds = args.max_wall_time_seconds.unwrap_or(budget.max_wall_time_seconds);
    let budget = (budget != agent.config.budget).then_some(budget);
    let studio = house.studio()?;
    let manner = Manner { json: args.json, quiet: args.quiet };
    let mut watcher = Watcher::of_tape(manner, studio.redactor.clone(), &tape);
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, watcher.teller());
    let finished =
        agent.resume(&tape, budget, &studio, cancel, &mut watcher).await.map_err(|why| match why {
            ResumeError::Tape(_) => Failure::infrastructure(why),
            other => Failure::usage(other),
        })?;
    conclude(&finished, watcher, manner, &args.folder).await
}

/// Only a run that did not come to a real end can go on.
fn check(tape: &Tape) -> Result<(), Failure> {
    match tape.ended().map(|ended| &ended.outcome) {
        Some(outcome) if matches!(outcome.status, RunStatus::Completed | RunStatus::Failed) => {
            Err(Failure::usage(format!(
                "the run has ended ({}): there is nothing to go on with; run the task again, or replay it",
                outcome.stop_reason
            )))
        }
        _ => Ok(()),
    }
}
