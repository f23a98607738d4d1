//! `loopdeck eval`: a suite judged.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use eval::report::{Format, Report};
use eval::runner::live::Live;
use eval::runner::recorded::Recorded;
use eval::runner::{Options, Progress, Selection};
use eval::suite::{Source, Suite};
use harness::agent::Agent;
use indicatif::ProgressBar;
use std::path::PathBuf;
use tokio::task::JoinSet;
use trace::ops::{Op, Ops};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/eval.txt"))]
pub(crate) struct Args {
    /// The suite
    suite: PathBuf,
    /// An earlier report (.json) to compare with
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// How often each case is run, instead of the suite's number
    #[arg(long)]
    repeat: Option<u32>,
    /// Only these cases; may be given again
    #[arg(long = "case")]
    cases: Vec<String>,
    /// Only cases with one of these tags; may be given again
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Write a report; the form by suffix: .json, .xml (JUnit), .txt, .md. May be given again
    #[arg(short = 'o', long = "output")]
    output: Vec<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Say what would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    for file in &args.output {
        // Asked before anything is spent.
        Format::of(file).map_err(Failure::usage)?;
    }
    let mut suite = Suite::load(&args.suite).map_err(Failure::usage)?;
    if let Some(repeats) = args.repeat {
        suite.repeats = repeats.clamp(1, eval::suite::MAX_REPEATS);
    }
    let baseline = args.baseline.as_deref().map(eval::report::read).transpose().map_err(Failure::usage)?;
    let house = House::open()?;
    if args.dry_run {
        return dry_run(&suite, &args);
    }
    let report = judge(&house, &suite, &args, baseline.as_ref()).await?;
    keep(&house, &report)?;
    for file in &args.output {
        report.write(file).map_err(Failure::infrastructure)?;
    }
    match args.json {
        true => say::json(&report)?,
        false => say::data(&report.text())?,
    }
    Exit::of_code(report.decision.exit_code())
}

/// Judges the suite on runs of its agent, or on stored runs.
async fn judge(
    house: &House,
    suite: &Suite,
    args: &Args,
    baseline: Option<&Report>,
) -> Result<Report, Failure> {
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, crate::interrupt::plainly);
    let interrupted = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flag, cancelled) = (interrupted.clone(), cancel.clone());
    tasks.spawn(async move {
        cancelled.cancelled().await;
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let bar = bar();
    let progress = |progress: Progress<'_>| {
        bar.set_length(progress.planned as u64);
        bar.set_position(progress.done as u64);
    };
    let options = Options {
        eval_id: trace::id::RunId::from_draw(harness::port::random()).to_string(),
        at_ns: harness::port::wall_clock_ns(),
        selection: Selection { cases: args.cases.clone(), tags: args.tags.clone() },
        baseline,
        cancel: Some(&interrupted),
        progress: Some(&progress),
    };
    let report = match &suite.source {
        Source::Agent(file) => {
            let environment = |name: &str| std::env::var(name).ok();
            let agent = Agent::load(file, &environment).await.map_err(Failure::usage)?;
            let live = Live::new(agent, house.studio()?, cancel);
            eval::run(suite, &live, &options).await
        }
        Source::Recorded(condition) => {
            let recorded = Recorded::read(condition, &house.reader()?).await.map_err(Failure::usage)?;
            eval::run(suite, &recorded, &options).await
        }
    };
    bar.finish_and_clear();
    Ok(report)
}

/// Scores become rows by way of the ops log.
fn keep(house: &House, report: &Report) -> Result<(), Failure> {
    let ops = Ops::new(&house.home);
    report
        .score_rows()
        .into_iter()
        .try_for_each(|score| ops.append(&Op::Score(score)).map(drop))
        .map_err(Failure::infrastructure)
}

fn dry_run(suite: &Suite, args: &Args) -> Done {
    let wanted = |id: &String| args.cases.is_empty() || args.cases.contains(id);
    let cases: Vec<&str> =
        suite.cases.iter().filter(|case| wanted(&case.id)).map(|case| case.id.as_str()).collect();
    let source = match &suite.source {
        Source::Agent(file) => format!("runs of {}", file.display()),
        Source::Recorded(condition) => format!("stored runs where {condition}"),
    };
    let how_many = match cases.len() {
        // Stored runs say themselves which cases there are.
        0 if matches!(suite.source, Source::Recorded(_)) => "every case they hold".to_owned(),
        cases => format!("{cases} cases x {} repeats", suite.repeats),
    };
    say::data(&format!("{}: {how_many}, {source}", suite.name))?;
    cases.iter().try_for_each(|case| say::data(case))?;
    Ok(Exit::Ok)
}

/// A progress bar on stderr; nothing where nobody watches.
fn bar() -> ProgressBar {
    let style = indicatif::ProgressStyle::with_template("judging {bar:30} {pos}/{len} {elapsed}");
    let bar = ProgressBar::new(0);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
