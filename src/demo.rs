//! `loopdeck demo`: everything at work, with no key and no network.
//!
//! A provider on loopback speaks both wire formats, streamed; an agent runs real tools over the shipped cases;
//! every tape is replayed exactly, the failed run once more under a corrected prompt; a suite is scored; the
//! alerts that fired are shown, and the pages are served.

mod script;
mod shop;

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::{replay as replay_command, say};
use dashboard::{ServeConfig, Serving};
use eval::case::Case;
use eval::runner::live::Live;
use eval::runner::{Options, Progress};
use eval::suite::Suite;
use harness::agent::{Agent, Finished, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use indicatif::ProgressBar;
use loopback::Loopback;
use replay::live::{Change, live};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::ops::{Op, Ops};
use trace::question;
use trace::reader::Reader;
use trace::tape::Tape;

const AGENT: &str = include_str!("../datasets/demo/agent.toml");
const PROMPT: &str = include_str!("../datasets/demo/prompt.txt");
const CORRECTED: &str = include_str!("../datasets/demo/prompt_corrected.txt");
const SUITE: &str = include_str!("../datasets/demo/suite.toml");
const CASES: &str = include_str!("../datasets/demo/cases.jsonl");
/// How long the rules get to look at the finished runs.
const RULES_WAIT: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  loopdeck demo          ends with pages on http://127.0.0.1:7878; Ctrl-C to end\n  loopdeck demo --exit   ends by itself"
)]
pub(crate) struct Args {
    /// End when all is shown instead of serving the pages
    #[arg(long)]
    exit: bool,
    /// Act as one of the demo's tools: JSON arguments on stdin, JSON on stdout
    #[arg(long, hide = true)]
    tool: Option<String>,
}

pub(crate) async fn run(args: Args) -> Done {
    if let Some(tool) = &args.tool {
        return act_as_tool(tool);
    }
    let house = House::open()?;
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, crate::interrupt::plainly);
    let player = script::player().map_err(Failure::infrastructure)?;
    let provider = Loopback::start(player).await.map_err(Failure::infrastructure)?;
    say::talk(&format!(
        "provider on loopback: {} (OpenAI Chat and Anthropic Messages, streamed)",
        provider.base_url()
    ));

    let mut tapes = run_cases(&house, &provider, &cancel).await?;
    tapes.extend(score(&house, &provider, &cancel).await?);
    let exact = replay_all(&tapes).await?;
    correct(&house, &tapes, &cancel).await?;
    for violation in provider.violations() {
        say::warn(&format!("the provider objects: {violation}"));
    }
    if cancel.is_cancelled() {
        return Ok(Exit::Interrupted);
    }
    let serving = serve(&house, args.exit).await?;
    let pages = serving.pages;
    let ended = CancellationToken::new();
    let until = ended.clone();
    let server = async { serving.until(until.cancelled_owned()).await.map_err(Failure::infrastructure) };
    let rest = async {
        let shown = show_alerts(&house).await;
        if !args.exit && shown.is_ok() {
            say::talk(&format!(
                "\nlook around: http://{pages}/   (Ctrl-C ends; your runs stay in {})",
                house.home.root().display()
            ));
            cancel.cancelled().await;
        }
        ended.cancel();
        shown
    };
    let (served, shown) = tokio::join!(server, rest);
    served.and(shown)?;
    Ok(if exact { Exit::Ok } else { Exit::Mismatch })
}

fn act_as_tool(tool: &str) -> Done {
    let input = std::io::read_to_string(std::io::stdin()).map_err(Failure::usage)?;
    let arguments = serde_json::from_str(&input).map_err(Failure::usage)?;
    match shop::answer(tool, &arguments) {
        Ok(answer) => say::data(&answer.to_string()).map(|()| Exit::Ok),
        Err(why) => {
            say::talk(&why);
            Ok(Exit::Fail)
        }
    }
}

/// The demo's agent on one of the two wires.
fn agent(provider: &Loopback, wire: &str) -> Result<Agent, Failure> {
    let file = Path::new("datasets/demo/agent.toml");
    let mut config = AgentConfig::parse(AGENT, file).map_err(Failure::usage)?;
    let program = std::env::current_exe().map_err(Failure::infrastructure)?;
    config.agent.prompt_file = None;
    config.agent.prompt = PROMPT.to_owned();
    config.model.wire = wire.to_owned();
    config.model.base_url = Some(provider.base_url());
    for tool in &mut config.tools {
        if let Some(name) = tool.command.first_mut() {
            *name = program.display().to_string();
        }
    }
    Agent::of_config(config, file, Path::new("."), &|_| None).map_err(Failure::usage)
}

fn suite() -> Result<(Suite, Vec<Case>), Failure> {
    let file = Path::new("datasets/demo/suite.toml");
    let cases = eval::case::parse(Path::new("datasets/demo/cases.jsonl"), CASES).map_err(Failure::usage)?;
    let suite = Suite::with_cases(file, SUITE, cases.clone()).map_err(Failure::usage)?;
    Ok((suite, cases))
}

