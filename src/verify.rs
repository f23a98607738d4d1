//! `loopdeck verify`: the fsck of tapes.

use crate::exit::{Done, Exit};
use crate::house::House;
use crate::say;
use serde_json::json;
use std::path::{Path, PathBuf};
use trace::tape::verify;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  loopdeck verify latest\n  loopdeck verify .loopdeck/tapes/*.tape.zst")]
pub(crate) struct Args {
    /// Tapes, or runs as in `show`
    #[arg(required = true)]
    tapes: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let mut all_well = true;
    let mut told = Vec::new();
    for target in &args.tapes {
        let path = locate(target).await?;
        let (summary, problems) = match verify(&path) {
            Ok((tape, problems)) => {
                let torn = if tape.torn_bytes() > 0 { ", its torn last line dropped" } else { "" };
                let end = if tape.ended().is_some() { "" } else { ", the run has not ended" };
                let summary = format!("{} facts{torn}{end}", tape.lines().len());
                let problems =
                    problems.into_iter().map(|one| format!("line {}: {}", one.line, one.why)).collect();
                (summary, problems)
            }
            Err(why) => (String::new(), vec![why.to_string()]),
        };
        all_well &= problems.is_empty();
        if !args.json {
            match problems.is_empty() {
                true => say::data(&format!("{}: whole and unchanged: {summary}", path.display()))?,
                false => {
                    problems.iter().for_each(|problem| say::error(&format!("{}: {problem}", path.display())));
                }
            }
        }
        told.push(
            json!({ "tape": path, "ok": problems.is_empty(), "summary": summary, "problems": problems }),
        );
    }
    if args.json {
        say::json(&told)?;
    }
    Ok(if all_well { Exit::Ok } else { Exit::Fail })
}

async fn locate(target: &str) -> Result<PathBuf, crate::exit::Failure> {
    match Path::new(target) {
        file if file.exists() => Ok(file.to_owned()),
        _ => House::open()?.tape_of_run(target).await,
    }
}
