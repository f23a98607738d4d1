//! `cases.jsonl`: one case a line, each a task and what is expected of it.
//!
//! Place in the flow: the suite loads it; the runner gives the input to an agent, scorers read what is expected.

use harness::config::Budget;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use trace::canonical::canonical;
use trace::id::Hash;

/// The largest file of cases that is read, in bytes; larger suites belong into several files.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// One thing an agent is asked to do, and what is expected.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The case's name, unique in its suite; a stored run belongs to it by its `task_id`.
    pub id: String,
    /// The task given to the agent; not needed where only stored runs are judged.
    #[serde(default)]
    pub input: String,
    /// What is expected, in the form the suite's scorers read; absent is not the same as `null`.
    #[serde(default, deserialize_with = "present")]
    pub expected: Option<Value>,
    /// Words to select by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Per scorer name: options laid over the suite's, or `false` to leave the scorer out for this case.
    #[serde(default)]
    pub scorers: BTreeMap<String, Override>,
    /// Keys of the agent's `[budget]` with the values that hold for this case's runs.
    #[serde(default)]
    pub budget: Map<String, Value>,
    /// The line of the file, 1-based; 0 where no file was read.
    #[serde(skip)]
    pub line: usize,
}

/// What a case says about one scorer.
#[derive(Debug, Clone, PartialEq)]
pub enum Override {
    /// The scorer does not judge this case.
    Off,
    /// These options replace the suite's of the same name.
    Options(Map<String, Value>),
}

/// Why a file of cases cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The file cannot be read.
    #[error("{}: cannot be read as text: {source}; check `cases` in the suite", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("{}: has {bytes} bytes, more than {MAX_FILE_BYTES}; split it into several suites", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A line is no case.
    #[error("{}:{line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, 1-based.
        line: usize,
        /// What is wrong and what to do.
        problem: String,
    },
    /// There is no case at all.
    #[error("{}: holds no cases; write one JSON object a line, with at least `id` and `input`", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

impl Case {
    /// A case known only by its name, for stored runs that no file of cases describes.
    #[must_use]
    pub fn named(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            input: String::new(),
            expected: None,
            tags: Vec::new(),
            scorers: BTreeMap::new(),
            budget: Map::new(),
            line: 0,
        }
    }

    /// Identifies what the case asks and expects: equal hashes can be compared across reports.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let scorers: Map<String, Value> =
            self.scorers.iter().map(|(name, one)| (name.clone(), one.to_json())).collect();
        // An absent expectation is an empty list and a present one a list of one, so `null` differs from none.
        let expected: Vec<&Value> = self.expected.iter().collect();
        let whole =
            json!({"input": self.input, "expected": expected, "scorers": scorers, "budget": self.budget});
        Hash::of(canonical(&whole).as_bytes())
    }
}

impl Override {
    fn to_json(&self) -> Value {
        match self {
            Self::Off => Value::Bool(false),
            Self::Options(options) => Value::Object(options.clone()),
        }
    }
}

impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(false) => Ok(Self::Off),
            Value::Object(options) => Ok(Self::Options(options)),
            _ => Err(serde::de::Error::custom("a scorer's entry must be an object of options, or `false`")),
        }
    }
}

/// The agent's budget with the case's values laid over it.
///
/// # Errors
/// Where a key is unknown or a value is of the wrong type.
pub fn budgeted(budget: &Budget, changed: &Map<String, Value>) -> Result<Budget, serde_json::Error> {
    let mut whole = serde_json::to_value(budget)?;
    if let Value::Object(keys) = &mut whole {
        keys.extend(changed.clone());
    }
    serde_json::from_value(whole)
}

/// Keeps `"expected": null` apart from no `expected`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads all cases of a file.
///
/// # Errors
/// Where the file is unreadable, too large or empty, a line is no case, or two cases share an id.
pub fn load(file: &Path) -> Result<Vec<Case>, CaseError> {
    let unreadable = |source| CaseError::Read { file: file.to_owned(), source };
    let bytes = std::fs::metadata(file).map_err(unreadable)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(CaseError::TooLarge { file: file.to_owned(), bytes });
    }
    parse(file, &std::fs::read_to_string(file).map_err(unreadable)?)
}

