//! No recorded value can be changed unnoticed: every value of every line of every kind of tape is forged, once
//! without sealing the tape again, which `verify` finds, and once sealed so well that `verify` passes, which only a
//! replay can find.

use crate::replay::gallery;
use crate::reseal::{Leaf, OpenLines};
use replay::exact::exact;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trace::fact::{Ruling, Wants, Way};
use trace::outcome::{FailureStage, FaultClass, RunStatus, StopReason, ToolStatus};
use trace::tape::{Tape, TapeError, verify};

#[tokio::test]
async fn a_changed_byte_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.tape");
    let mut forged = 0;
    for (name, run) in gallery().await {
        let sealed = OpenLines::read(&run.path).sealed();
        let lines: Vec<&str> = sealed.lines().collect();
        for index in 0..lines.len() {
            let whole = OpenLines(lines.iter().map(|line| line.trim_end_matches('}').to_owned()).collect());
            for leaf in open_leaves(lines[index]) {
                let Some(value) =
                    candidates(&whole, index, &lines[index][leaf.place.clone()]).into_iter().next()
                else {
                    continue;
                };
                let mut line = lines[index].to_owned();
                line.replace_range(leaf.place.clone(), &value);
                let mut text: Vec<&str> = lines.clone();
                text[index] = &line;
                std::fs::write(&path, text.join("\n") + "\n").unwrap();
                match verify(&path) {
                    Err(TapeError::Damaged { line, .. }) => {
                        assert_eq!(line, index as u64 + 1, "{name}: {}", leaf.pointer);
                    }
                    other => panic!("{name}, line {}, {}: {other:?}", index + 1, leaf.pointer),
                }
                forged += 1;
            }
        }
    }
    assert!(forged > 2_000, "only {forged} values were changed");
    println!("{forged} changed values, each named by its line");
}

fn open_leaves(line: &str) -> Vec<Leaf> {
    OpenLines(vec![line[..line.len() - 1].to_owned()]).leaves(0)
}

/// What another value of the same type could be; the first that reading and `verify` accept is taken.
fn candidates(lines: &OpenLines, index: usize, value: &str) -> Vec<String> {
    let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return match value {
            "true" => vec!["false".to_owned()],
            "false" => vec!["true".to_owned()],
            number if number.contains('.') => vec![format!("{number}5")],
            number => vec![format!("{}", number.parse::<i64>().unwrap() + 1)],
        };
    };
    let mut found = Vec::new();
    if let Some(last) = text.chars().last().filter(char::is_ascii_hexdigit) {
        found.push(format!("{}{}", &text[..text.len() - 1], if last == '0' { '1' } else { '0' }));
    }
    if text.len() == 64 {
        let before = (0..index).filter(|one| lines.0[*one].contains("\"type\":\"blob\""));
        found.extend(
            before.filter_map(|one| Some(blob_name(&lines.0[one])?.to_owned())).filter(|name| name != text),
        );
    }
    found.push(format!("{text}x"));
    found.extend(words().filter(|word| *word != text).map(str::to_owned));
    found.into_iter().map(|text| format!("\"{text}\"")).collect()
}

fn blob_name(line: &str) -> Option<&str> {
    Some(line.split_once("\"hash\":\"")?.1.split_once('"')?.0)
}

/// Words of the vocabulary, where free text is not accepted.
fn words() -> impl Iterator<Item = &'static str> {
    let roles = ["system", "user", "assistant", "tool", "end_turn", "tool_use", "length"];
    roles
        .into_iter()
        .chain(StopReason::ALL.iter().map(|one| one.as_str()))
        .chain(RunStatus::ALL.iter().map(|one| one.as_str()))
        .chain(ToolStatus::ALL.iter().map(|one| one.as_str()))
        .chain(FailureStage::ALL.iter().map(|one| one.as_str()))
        .chain(FaultClass::ALL.iter().map(|one| one.as_str()))
        .chain(Wants::ALL.iter().map(|one| one.as_str()))
        .chain(Ruling::ALL.iter().map(|one| one.as_str()))
        .chain(Way::ALL.iter().map(|one| one.as_str()))
}

/// How many values of one class are forged on one tape: a stream has hundreds of chunks.
const OF_A_CLASS: usize = 4;

/// What became of the forgeries of one class of values, such as `tool_finished /status`.
#[derive(Debug, Default)]
struct Tally {
    /// Found by the replay, and named.
    named: usize,
    /// Values for which no other passes `verify`: there is nothing to find.
    barred: usize,
}

/// A forged tape and what of it was forged.
struct Forgery<'a> {
    path: &'a Path,
    /// The line that holds what was changed, or first names the blob that was; 1-based.
    line: u64,
    /// The fact there, as it was.
    was: Value,
    pointer: &'a str,
    place: String,
}

