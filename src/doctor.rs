//! `loopdeck doctor`: is the home sound, and does the index agree with the logs?

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use serde_json::json;
use trace::store::{Indexed, Store};
use trace::tape::{Tape, verify};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/doctor.txt"))]
pub(crate) struct Args {
    /// Drop the index and derive it again from the logs
    #[arg(long)]
    rebuild: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let house = House::open()?;
    let tapes = Tape::list(&house.home.tapes()).map_err(Failure::infrastructure)?;
    let mut problems: Vec<String> = Vec::new();
    for path in &tapes {
        match verify(path) {
            Ok((_, found)) => {
                problems.extend(
                    found.iter().map(|one| format!("{} line {}: {}", path.display(), one.line, one.why)),
                );
            }
            Err(why) => problems.push(why.to_string()),
        }
    }
    let indexed = index(&house, args.rebuild)?;
    problems.extend(indexed.unreadable.iter().map(ToString::to_string));
    let sandbox = harness::sandbox::available().map_or_else(
        |why| format!("none, so policy `sandbox` denies: {why}"),
        |()| "works (writes only in its folder, no TCP)".to_owned(),
    );
    if args.json {
        let home = house.home.root();
        say::json(&json!({
            "home": home, "tapes": tapes.len(), "spans_indexed": indexed.spans, "problems": problems,
            "sandbox": sandbox,
        }))?;
    } else {
        let what = if args.rebuild { "the index was derived again" } else { "the index is up to date" };
        say::data(&format!(
            "{}: {} tapes checked, {what} ({} spans taken in now), {} problems",
            house.home.root().display(),
            tapes.len(),
            indexed.spans,
            problems.len()
        ))?;
        say::data(&format!("sandbox for programs: {sandbox}"))?;
        problems.iter().for_each(|problem| say::error(problem));
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Fail })
}

/// Takes the lock and brings the index up to date, from the beginning if so asked.
fn index(house: &House, rebuild: bool) -> Result<Indexed, Failure> {
    match rebuild {
        true => Store::rebuild(&house.home).map(|(_, indexed)| indexed),
        false => Store::open(&house.home).and_then(|store| store.catch_up()),
    }
    .map_err(Failure::infrastructure)
}
