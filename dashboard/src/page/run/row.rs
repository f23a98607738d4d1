//! Turns with their calls, identical ones in a row collapsed.
//!
//! Place in the flow: rows of `turns` and `tool_calls` -> **lines** of the run page. Pure.

use crate::column;
use crate::page::fit::weight;
use crate::page::spell;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A line of the table of turns.
pub(super) struct TurnLine {
    /// One turn, or the first and the last of those that are the same.
    pub(super) turns: String,
    /// How many turns this line stands for.
    pub(super) times: usize,
    pub(super) status: String,
    pub(super) sign: &'static str,
    pub(super) model: String,
    pub(super) calls: Vec<CallLine>,
    pub(super) tokens: String,
    pub(super) latency: String,
}

impl TurnLine {
    /// About how many bytes it takes on the page.
    pub(super) fn weight(&self) -> usize {
        const FRAME: usize = 220;
        let calls = self.calls.iter().map(|call| {
            FRAME
                + weight(&call.tool_name)
                + weight(&call.arguments)
                + weight(&call.result)
                + call.status.len()
        });
        FRAME + weight(&self.model) + calls.sum::<usize>()
    }
}

/// A tool call of a line.
pub(super) struct CallLine {
    pub(super) tool_name: String,
    pub(super) arguments: String,
    pub(super) result: String,
    pub(super) status: String,
    pub(super) sign: &'static str,
    pub(super) latency: String,
}

#[derive(Clone, Deserialize)]
pub(super) struct TurnRow {
    #[serde(deserialize_with = "column::whole")]
    turn: Option<u32>,
    latency_ms: Option<f64>,
    status: Option<String>,
    model: Option<String>,
    #[serde(deserialize_with = "column::whole")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "column::whole")]
    output_tokens: Option<u64>,
}

#[derive(Clone, Deserialize)]
pub(super) struct CallRow {
    #[serde(deserialize_with = "column::whole")]
    turn: Option<u32>,
    tool_name: Option<String>,
    arguments: Option<String>,
    args_hash: Option<String>,
    result: Option<String>,
    result_hash: Option<String>,
    status: Option<String>,
    latency_ms: Option<f64>,
}

/// A turn with its calls; the first of those it stands for.
struct Group {
    first: TurnRow,
    last_turn: u32,
    times: usize,
    calls: Vec<CallRow>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    latency_ms: Option<f64>,
}

/// The lines: every turn, and calls without a known turn at the end as turn 0.
pub(super) fn lines(turns: Vec<TurnRow>, calls: Vec<CallRow>) -> Vec<TurnLine> {
    let mut by_turn: BTreeMap<u32, Vec<CallRow>> = BTreeMap::new();
    for call in calls {
        by_turn.entry(call.turn.unwrap_or(0)).or_default().push(call);
    }
    let mut groups: Vec<Group> = Vec::new();
    for turn in turns {
        let calls = by_turn.remove(&turn.number()).unwrap_or_default();
        match groups.last_mut() {
            Some(group) if is_same(&group.calls, &calls) && group.first.status == turn.status => {
                group.add(&turn);
            }
            _ => groups.push(Group::new(turn, calls)),
        }
    }
    let rest = by_turn.into_iter().map(|(turn, calls)| Group::new(TurnRow::unknown(turn), calls));
    groups.into_iter().chain(rest).map(Group::line).collect()
}

/// The same calls with the same arguments and known, equal results.
fn is_same(a: &[CallRow], b: &[CallRow]) -> bool {
    !a.is_empty()
        && a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            a.result_hash.is_some()
                && (&a.tool_name, &a.args_hash, &a.result_hash)
                    == (&b.tool_name, &b.args_hash, &b.result_hash)
        })
}

fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

impl TurnRow {
    /// 0 where nobody knows.
    fn number(&self) -> u32 {
        self.turn.unwrap_or(0)
    }

