//! `loopdeck runs`: the newest runs.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::say;
use serde_json::{Map, Value};
use trace::question::{self, RunFilter};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  loopdeck runs\n  loopdeck runs --stop-reason max_turns --limit 5\n  loopdeck runs --json | jq '.[0].run_id'"
)]
pub(crate) struct Args {
    /// How many at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Only of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only in this state: running (also interrupted ones), completed, stopped, failed, paused, aborted
    #[arg(long)]
    status: Option<String>,
    /// Only stopped for this reason, such as max_turns
    #[arg(long)]
    stop_reason: Option<String>,
    /// Print whole rows as JSON
    #[arg(long)]
    json: bool,
}

/// The columns people see; `--json` has all.
const SHOWN: [&str; 9] =
    ["run_id", "agent", "model", "started_at", "status", "stop_reason", "turns", "tool_calls", "cost_usd"];

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let filter = RunFilter {
        agent: args.agent,
        status: args.status,
        stop_reason: args.stop_reason,
        ..RunFilter::default()
    };
    let reader = house.reader()?;
    let mut table =
        reader.ask(&question::latest_runs(args.limit, &filter)).await.map_err(Failure::infrastructure)?;
    house.tell_interrupted(&mut table);
    if args.json {
        say::json(&table.objects().collect::<Vec<Map<String, Value>>>())?;
        return Ok(Exit::Ok);
    }
    if table.rows.is_empty() {
        say::talk("no runs here yet: try `loopdeck demo`, or `loopdeck run agent.toml \"task\"`");
        return Ok(Exit::Ok);
    }
    say::data(&say::draw(&table.only(&SHOWN)))?;
    if table.truncated {
        say::talk(&format!("only the newest {} are shown; --limit shows more", args.limit));
    }
    Ok(Exit::Ok)
}