#[tokio::test]
async fn a_forged_and_sealed_value_is_found_by_replay_at_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.tape");
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (name, run) in gallery().await {
        let lines = OpenLines::read(&run.path);
        let mut of_class: BTreeMap<String, usize> = BTreeMap::new();
        // Line 1 is the header: the program that wrote the tape and the name of its key. Neither happened in the run,
        // nothing is derived from them, and a replay by another program must not object to them.
        for index in 1..lines.0.len() {
            let kind = lines.kind(index);
            if kind == "blob" {
                forge_content(&lines, index, &path, name, tallies.entry("blob".to_owned()).or_default())
                    .await;
                continue;
            }
            for leaf in lines.leaves(index) {
                let class = format!("{kind} {}", class_of(&leaf.pointer));
                let count = of_class.entry(class.clone()).or_default();
                *count += 1;
                if *count <= OF_A_CLASS {
                    forge_value(&lines, index, &leaf, &path, name, tallies.entry(class).or_default()).await;
                }
            }
        }
    }
    let named: usize = tallies.values().map(|tally| tally.named).sum();
    println!("{named} forgeries of {} classes of values, each named by replay", tallies.len());
    assert!(named > 1_500 && tallies.len() > 100, "{named} forgeries of {} classes", tallies.len());
    for (class, tally) in &tallies {
        // Another number of the line, another kind of fact or part, the key of another call, an answer to a question
        // that was not asked, or a history that is no list of messages make no tape.
        let may_be_barred = ["person_asked /token", "person_answered /token"].contains(&class.as_str())
            || class.ends_with("/history")
            || class.ends_with("/seq")
            || class.ends_with("/type")
            || class.starts_with("tool_finished /key");
        assert!(
            tally.barred == 0 || may_be_barred,
            "{class}: no other value passes verify, so nothing was tested"
        );
    }
}

fn class_of(pointer: &str) -> String {
    let steps = pointer.split('/').map(|step| if step.parse::<usize>().is_ok() { "*" } else { step });
    steps.collect::<Vec<_>>().join("/")
}

async fn forge_value(
    lines: &OpenLines,
    index: usize,
    leaf: &Leaf,
    path: &Path,
    name: &str,
    tally: &mut Tally,
) {
    let value = lines.0[index][leaf.place.clone()].to_owned();
    let mut others = candidates(lines, index, &value);
    if leaf.pointer == "/at" && lines.kind(index) == "run_ended" {
        // The last line has no line after it that could list its digest. Its time is in the run's duration, which is
        // told in milliseconds: so it can be forged by less than one, and by no more.
        others = vec![(value.parse::<i64>().unwrap() + 1_000_000).to_string()];
    }
    for other in others {
        std::fs::write(path, lines.changed(index, leaf, &other).sealed()).unwrap();
        if !matches!(verify(path), Ok((_, problems)) if problems.is_empty()) {
            continue;
        }
        let place = format!("{name}, line {}, {} to {other}", index + 1, leaf.pointer);
        let (line, was) = (index as u64 + 1, lines.value(index));
        must_be_named(&Forgery { path, line, was, pointer: &leaf.pointer, place }).await;
        tally.named += 1;
        return;
    }
    tally.barred += 1;
}

async fn forge_content(lines: &OpenLines, index: usize, path: &Path, name: &str, tally: &mut Tally) {
    let blob = lines.value(index);
    let content = blob["text"].as_str().unwrap();
    let hash = blob["hash"].as_str().unwrap();
    let user = (index + 1..lines.0.len()).find(|one| lines.0[*one].contains(hash)).unwrap();
    let was = lines.value(user);
    let members = was.as_object().unwrap().iter();
    let pointer = members.filter(|(_, value)| *value == hash).map(|(member, _)| format!("/{member}")).next();
    // A letter in the middle, so that JSON stays JSON as a rule, and white space at the end, which JSON ignores.
    let letters = content.char_indices().filter(|(_, one)| one.is_ascii_lowercase());
    let letters: Vec<usize> = letters.map(|(at, _)| at).collect();
    let mut letter = content.to_owned();
    if let Some(at) = letters.get(letters.len() / 2) {
        letter.replace_range(at..=at, "Q");
    }
    for other in [letter, format!("{content} ")] {
        if other == content {
            continue;
        }
        std::fs::write(path, lines.with_content(index, &other).sealed()).unwrap();
        assert!(
            matches!(verify(path), Ok((_, problems)) if problems.is_empty()),
            "{name}, line {}",
            index + 1
        );
        let place = format!("{name}, content of line {}", index + 1);
        let pointer = pointer.as_deref().unwrap_or("/fragments");
        must_be_named(&Forgery { path, line: user as u64 + 1, was: was.clone(), pointer, place }).await;
        tally.named += 1;
    }
}

/// Replays a forged tape; what was forged must be named at its turn, with a pointer.
async fn must_be_named(forgery: &Forgery<'_>) {
    let Forgery { path, line, was, pointer, place } = forgery;
    let turn = was["turn"].as_u64().or_else(|| was["key"]["turn"].as_u64());
    let turn = turn.or_else(|| (was["type"] == "run_started").then_some(0));
    let mismatch = match exact(Arc::new(Tape::read(path).unwrap())).await {
        Ok(found) => found.mismatch.unwrap_or_else(|| panic!("{place}: not found")),
        Err(why) => {
            // Configuration and tools that are none cannot be replayed at all, and the message says which of the two.
            let which = if *pointer == "/config" { "the configuration" } else { "the tools" };
            assert!(
                ["/config", "/tools"].contains(pointer) && why.to_string().contains(which),
                "{place}: {why}"
            );
            return;
        }
    };
    assert!(mismatch.pointer.starts_with('/'), "{place}: {mismatch}");
    let at_its_line = mismatch.line == *line;
    let at_its_turn = mismatch.turn.map(u64::from) == turn;
    // A digest that no longer fits is told of the line it was taken of, which stands before.
    let of_a_digest = pointer.starts_with("/heard/") && mismatch.line < *line && mismatch.pointer == "/";
    // What the loop hands on unread is wrong where it is first used: the next fact that is rebuilt from it.
    let handed_on = [
        "/config",
        "/tools",
        "/task",
        "/history",
        "/status",
        "/result",
        "/fault/message",
        "/prompt",
        "/said",
        "/wants",
    ]
    .contains(pointer)
        && mismatch.line > *line;
    assert!(at_its_line || at_its_turn || of_a_digest || handed_on, "{place}: {mismatch}");
}