    fn unknown(turn: u32) -> Self {
        Self {
            turn: Some(turn),
            latency_ms: None,
            status: None,
            model: None,
            input_tokens: None,
            output_tokens: None,
        }
    }
}

impl Group {
    fn new(first: TurnRow, calls: Vec<CallRow>) -> Self {
        Self {
            last_turn: first.number(),
            times: 1,
            calls,
            input_tokens: first.input_tokens,
            output_tokens: first.output_tokens,
            latency_ms: first.latency_ms,
            first,
        }
    }

    fn add(&mut self, turn: &TurnRow) {
        self.last_turn = turn.number();
        self.times += 1;
        self.input_tokens = sum(self.input_tokens, turn.input_tokens);
        self.output_tokens = sum(self.output_tokens, turn.output_tokens);
        self.latency_ms = sum(self.latency_ms, turn.latency_ms);
    }

    fn line(self) -> TurnLine {
        let status = self.first.status.clone().unwrap_or_default();
        TurnLine {
            turns: match self.times {
                1 => self.first.number().to_string(),
                _ => format!("{}–{}", self.first.number(), self.last_turn),
            },
            times: self.times,
            sign: spell::sign(&status),
            status: spell::text(Some(&status)),
            model: spell::text(self.first.model.as_deref()),
            calls: self.calls.into_iter().map(CallRow::line).collect(),
            tokens: format!("{} → {}", spell::count(self.input_tokens), spell::count(self.output_tokens)),
            latency: spell::duration(self.latency_ms),
        }
    }
}

impl CallRow {
    fn line(self) -> CallLine {
        let status = self.status.unwrap_or_default();
        CallLine {
            tool_name: spell::text(self.tool_name.as_deref()),
            arguments: spell::cut(self.arguments.as_deref().unwrap_or(spell::UNKNOWN), 400),
            result: spell::cut(self.result.as_deref().unwrap_or(spell::UNKNOWN), 400),
            sign: spell::sign(&status),
            status: spell::text(Some(&status)),
            latency: spell::duration(self.latency_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u32) -> TurnRow {
        TurnRow {
            input_tokens: Some(10),
            latency_ms: Some(5.0),
            status: Some("ok".into()),
            ..TurnRow::unknown(number)
        }
    }

    fn call(number: u32, args: &str, result: Option<&str>) -> CallRow {
        CallRow {
            turn: Some(number),
            tool_name: Some("grep".into()),
            arguments: Some(args.into()),
            args_hash: Some(args.into()),
            result: result.map(str::to_owned),
            result_hash: result.map(str::to_owned),
            status: Some("ok".into()),
            latency_ms: None,
        }
    }

    fn told(calls: Vec<CallRow>) -> Vec<String> {
        let turns = calls.iter().map(|call| turn(call.turn.unwrap())).collect();
        lines(turns, calls)
            .iter()
            .map(|line| format!("{} ×{} {}", line.turns, line.times, line.tokens))
            .collect()
    }

    #[test]
    fn identical_turns_in_a_row_are_one_line_with_their_sums() {
        let calls = vec![
            call(1, "x", Some("r")),
            call(2, "x", Some("r")),
            call(3, "x", Some("r")),
            call(4, "y", Some("r")),
        ];
        assert_eq!(told(calls), ["1–3 ×3 30 → –", "4 ×1 10 → –"]);
    }

    #[test]
    fn other_results_and_unknown_results_stay_apart() {
        assert_eq!(told(vec![call(1, "x", Some("r")), call(2, "x", Some("s"))]).len(), 2);
        assert_eq!(told(vec![call(1, "x", None), call(2, "x", None)]).len(), 2);
    }

    #[test]
    fn turns_without_calls_are_never_collapsed_and_calls_without_a_turn_are_shown() {
        assert_eq!(lines(vec![turn(1), turn(2)], Vec::new()).len(), 2);
        let lost = CallRow { turn: None, ..call(1, "x", None) };
        assert_eq!(lines(vec![turn(1)], vec![lost]).len(), 2);
    }
}