/// Parses the text of a file of cases; `file` is only named in errors.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &Path, text: &str) -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    let mut first_lines = HashMap::new();
    for (index, text) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let line = index + 1;
        let at_line = |problem| CaseError::Line { file: file.to_owned(), line, problem };
        let case = parse_line(text, line).map_err(at_line)?;
        if let Some(first) = first_lines.insert(case.id.clone(), line) {
            return Err(at_line(format!(
                "id `{}` is already used on line {first}; ids must differ",
                case.id
            )));
        }
        cases.push(case);
    }
    match cases.is_empty() {
        true => Err(CaseError::Empty { file: file.to_owned() }),
        false => Ok(cases),
    }
}

fn parse_line(text: &str, line: usize) -> Result<Case, String> {
    // The column is kept; the line is always 1, for each line is parsed by itself.
    let mut case: Case = serde_json::from_str(text)
        .map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))?;
    if case.id.trim().is_empty() {
        return Err("`id` is empty; give the case a name".to_owned());
    }
    budgeted(&Budget::default(), &case.budget).map_err(|problem| format!("`budget`: {problem}"))?;
    case.line = line;
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> String {
        parse(Path::new("cases.jsonl"), text).unwrap_err().to_string()
    }

    #[test]
    fn a_case_needs_only_its_id_and_blank_lines_are_nothing() {
        let cases = parse(Path::new("c"), "\u{feff}\n{\"id\":\"a\",\"input\":\"hello\"}\n\n{\"id\":\"b\"}\n")
            .unwrap();
        assert_eq!((cases.len(), cases[0].line, cases[1].line), (2, 2, 4));
        assert_eq!(cases[0].expected, None);
    }

    #[test]
    fn an_expected_null_is_an_expectation() {
        let cases = parse(Path::new("c"), "{\"id\":\"a\",\"expected\":null}\n{\"id\":\"b\"}").unwrap();
        assert_eq!(cases[0].expected, Some(Value::Null));
        assert_ne!(cases[0].hash(), cases[1].hash());
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_line() {
        insta::assert_snapshot!(problem("{\"id\":\"a\"}\n{\"id\":\"a\"}"), @"cases.jsonl:2: id `a` is already used on line 1; ids must differ");
        insta::assert_snapshot!(problem("{\"id\":1}"), @"cases.jsonl:1: invalid type: integer `1`, expected a string at column 7");
        insta::assert_snapshot!(problem("{\"id\":\"a\"}\n{\"id\":"), @"cases.jsonl:2: EOF while parsing a value at column 6");
        insta::assert_snapshot!(problem("\n{\"id\":\"a\",\"budget\":{\"turns\":1}}"), @"cases.jsonl:2: `budget`: unknown field `turns`, expected one of `preset`, `max_model_turns`, `max_tool_calls`, `max_calls_per_tool`, `max_parallel_tool_calls`, `max_wall_time_seconds`, `max_input_tokens`, `max_output_tokens`, `max_total_tokens`, `max_total_cost`, `max_tool_result_chars`, `max_retries_per_model_call`, `max_retries_per_tool_call`, `max_errors`, `reserve`");
        insta::assert_snapshot!(problem("{\"id\":\"a\",\"expect\":1}"), @"cases.jsonl:1: unknown field `expect`, expected one of `id`, `input`, `expected`, `tags`, `scorers`, `budget` at column 18");
        insta::assert_snapshot!(problem("{\"id\":\"a\",\"scorers\":{\"answer\":true}}"), @"cases.jsonl:1: a scorer's entry must be an object of options, or `false` at column 35");
        insta::assert_snapshot!(problem("{\"id\":\" \"}"), @"cases.jsonl:1: `id` is empty; give the case a name");
        insta::assert_snapshot!(problem("\n  \n"), @"cases.jsonl: holds no cases; write one JSON object a line, with at least `id` and `input`");
    }

    #[test]
    fn a_case_changes_only_the_keys_of_the_budget_that_it_names() {
        let changed = json!({"max_model_turns": 3}).as_object().unwrap().clone();
        let budget = budgeted(&Budget::default(), &changed).unwrap();
        assert_eq!(budget, Budget { max_model_turns: 3, ..Budget::default() });
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("no/such/cases.jsonl")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/cases.jsonl: cannot be read"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[\\[\\]{}\",:a-z0-9\n ]{0,60}") {
            let _ = parse(Path::new("c"), &text);
        }
    }
}
