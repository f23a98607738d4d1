//! Where two runs part: the first difference, with turn, message and pointer.
//!
//! Place in the flow: an exact replay names a [`Mismatch`], a live replay a [`Divergence`].

use serde::Serialize;
use serde_json::Value;
use trace::canonical::canonical_text;
use trace::fact::Fact;
use trace::message::{joined_text, tool_calls};
use trace::tape::Tape;

/// The first place where an exact replay is not the recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Turn, 1-based; 0 before the first; `None` at the end of the run.
    pub turn: Option<u32>,
    /// Line of the tape, 1-based as editors count.
    pub line: u64,
    /// The kind of fact, such as `model_asked`.
    pub fact: String,
    /// JSON pointer: into the request body where the request differs, else into the fact.
    pub pointer: String,
    /// What the tape has there, shortened.
    pub recorded: String,
    /// What the replay has there, shortened.
    pub rebuilt: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let turn = self.turn.map_or_else(|| "at the end".to_owned(), |turn| format!("turn {turn}"));
        write!(
            f,
            "{turn}, line {} ({}), {}: recorded {}, rebuilt {}",
            self.line, self.fact, self.pointer, self.recorded, self.rebuilt
        )
    }
}

/// The first difference between two JSON values: pointer, left, right. Absent members show as `(absent)`.
#[must_use]
pub fn first_difference(left: &Value, right: &Value) -> Option<(String, String, String)> {
    all_differences(left, right).into_iter().next()
}

/// All differences between two JSON values, in document order.
#[must_use]
pub fn all_differences(left: &Value, right: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    walk(&mut String::new(), Some(left), Some(right), &mut found);
    found
}

type Found = Vec<(String, String, String)>;

fn walk(pointer: &mut String, left: Option<&Value>, right: Option<&Value>, found: &mut Found) {
    match (left, right) {
        (Some(left), Some(right)) if left == right => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                step(pointer, &key.replace('~', "~0").replace('/', "~1"), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                step(pointer, &index.to_string(), a.get(index), b.get(index), found);
            }
        }
        _ => found.push((pointer.clone(), short(left), short(right))),
    }
}

fn step(pointer: &mut String, token: &str, left: Option<&Value>, right: Option<&Value>, found: &mut Found) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(token);
    walk(pointer, left, right, found);
    pointer.truncate(length);
}

fn short(value: Option<&Value>) -> String {
    value.map_or_else(
        || "(absent)".to_owned(),
        |value| harness::machine::finish::clip(&value.to_string(), 120),
    )
}

/// What a run did on one turn, as far as two runs are compared by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Move {
    /// Turn, 1-based.
    pub turn: u32,
    /// Tools asked for, each with its canonical arguments.
    pub calls: Vec<(String, String)>,
    /// What was said beside them.
    pub text: String,
}

/// The first turn on which a replay acts otherwise than the recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Turn, 1-based.
    pub turn: u32,
    /// What differs: `tool`, `arguments`, `batch`, `text`, `missing` or `extra`.
    pub kind: &'static str,
    /// What the recorded run did.
    pub recorded: String,
    /// What the replay did.
    pub replayed: String,
}

/// The moves of a recorded run.
#[must_use]
pub fn moves(tape: &Tape) -> Vec<Move> {
    tape.lines()
        .iter()
        .filter_map(|line| match &line.fact {
            Fact::ModelAnswered(fact) => {
                let parts = &fact.response.as_ref()?.parts;
                let calls = tool_calls(parts)
                    .map(|call| (call.tool_name.clone(), canonical_text(&call.arguments)))
                    .collect();
                Some(Move { turn: fact.turn, calls, text: joined_text(parts) })
            }
            _ => None,
        })
        .collect()
}

/// The first difference between two runs' moves. The text beside equal calls is not a difference.
#[must_use]
pub fn diverge(recorded: &[Move], replayed: &[Move]) -> Option<Divergence> {
    for index in 0..recorded.len().max(replayed.len()) {
        let (a, b) = (recorded.get(index), replayed.get(index));
        let kind = match (a, b) {
            (Some(a), Some(b)) => kind(a, b),
            (Some(_), None) => Some("missing"),
            (None, _) => Some("extra"),
        };
        if let Some(kind) = kind {
            let turn = a.or(b).map_or(0, |one| one.turn);
            return Some(Divergence { turn, kind, recorded: tell(a), replayed: tell(b) });
        }
    }
    None
}

fn kind(a: &Move, b: &Move) -> Option<&'static str> {
    let names = |one: &Move| one.calls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    match () {
        () if a.calls.len() != b.calls.len() => Some("batch"),
        () if names(a) != names(b) => Some("tool"),
        () if a.calls != b.calls => Some("arguments"),
        () if a.calls.is_empty() && a.text != b.text => Some("text"),
        () => None,
    }
}

fn tell(one: Option<&Move>) -> String {
    let Some(one) = one else { return "(nothing)".to_owned() };
    let calls: Vec<String> = one.calls.iter().map(|(name, arguments)| format!("{name}{arguments}")).collect();
    harness::machine::finish::clip(&if calls.is_empty() { one.text.clone() } else { calls.join(" ") }, 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_named_by_pointer_in_document_order() {
        let a = json!({"messages": [{"role": "user", "content": "a"}], "n": 1});
        let b = json!({"messages": [{"role": "user", "content": "b"}, {}], "a/b": 2, "n": 1});
        let pointers: Vec<String> =
            all_differences(&a, &b).into_iter().map(|(pointer, ..)| pointer).collect();
        assert_eq!(pointers, ["/messages/0/content", "/messages/1", "/a~1b"]);
        assert_eq!(first_difference(&a, &a), None);
    }

    #[test]
    fn runs_part_where_their_calls_do() {
        let one = |turn, name: &str, arguments: &str, text: &str| Move {
            turn,
            calls: (!name.is_empty()).then(|| (name.to_owned(), arguments.to_owned())).into_iter().collect(),
            text: text.to_owned(),
        };
        let recorded = [one(1, "get", "{}", "hm"), one(2, "", "", "done")];
        for (name, replayed, wanted) in [
            ("the same", vec![one(1, "get", "{}", "other words"), one(2, "", "", "done")], None),
            ("another tool", vec![one(1, "put", "{}", "")], Some((1, "tool"))),
            ("other arguments", vec![one(1, "get", "{\"a\":1}", "")], Some((1, "arguments"))),
            ("another answer", vec![one(1, "get", "{}", ""), one(2, "", "", "no")], Some((2, "text"))),
            ("too short", vec![one(1, "get", "{}", "")], Some((2, "missing"))),
        ] {
            let found = diverge(&recorded, &replayed).map(|found| (found.turn, found.kind));
            assert_eq!(found, wanted, "{name}");
        }
    }
}
