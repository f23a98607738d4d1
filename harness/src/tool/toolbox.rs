//! The tools of one agent, by name, with their schemas compiled.

use super::{Tool, ToolSpec, command::Command};
use crate::config::AgentConfig;
use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Why a set of tools cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// Two tools with one name.
    #[error("two tools are named `{0}`")]
    Duplicate(String),
    /// The name belongs to the loop.
    #[error("`{0}` is reserved: the loop itself answers to it; rename the tool")]
    Reserved(String),
    /// The schema is no JSON Schema.
    #[error("the input schema of tool `{tool}` is no JSON Schema: {why}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong.
        why: String,
    },
}

/// Names that no tool of a user may have.
const RESERVED: [&str; 2] = ["final_answer", "cannot_complete"];

/// A tool without its body: what a replay has.
#[derive(Debug)]
struct Entry {
    spec: ToolSpec,
    schema: Validator,
    tool: Option<Arc<dyn Tool>>,
}

/// The tools of one agent.
#[derive(Debug, Default)]
pub struct Toolbox {
    entries: BTreeMap<String, Entry>,
}

impl Toolbox {
    /// The command tools of a configuration, run in the folder of its file.
    ///
    /// # Errors
    /// Where names or schemas cannot work.
    pub fn of_config(config: &AgentConfig, folder: &Path) -> Result<Self, ToolboxError> {
        let mut toolbox = Self::default();
        for tool in &config.tools {
            toolbox.add(Arc::new(Command::new(tool, folder)))?;
        }
        Ok(toolbox)
    }

    /// Tools that are known but not at hand, as a tape tells of them.
    ///
    /// # Errors
    /// Where names or schemas cannot work.
    pub fn of_specs(specs: Vec<ToolSpec>) -> Result<Self, ToolboxError> {
        let mut toolbox = Self::default();
        for spec in specs {
            toolbox.insert(spec, None)?;
        }
        Ok(toolbox)
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Where its name or schema cannot work.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        self.insert(tool.spec().clone(), Some(tool))
    }

    fn insert(&mut self, spec: ToolSpec, tool: Option<Arc<dyn Tool>>) -> Result<(), ToolboxError> {
        if RESERVED.contains(&spec.name.as_str()) {
            return Err(ToolboxError::Reserved(spec.name));
        }
        if self.entries.contains_key(&spec.name) {
            return Err(ToolboxError::Duplicate(spec.name));
        }
        let schema = jsonschema::validator_for(&spec.input_schema)
            .map_err(|why| ToolboxError::Schema { tool: spec.name.clone(), why: why.to_string() })?;
        self.entries.insert(spec.name.clone(), Entry { spec, schema, tool });
        Ok(())
    }

    /// All specifications, by name.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.entries.values().map(|entry| entry.spec.clone()).collect()
    }

    /// The names of all tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// What is known of a tool.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.entries.get(name).map(|entry| &entry.spec)
    }

    /// The tool itself, where it is at hand.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entries.get(name)?.tool.as_ref()
    }

    /// Checks arguments against the tool's schema.
    ///
    /// # Errors
    /// What the validator says, for the model to correct itself.
    pub fn validate(&self, name: &str, arguments: &str) -> Result<Value, String> {
        let value: Value =
            serde_json::from_str(arguments).map_err(|why| format!("the arguments are not JSON: {why}"))?;
        let Some(entry) = self.entries.get(name) else { return Ok(value) };
        let wrong: Vec<String> =
            entry.schema.iter_errors(&value).take(5).map(|why| format!("{}: {why}", place(&why.instance_path().to_string()))).collect();
        match wrong.is_empty() {
            true => Ok(value),
            false => Err(wrong.join("; ")),
        }
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "arguments" } else { pointer }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, Risk};
    use super::*;
    use serde_json::json;

    fn spec(name: &str, schema: Value) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: schema,
            risk: Risk::Read,
            effect: Effect::Pure,
            timeout_ms: 1000,
        }
    }

    #[test]
    fn arguments_are_checked_and_the_place_is_named() {
        let schema = json!({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]});
        let toolbox = Toolbox::of_specs(vec![spec("t", schema)]).unwrap();
        assert!(toolbox.validate("t", r#"{"n":1}"#).is_ok());
        assert!(toolbox.validate("t", r#"{"n":"x"}"#).unwrap_err().contains("/n"));
        assert!(toolbox.validate("t", "{}").unwrap_err().contains("\"n\""));
        assert!(toolbox.validate("t", "{oops").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn reserved_and_double_names_and_bad_schemas_are_refused() {
        assert!(matches!(Toolbox::of_specs(vec![spec("final_answer", json!({}))]), Err(ToolboxError::Reserved(_))));
        let twice = vec![spec("t", json!({})), spec("t", json!({}))];
        assert!(matches!(Toolbox::of_specs(twice), Err(ToolboxError::Duplicate(_))));
        let bad = vec![spec("t", json!({"type": 3}))];
        assert!(matches!(Toolbox::of_specs(bad), Err(ToolboxError::Schema { .. })));
    }
}
