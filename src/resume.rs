//! `loopdeck resume`: a run goes on, after a crash, an interruption, a limit or a question to a person.

use crate::approve::{check_expiry, nobody_waits};
use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::run::{Manner, Watcher, conclude};
use crate::{say, terminal};
use harness::agent::Agent;
use harness::driver::ResumeError;
use harness::person::{Given, Person};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinSet;
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Wants, Way, waiting};
use trace::ops;
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
    /// The call that the run waits with may run, once
    #[arg(long, conflicts_with_all = ["deny", "say"])]
    approve: bool,
    /// The call that the run waits with must not run
    #[arg(long, conflicts_with = "say")]
    deny: bool,
    /// Why; a denial tells it to the model
    #[arg(long)]
    reason: Option<String>,
    /// What you say to the question that a tool asks
    #[arg(long)]
    say: Option<String>,
    /// Who decides; the user of the system where absent
    #[arg(long)]
    by: Option<String>,
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
    let answer = match waiting(tape.lines()) {
        Some(asked) => answer(&args, &house, &tape, asked)?,
        None if args.answers() => return Err(nobody_waits()),
        None => None,
    };
    let person = terminal::person();
    if let (Some(asked), None, None) = (waiting(tape.lines()), &answer, &person)
        && check_expiry(asked).is_ok()
    {
        return Ok(still_waits(asked));
    }
    let environment = |name: &str| std::env::var(name).ok();
    let agent = Agent::of_tape(&tape, &args.folder, &environment).map_err(Failure::usage)?;
    let mut agent = agent.connect(tape.path(), &args.folder, &environment).await.map_err(Failure::usage)?;
    agent.person = match answer {
        Some(answer) => Some(Arc::new(Given::new(answer, person)) as Arc<dyn Person>),
        None => person,
    };
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

impl Args {
    const fn answers(&self) -> bool {
        self.approve || self.deny || self.say.is_some()
    }
}

/// The answer that this command brings, or that another process left.
fn answer(
    args: &Args,
    house: &House,
    tape: &Tape,
    asked: &PersonAsked,
) -> Result<Option<PersonAnswered>, Failure> {
    if !args.answers() {
        let Some(started) = tape.started() else { return Ok(None) };
        return ops::answer(&house.home, &started.run_id, &asked.token).map_err(Failure::infrastructure);
    }
    check_expiry(asked)?;
    let wrong = match (asked.wants, args.say.is_some()) {
        (Wants::Approval, true) => Some("the run waits for leave: use --approve or --deny"),
        (Wants::Input, false) => Some("the run waits for words: use --say ANSWER"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(Failure::usage(format!("{}\n{wrong}", terminal::question(asked))));
    }
    let ruling = match () {
        () if args.approve => Some(Ruling::Allow),
        () if args.deny => Some(Ruling::Deny),
        () => None,
    };
    let by = terminal::name(args.by.as_deref());
    Ok(Some(PersonAnswered {
        ruling,
        said: args.say.clone(),
        reason: args.reason.clone(),
        ..asked.answered(&by, Way::Command, harness::port::wall_clock_ns())
    }))
}

/// Nobody has answered: the tape stays as it is.
fn still_waits(asked: &PersonAsked) -> Exit {
    say::talk(&terminal::question(asked));
    say::talk(match asked.wants {
        Wants::Approval => "the run still waits: loopdeck approve RUN, or resume it with --approve or --deny",
        Wants::Confirmation | Wants::Input => "the run still waits: resume it with --say ANSWER",
    });
    Exit::Paused
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
