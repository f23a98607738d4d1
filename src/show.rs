//! `loopdeck show`: one run, its verdict first.

use crate::exit::{Done, Exit, Failure};
use crate::house::{House, INTERRUPTED};
use crate::say;
use serde_json::{Map, Value, json};
use trace::question;
use trace::reader::Reader;
use trace::store::Table;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  loopdeck show latest\n  loopdeck show 4f1c --json\n  loopdeck show latest --messages"
)]
pub(crate) struct Args {
    /// A run: its id or a unique beginning of it, a trace id, a session id, or `latest`
    run: String,
    /// Show the whole conversation too
    #[arg(long)]
    messages: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let reader = house.reader()?;
    let run_id = reader.find_run(&args.run).await.map_err(Failure::usage)?;
    let mut run = ask(&reader, &question::run(&run_id)).await?;
    house.tell_interrupted(&mut run);
    let turns = ask(&reader, &question::turns(&run_id)).await?;
    let calls = ask(&reader, &question::tool_calls(&run_id)).await?;
    let children = ask(&reader, &question::children(&run_id)).await?;
    let messages = match args.json || args.messages {
        true => Some(ask(&reader, &question::messages(&run_id)).await?),
        false => None,
    };
    let row = run.objects().next().unwrap_or_default();
    if args.json {
        let models = ask(&reader, &question::model_calls(&run_id)).await?;
        let list = |table: &Table| table.objects().collect::<Vec<_>>();
        say::json(&json!({
            "run": row,
            "turns": list(&turns),
            "tool_calls": list(&calls),
            "children": list(&children),
            "model_calls": list(&models),
            "messages": messages.as_ref().map(list),
        }))?;
        return Ok(Exit::Ok);
    }
    say::data(&verdict(&row))?;
    let shown =
        ["turn", "tool_names", "arguments", "tool_statuses", "input_tokens", "output_tokens", "latency_ms"];
    say::data(&say::draw(&turns.only(&shown)))?;
    for child in children.objects() {
        let text = |name: &str| child.get(name).map(say::plain).unwrap_or_default();
        say::data(&format!(
            "part: run {}  {}: {} after {} turns, {} + {} tokens, cost {}",
            text("run_id"),
            text("agent"),
            text("stop_reason"),
            text("turns"),
            text("input_tokens"),
            text("output_tokens"),
            text("cost_usd"),
        ))?;
    }
    if let Some(messages) = messages {
        for message in messages.objects() {
            let text = |name: &str| message.get(name).map(say::plain).unwrap_or_default();
            say::data(&format!("--- {} (turn {})\n{}", text("role"), text("turn"), text("content")))?;
        }
    }
    Ok(Exit::Ok)
}

async fn ask(reader: &Reader, question: &question::Question) -> Result<Table, Failure> {
    reader.ask(question).await.map_err(Failure::infrastructure)
}

/// Why it stopped, with the evidence, in a few lines.
fn verdict(run: &Map<String, Value>) -> String {
    let text = |name: &str| run.get(name).map(say::plain).unwrap_or_default();
    let mut lines = vec![
        format!("run {}  {}  {}", text("run_id"), text("agent"), text("model")),
        format!(
            "{}: {} after {} turns (of {}), {} tool calls, {} errors, {} repeated, {} + {} tokens, cost {}",
            text("status"),
            text("stop_reason"),
            text("turns"),
            text("max_turns"),
            text("tool_calls"),
            text("tool_errors"),
            text("repeated_calls"),
            text("input_tokens"),
            text("output_tokens"),
            text("cost_usd"),
        ),
    ];
    let evidence = match run.get("stop_evidence") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(value) => value.clone(),
        None => Value::Null,
    };
    for (name, label) in [("detail", "why"), ("next_safe_action", "next")] {
        if let Some(told) = evidence.get(name).and_then(Value::as_str) {
            lines.push(format!("{label}: {told}"));
        }
    }
    if text("status") == INTERRUPTED {
        lines.push("why: its process died before the run had an end".to_owned());
        lines.push(format!("next: loopdeck resume {}", text("run_id")));
    }
    if let Some(parent) = run.get("parent_run_id").and_then(Value::as_str) {
        lines.push(format!("part of run {parent}"));
    }
    if let Some(of) = run.get("replay_of").and_then(Value::as_str) {
        lines.push(format!("replay of {of} ({})", text("replay_mode")));
    }
    lines.join("\n")
}