/// Runs every case once on the Messages wire.
async fn run_cases(
    house: &House,
    provider: &Loopback,
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, Failure> {
    let agent = agent(provider, "messages")?;
    let studio = house.studio()?;
    let (_, cases) = suite()?;
    let mut tapes = Vec::new();
    say::talk("\n1. an agent runs over the shipped cases, and every run is recorded");
    for case in cases {
        let mut agent = agent.clone();
        Arc::make_mut(&mut agent.config).budget =
            eval::case::budgeted(&agent.config.budget, &case.budget).map_err(Failure::usage)?;
        let task = Task { text: case.input.clone(), task_id: Some(case.id.clone()), ..Task::default() };
        let finished: Finished = agent
            .run(task, &studio, cancel.clone(), &mut Unobserved)
            .await
            .map_err(Failure::infrastructure)?;
        let outcome = &finished.outcome;
        say::talk(&format!(
            "   {:26} {:16} {} turns, {} calls  {}",
            case.id, outcome.stop_reason, outcome.turns, outcome.tool_calls, finished.run_id
        ));
        tapes.push(finished.tape);
    }
    Ok(tapes)
}

/// Scores the suite on the Chat wire; its runs are recorded too.
async fn score(
    house: &House,
    provider: &Loopback,
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, Failure> {
    say::talk("\n2. a suite runs and is scored");
    let (suite, _) = suite()?;
    let studio = house.studio()?;
    let before = Tape::list(&studio.tapes).map_err(Failure::infrastructure)?;
    let live = Live::new(agent(provider, "chat")?, studio, cancel.clone());
    let bar = ProgressBar::new(0);
    let progress = |progress: Progress<'_>| {
        bar.set_length(progress.planned as u64);
        bar.set_position(progress.done as u64);
    };
    let options = Options {
        eval_id: trace::id::RunId::from_draw(harness::port::random()).to_string(),
        at_ns: harness::port::wall_clock_ns(),
        progress: Some(&progress),
        ..Options::default()
    };
    let report = eval::run(&suite, &live, &options).await;
    bar.finish_and_clear();
    let ops = Ops::new(&house.home);
    for score in report.score_rows() {
        ops.append(&Op::Score(score)).map_err(Failure::infrastructure)?;
    }
    say::data(&report.text())?;
    let after = Tape::list(&house.home.tapes()).map_err(Failure::infrastructure)?;
    Ok(after.into_iter().filter(|tape| !before.contains(tape)).collect())
}

/// Replays every tape exactly.
async fn replay_all(tapes: &[PathBuf]) -> Result<bool, Failure> {
    say::talk("\n3. every tape is replayed exactly: nothing live, every request rebuilt byte for byte");
    let (mut exact, mut bytes) = (0, 0);
    for path in tapes {
        let tape = Tape::read(path).map_err(Failure::infrastructure)?;
        let found = replay::exact::exact(Arc::new(tape)).await.map_err(Failure::infrastructure)?;
        match &found.mismatch {
            None => exact += 1,
            Some(mismatch) => say::error(&format!("{}: {mismatch}", path.display())),
        }
        bytes += found.request_bytes;
    }
    say::talk(&format!("   {exact} of {} exact, {bytes} request bytes compared", tapes.len()));
    Ok(exact == tapes.len())
}

/// Replays the run that failed its case once more, live, under the corrected prompt.
async fn correct(house: &House, tapes: &[PathBuf], cancel: &CancellationToken) -> Result<(), Failure> {
    say::talk("\n4. the failed run is replayed under a corrected prompt: live model, recorded tools");
    let change = Change { prompt: Some(CORRECTED.to_owned()), ..Change::default() };
    let studio = house.studio()?;
    for path in tapes {
        let tape = Tape::read(path).map_err(Failure::infrastructure)?;
        if tape.started().and_then(|started| started.task_id.as_deref()) != Some("wrong_prompt") {
            continue;
        }
        let report = live(&tape, &change, &|_| None, &studio, cancel.clone(), &mut Unobserved)
            .await
            .map_err(Failure::infrastructure)?;
        say::data(&replay_command::tell_live(&report))?;
        let answer = |side: &replay::report::Side| side.answer.clone().unwrap_or_default();
        say::data(&format!(
            "  answer was: {}\n  answer is:  {}",
            answer(&report.recorded),
            answer(&report.replayed)
        ))?;
        return Ok(());
    }
    Ok(())
}

/// Starts the server: on the usual ports if they are free, else on others.
async fn serve(house: &House, only_shortly: bool) -> Result<Serving, Failure> {
    let free = "127.0.0.1:0".to_owned();
    let config = |listen: &str, otlp: &str| -> Result<ServeConfig, Failure> {
        Ok(ServeConfig {
            listen: listen.to_owned(),
            otlp_http: otlp.to_owned(),
            redactor: house.redactor()?,
            user: None,
        })
    };
    if !only_shortly {
        if let Ok(serving) =
            dashboard::start(config("127.0.0.1:7878", "127.0.0.1:4318")?, house.home.clone()).await
        {
            return Ok(serving);
        }
        say::talk("   the usual ports are taken: others are used");
    }
    dashboard::start(config(&free, &free)?, house.home.clone()).await.map_err(Failure::infrastructure)
}

/// Shows the alerts that fire on these runs, as soon as the rules have looked.
async fn show_alerts(house: &House) -> Result<(), Failure> {
    say::talk("\n5. alerts that fired on these runs");
    let reader: Reader = house.reader()?;
    let started = std::time::Instant::now();
    loop {
        let firing = reader.ask(&question::firing_alerts()).await.map_err(Failure::infrastructure)?;
        let rules: std::collections::BTreeSet<String> = firing.column("rule").map(say::plain).collect();
        // Four run rules have something to find here; the error rate needs more calls than a demo makes.
        if rules.len() >= 4 || started.elapsed() > RULES_WAIT {
            let shown = ["rule", "agent", "tool_name", "value", "threshold", "fired_at"];
            return say::data(&say::draw(&firing.only(&shown)));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
