//! `loopdeck replay`: a recorded run again.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use clap::ValueEnum;
use harness::driver::Unobserved;
use replay::ReplayError;
use replay::exact::{Exact, exact};
use replay::live::{Change, live};
use replay::matching::GivenAgain;
use replay::report::{LiveReport, Side};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinSet;
use trace::fact::Ruling;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/replay.txt"))]
pub(crate) struct Args {
    /// Runs as in `show`, or tapes
    #[arg(required_unless_present = "condition")]
    targets: Vec<String>,
    /// All runs with a tape that meet this condition on the view `runs`
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,
    /// What is live; without it everything is answered from the tape
    #[arg(long, value_enum)]
    live: Option<LiveSide>,
    /// Another system prompt, from a file
    #[arg(long, requires = "live")]
    prompt: Option<PathBuf>,
    /// Another model
    #[arg(long, requires = "live")]
    model: Option<String>,
    /// Another address of the provider
    #[arg(long, requires = "live")]
    base_url: Option<String>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Which side of a replay is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LiveSide {
    /// The model; tools and people answer from the tape
    Model,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let targets = match &args.condition {
        Some(condition) => matching(&house, condition).await?,
        None => args.targets.clone(),
    };
    if targets.is_empty() {
        say::talk("no run with a tape meets the condition: nothing was replayed");
        return Ok(Exit::NotComparable);
    }
    match args.live {
        None => replay_exactly(&house, &targets, args.json).await,
        Some(LiveSide::Model) => replay_live(&house, &targets, &args).await,
    }
}

/// The runs that meet a condition and have a tape of ours.
async fn matching(house: &House, condition: &str) -> Result<Vec<String>, Failure> {
    let statement =
        format!("select run_id from runs where source = 'tape' and ({condition}) order by started_at");
    let table = house.reader()?.query(&statement, &[], 10_000).await.map_err(Failure::usage)?;
    Ok(table.column("run_id").filter_map(Value::as_str).map(str::to_owned).collect())
}

async fn replay_exactly(house: &House, targets: &[String], as_json: bool) -> Done {
    let mut found = Vec::new();
    for target in targets {
        let tape = house.tape(target).await?;
        let one = exact(Arc::new(tape)).await.map_err(failure)?;
        if !as_json {
            say::data(&tell_exact(&one))?;
        }
        found.push(one);
    }
    let exact = found.iter().filter(|one| one.is_exact()).count();
    match as_json {
        true => say::json(&found)?,
        false if found.len() > 1 => say::data(&format!("{exact} of {} exact", found.len()))?,
        false => {}
    }
    Ok(if exact == found.len() { Exit::Ok } else { Exit::Mismatch })
}

fn tell_exact(one: &Exact) -> String {
    match &one.mismatch {
        None => format!(
            "{}: exact: {} turns, {} of {} facts, {} request bytes rebuilt{}",
            one.run_id,
            one.turns,
            one.facts,
            one.facts_recorded,
            one.request_bytes,
            if one.unfinished { " (the tape ends before the run did)" } else { "" }
        ),
        Some(mismatch) => format!("{}: mismatch: {mismatch}", one.run_id),
    }
}

async fn replay_live(house: &House, targets: &[String], args: &Args) -> Done {
    let prompt = args.prompt.as_ref().map(|path| {
        std::fs::read_to_string(path)
            .map_err(|why| Failure::usage(format!("{}: cannot be read: {why}", path.display())))
    });
    let change =
        Change { prompt: prompt.transpose()?, model: args.model.clone(), base_url: args.base_url.clone() };
    let studio = house.studio()?;
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, crate::interrupt::plainly);
    let mut reports = Vec::new();
    for target in targets {
        let tape = house.tape(target).await?;
        let environment = |name: &str| std::env::var(name).ok();
        let report = live(&tape, &change, &environment, &studio, cancel.clone(), &mut Unobserved)
            .await
            .map_err(failure)?;
        if !args.json {
            say::data(&tell_live(&report))?;
        }
        reports.push(report);
    }
    if args.json {
        let told: Vec<Value> =
            reports.iter().map(|report| json!({ "verdict": report.verdict(), "report": report })).collect();
        say::json(&told)?;
    }
    let diverged = reports.iter().any(|report| report.diverged.is_some());
    Ok(if diverged { Exit::Inconclusive } else { Exit::Ok })
}

/// The report of a live replay for people.
pub(crate) fn tell_live(report: &LiveReport) -> String {
    let mut lines = vec![format!("{} -> {}: {}", report.replay_of, report.run_id, report.verdict())];
    if let Some(unanswered) = &report.diverged {
        lines.push(format!(
            "  stopped at {}: {}{} has no recorded answer{}; unused answers of this tool: {}",
            unanswered.key,
            unanswered.tool_name,
            say::clip(&unanswered.arguments),
            if unanswered.wants.is_some() { " of a person" } else { "" },
            if unanswered.recorded.is_empty() { "none".to_owned() } else { unanswered.recorded.join(" ") }
        ));
    }
    lines.extend(report.given_again.iter().map(again));
    lines.push(match &report.first_difference {
        None => "  no difference in calls or answer".to_owned(),
        Some(difference) => format!(
            "  first difference: turn {} ({}): recorded {} / replayed {}",
            difference.turn,
            difference.kind,
            say::clip(&difference.recorded),
            say::clip(&difference.replayed)
        ),
    });
    lines.push(side("recorded", &report.recorded));
    lines.push(side("replayed", &report.replayed));
    lines.join("\n")
}

/// A recorded answer of a person in a line.
fn again(given: &GivenAgain) -> String {
    let words = given.said.as_deref().or(given.reason.as_deref());
    format!(
        "  as recorded: {} ({}) {} {} at {}{}",
        given.by,
        given.way,
        given.ruling.map_or("answered", |ruling| match ruling {
            Ruling::Allow => "allowed",
            Ruling::Deny => "denied",
        }),
        given.tool_name,
        given.key,
        words.map_or_else(String::new, |words| format!(": {}", say::clip(words)))
    )
}

/// The numbers of one side in a line.
pub(crate) fn side(name: &str, side: &Side) -> String {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    format!(
        "  {name}: {}, {} turns, {} tool calls, {} + {} tokens, cost {}, {} ms in the model",
        side.stop_reason.map_or("unfinished", trace::outcome::StopReason::as_str),
        side.turns,
        side.tool_calls,
        number(side.usage.input_tokens),
        number(side.usage.output_tokens),
        side.cost_usd.map_or("-".to_owned(), |cost| format!("${cost:.4}")),
        side.model_latency_ms
    )
}

fn failure(why: ReplayError) -> Failure {
    match why {
        ReplayError::Tape(trace::tape::TapeError::Io { .. }) => Failure::infrastructure(why),
        other => Failure::usage(other),
    }
}
