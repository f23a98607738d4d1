//! The command line: arguments in, exit code out. One file a subcommand, no logic here.

mod approve;
mod completions;
mod demo;
mod diff;
mod doctor;
mod eval;
mod exit;
mod house;
mod import;
mod init;
mod interrupt;
mod replay;
mod resume;
mod run;
mod runs;
mod say;
mod serve;
mod show;
mod sql;
mod terminal;
mod verify;

use clap::{Parser, Subcommand};
use exit::{Done, Exit};
use std::process::ExitCode;

/// Runs LLM agent loops, keeps everything that happened, and lets you ask why, run it again, and gate changes.
#[derive(Debug, Parser)]
#[command(name = "loopdeck", version, about, max_term_width = 110, after_help = include_str!("help/main.txt"))]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a commented agent.toml, a prompt and a task to begin with
    Init(init::Args),
    /// Run an agent on a task and record it
    Run(run::Args),
    /// Go on with a run after a crash, an interruption, a limit or a question
    Resume(resume::Args),
    /// Decide about the call that a paused run waits with
    Approve(approve::Args),
    /// List runs, newest first
    Runs(runs::Args),
    /// Show one run: why it stopped, and what it did turn by turn
    Show(show::Args),
    /// Say where two recorded runs part
    Diff(diff::Args),
    /// Ask the index in SQL (read-only)
    Sql(sql::Args),
    /// Import recorded conversations: OpenAI-style chat JSON or JSONL, tau-bench results
    Import(import::Args),
    /// Check a tape: whole, unchanged, complete
    Verify(verify::Args),
    /// Run a recorded run again: exactly, or with a live model under a new prompt
    Replay(replay::Args),
    /// Judge an agent, or stored runs, by a suite
    Eval(eval::Args),
    /// Serve pages, take OTLP in, and page people
    Serve(serve::Args),
    /// See everything at work, with no key and no network
    Demo(demo::Args),
    /// Check the home: every tape whole, the index in step with the logs
    Doctor(doctor::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(why) => {
            // Help and version are data, errors are talk; clap knows which goes where.
            let _ = why.print();
            return if why.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("LOOPDECK_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .with_ansi(say::is_colourful())
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            say::error(&format!("cannot start: {why}"));
            return Exit::Infrastructure.into();
        }
    };
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            done = dispatch(line.command) => Some(done),
            () = interrupt::at_once() => None,
        }
    });
    let Some(done) = done else {
        say::talk("ended at once: what was recorded stays; go on with `loopdeck resume latest`");
        runtime.shutdown_background();
        return Exit::Interrupted.into();
    };
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            say::error(&failure.message);
            failure.exit.into()
        }
    }
}

async fn dispatch(command: Command) -> Done {
    match command {
        Command::Init(args) => init::run(&args),
        Command::Run(args) => run::run(args).await,
        Command::Resume(args) => resume::run(args).await,
        Command::Approve(args) => approve::run(args).await,
        Command::Runs(args) => runs::run(args).await,
        Command::Show(args) => show::run(args).await,
        Command::Diff(args) => diff::run(args).await,
        Command::Doctor(args) => doctor::run(&args),
        Command::Sql(args) => sql::run(args).await,
        Command::Import(args) => import::run(&args),
        Command::Verify(args) => verify::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Eval(args) => eval::run(args).await,
        Command::Serve(args) => serve::run(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Completions(args) => completions::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_holds_together() {
        super::Line::command().debug_assert();
    }
}
