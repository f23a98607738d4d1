//! A file cut into conversations.

use super::ImportError;
use crate::canonical::canonical;
use crate::id::Hash;
use serde_json::Value;
use std::path::Path;

/// The entries of a file with their numbers, 1-based.
pub(super) fn split(text: &str, path: &Path) -> Result<Vec<(usize, Value)>, ImportError> {
    let failed = |line, source| ImportError::Json { path: path.to_owned(), line, source };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) if !items.is_empty() && !items.iter().all(is_message) => Ok(numbered(items)),
        Ok(Value::Array(items)) if items.is_empty() => Ok(Vec::new()),
        Ok(one) => Ok(vec![(1, one)]),
        // One value a line is JSON lines; otherwise the file is broken where the whole parse says.
        Err(whole) => match text.trim_start().lines().next().map(serde_json::from_str::<Value>) {
            Some(Ok(_)) => lines(text).map_err(|(line, source)| failed(line, source)),
            _ => Err(failed(whole.line(), whole)),
        },
    }
}

/// What the entry is, in every spelling of its JSON.
pub(super) fn content_hash(value: &Value) -> Hash {
    Hash::of(canonical(value).as_bytes())
}

fn numbered(items: Vec<Value>) -> Vec<(usize, Value)> {
    (1..).zip(items).collect()
}

fn lines(text: &str) -> Result<Vec<(usize, Value)>, (usize, serde_json::Error)> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| Ok((number, serde_json::from_str(line).map_err(|why| (number, why))?)))
        .collect()
}

fn is_message(value: &Value) -> bool {
    value.get("role").is_some()
}
