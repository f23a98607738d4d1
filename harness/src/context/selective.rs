//! Of the older turns those stay that have to do with the task; each call of the others is one line.
//!
//! A search that found nothing is worth a line and no more: "searched for X, no results".

use super::prune::{note, stays};
use super::turn::{Turn, recent, turns};
use super::{Item, View, tokens, view_of};
use serde_json::Value;
use std::collections::BTreeSet;
use trace::message::{Part, ToolCall, ToolResult};

const NOTE: &str = include_str!("../../prompt/selected.txt");
/// Lines about turns that are left out; older ones go.
const MOST_LINES: usize = 60;
/// Characters of arguments in such a line.
const MOST_CHARS: usize = 120;

/// The view that shows the pinned messages, the newest `keep` tool turns, and of the older ones the best by `score`
/// that fit into `room` tokens.
pub fn select(
    items: &[Item<'_>],
    keep: u32,
    room: u64,
    pinned: &[usize],
    messages: usize,
    score: impl Fn(&[Item<'_>]) -> f64,
) -> View {
    let turns = turns(items);
    let cut = recent(&turns, keep, items.len());
    let mut stays = stays(items, keep, pinned);
    let mut old: Vec<(f64, &Turn)> = turns
        .iter()
        .filter(|turn| turn.items.start < cut && turn.calls && !found_nothing(&items[turn.items.clone()]))
        .map(|turn| (score(&items[turn.items.clone()]), turn))
        .collect();
    // The best first; of equals the newer.
    old.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(y.items.start.cmp(&x.items.start)));
    let mut left = room;
    for (_, turn) in old {
        let size = tokens(items[turn.items.clone()].iter().map(|item| item.message));
        if size <= left {
            left -= size;
            turn.items
                .clone()
                .filter(|index| items[*index].place.is_some())
                .for_each(|index| stays[index] = true);
        }
    }
    let lines = lines(items, &stays);
    let from = lines.len().saturating_sub(MOST_LINES);
    let note = note(NOTE, &stays, items, messages, &[("calls", &lines[from..].join("\n"))]);
    view_of(items, &stays, note, messages)
}

/// How much the words of a turn have to do with those of the task: the share of the task's words that it has.
#[must_use]
pub fn relevance(task: &str, turn: &[Item<'_>]) -> f64 {
    let wanted = words(task);
    let mut has = BTreeSet::new();
    for part in turn.iter().flat_map(|item| &item.message.parts) {
        match part {
            Part::Text { text } => has.append(&mut words(text)),
            Part::ToolCall(call) => has.append(&mut words(&call.arguments)),
            Part::ToolResult(result) => has.append(&mut words(&result.content)),
            Part::Reasoning { .. } | Part::Opaque { .. } => {}
        }
    }
    let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    count(wanted.intersection(&has).count()) / count(wanted.len().max(1))
}

/// Words of more than two letters, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let parts = text.split(|letter: char| !letter.is_alphanumeric());
    parts.filter(|word| word.chars().count() > 2).map(str::to_lowercase).collect()
}

/// What was done in the turns that are left out, a line a call; lines of an earlier note are carried on.
fn lines(items: &[Item<'_>], stays: &[bool]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, item) in items.iter().enumerate().filter(|(index, _)| !stays[*index]) {
        if item.place.is_none() {
            let told = item.message.joined_text();
            let told = told.lines().filter(|line| line.starts_with("- "));
            lines.extend(told.map(|line| line.strip_suffix(']').unwrap_or(line).to_owned()));
        }
        let results = items.get(index + 1).map(|next| next.message.parts.as_slice()).unwrap_or_default();
        for call in item.message.tool_calls() {
            let result = results.iter().find_map(|part| match part {
                Part::ToolResult(result) if result.call_id == call.call_id => Some(result),
                _ => None,
            });
            lines.push(line(call, result));
        }
    }
    lines
}

fn line(call: &ToolCall, result: Option<&ToolResult>) -> String {
    let asked = crate::machine::finish::clip(&sought(&call.arguments), MOST_CHARS).replace('\n', " ");
    match result {
        Some(result) if result.is_error => format!("- {} {asked}: failed", call.tool_name),
        Some(result) if is_empty(&result.content) => {
            format!("- {}: searched for {asked}, no results", call.tool_name)
        }
        _ => format!("- {} {asked}: result not shown any more", call.tool_name),
    }
}

/// The values of arguments, without names and brackets.
fn sought(arguments: &str) -> String {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(members)) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            members.values().map(text).collect::<Vec<_>>().join(", ")
        }
        _ => arguments.to_owned(),
    }
}

fn found_nothing(turn: &[Item<'_>]) -> bool {
    let mut results = turn.iter().flat_map(|item| &item.message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    results.all(|result| is_empty(&result.content))
}

/// Whether a result says nothing: no text, or JSON in which no value is anything but empty, zero, false or null.
#[must_use]
pub fn is_empty(content: &str) -> bool {
    fn nothing(value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(false) => true,
            Value::Bool(true) => false,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.trim().is_empty(),
            Value::Array(list) => list.iter().all(nothing),
            Value::Object(members) => members.values().all(nothing),
        }
    }
    let content = content.trim();
    match serde_json::from_str(content) {
        // A bare figure or word is an answer, even `0` and `false`.
        Ok(value @ (Value::Array(_) | Value::Object(_) | Value::Null)) => nothing(&value),
        Ok(Value::String(text)) => text.trim().is_empty(),
        _ => content.is_empty() || content.eq_ignore_ascii_case("no results"),
    }
}
