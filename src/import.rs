//! `loopdeck import`: recorded conversations into the inbox.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use serde_json::json;
use std::path::PathBuf;
use trace::inbox::Inbox;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  loopdeck import conversations.jsonl\n  loopdeck import results.json && loopdeck runs\n\nImporting a file twice changes nothing."
)]
pub(crate) struct Args {
    /// Chat JSON, JSON lines, or tau-bench result files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what was imported as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let house = House::open()?;
    let redactor = house.redactor()?;
    let inbox = Inbox::new(&house.home);
    let mut told = Vec::new();
    for path in &args.files {
        let imported = trace::import::file(path, &redactor).map_err(Failure::usage)?;
        let runs = imported.runs.len();
        for entry in imported.entries(harness::port::wall_clock_ns()) {
            inbox.append(&entry).map_err(Failure::infrastructure)?;
        }
        told.push(json!({ "file": path, "runs": runs }));
        if !args.json {
            say::talk(&format!("{}: {runs} {}", path.display(), if runs == 1 { "run" } else { "runs" }));
        }
    }
    if args.json {
        say::json(&told)?;
    }
    Ok(Exit::Ok)
}
