//! `loopdeck sql`: one reading statement over the documented views.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use clap::ValueEnum;
use trace::reader::ReaderError;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/sql.txt"))]
pub(crate) struct Args {
    /// One SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN
    statement: String,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// As `--format json`
    #[arg(long)]
    json: bool,
    /// How many rows at most
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let reader = house.reader()?;
    let table = reader.query(&args.statement, &[], args.limit).await.map_err(|why| match why {
        ReaderError::Store(_) | ReaderError::Lost(_) => Failure::infrastructure(why),
        other => Failure::usage(other),
    })?;
    match (args.json, args.format) {
        (true, _) | (_, Format::Json) => say::json(&table.objects().collect::<Vec<_>>())?,
        (_, Format::Csv) => say::data(&say::csv(&table))?,
        (_, Format::Table) => say::data(&say::draw(&table))?,
    }
    if table.truncated {
        say::warn(&format!("only the first {} rows are shown; --limit shows more", args.limit));
    }
    Ok(Exit::Ok)
}
