//! From a text a person typed to the one run that is meant.

use crate::id::RunId;
use crate::store::Table;
use serde_json::Value;

/// The text names no run, or several.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No run.
    #[error("there is no run `{text}`; `loopdeck runs` lists them")]
    None {
        /// What was looked for.
        text: String,
    },
    /// Several runs.
    #[error("`{text}` is the start of several runs: {}", candidates.join(", "))]
    Several {
        /// What was looked for.
        text: String,
        /// Some of them.
        candidates: Vec<String>,
    },
}

/// The run that is meant, from the answer to [`super::find_run`].
///
/// # Errors
/// When it is none or several.
pub fn one_run(text: &str, answer: &Table) -> Result<RunId, FindError> {
    let found: Vec<String> = answer.column("run_id").filter_map(Value::as_str).map(str::to_owned).collect();
    match found.as_slice() {
        [] => Err(FindError::None { text: text.to_owned() }),
        [one] => Ok(RunId::new(one.clone())),
        _ => Err(FindError::Several { text: text.to_owned(), candidates: found }),
    }
}
