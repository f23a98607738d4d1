//! The tools of one agent, by name, with their schemas compiled.

use super::command::Command;
use super::http::HttpTool;
use super::{Tool, ToolSpec, builtin, reserved};
use crate::agent::Agent;
use crate::config::{AgentConfig, ToolTable};
use jsonschema::Validator;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
    #[error("the {which} schema of tool `{tool}` is no JSON Schema: {why}")]
    Schema {
        /// The tool.
        tool: String,
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The folder of a built-in tool.
    #[error("the root `{}` of tool `{tool}` cannot be opened: {why}", root.display())]
    Root {
        /// The tool.
        tool: String,
        /// The folder.
        root: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// A variable that a tool or server needs.
    #[error("the environment variable {variable} is not set; `{needed_by}` needs it")]
    Variable {
        /// The variable.
        variable: String,
        /// The tool or server.
        needed_by: String,
    },
    /// The client of a tool or server cannot be set up.
    #[error("`{needed_by}` cannot be reached: {why}")]
    Client {
        /// The tool or server.
        needed_by: String,
        /// What is wrong.
        why: String,
    },
    /// A tool that policy requires is not there.
    #[error(
        "`policy.required_tools` names `{tool}`, and there is no such tool; there are: {there}. Nothing was run"
    )]
    Missing {
        /// What is required.
        tool: String,
        /// The names of all tools.
        there: String,
    },
    /// A server did not start or did not list its tools.
    #[error("the MCP server `{server}`: {why}")]
    Server {
        /// Its name.
        server: String,
        /// What happened.
        why: String,
    },
}

/// Looks up environment variables, for keys that tools need.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// A tool; without its body in a replay.
#[derive(Debug)]
struct Entry {
    spec: ToolSpec,
    input: Validator,
    output: Option<Validator>,
    tool: Option<Arc<dyn Tool>>,
}

/// The tools of one agent.
#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    entries: BTreeMap<String, Arc<Entry>>,
    agents: BTreeMap<String, Arc<Agent>>,
}

impl Toolbox {
    /// The tools of `[[tool]]`, for the folder of their file. Those of servers join by [`Self::connect`].
    ///
    /// # Errors
    /// Where names, schemas, folders or keys cannot work.
    pub fn of_config(
        config: &AgentConfig,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ToolboxError> {
        let mut toolbox = Self::default();
        for table in &config.tools {
            if table.agent.is_some() {
                toolbox.insert(ToolSpec::of_table(table), None)?;
                continue;
            }
            let tool: Arc<dyn Tool> = match (&table.http, table.builtin) {
                (Some(http), _) => Arc::new(HttpTool::new(ToolSpec::of_table(table), http, environment)?),
                (None, Some(kind)) => Arc::new(builtin::of_table(kind, table, folder)?),
                (None, None) => Arc::new(Command::new(table, folder)),
            };
            toolbox.add(tool)?;
        }
        Ok(toolbox)
    }

    /// Starts the servers of `[[mcp]]` and adds their tools.
    ///
    /// # Errors
    /// Where a server does not start, or one of its tools cannot be used.
    #[cfg(feature = "mcp")]
    pub async fn connect(
        &mut self,
        config: &AgentConfig,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<(), ToolboxError> {
        let taken = self.names().map(str::to_owned).collect();
        for tool in super::mcp::tools(&config.servers, &taken, folder, environment).await? {
            self.add(tool)?;
        }
        Ok(())
    }

    /// Refuses servers: this build cannot speak to them.
    ///
    /// # Errors
    /// Where the configuration has a server.
    #[cfg(not(feature = "mcp"))]
    #[expect(clippy::unused_async, reason = "the same signature as with the feature")]
    pub async fn connect(
        &mut self,
        config: &AgentConfig,
        _folder: &Path,
        _environment: Environment<'_>,
    ) -> Result<(), ToolboxError> {
        match config.servers.first() {
            None => Ok(()),
            Some(server) => Err(ToolboxError::Server {
                server: server.name.clone(),
                why: "this program was built without MCP; build it with the feature `mcp`".to_owned(),
            }),
        }
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
        if reserved::NAMES.contains(&spec.name.as_str()) {
            return Err(ToolboxError::Reserved(spec.name));
        }
        if self.entries.contains_key(&spec.name) {
            return Err(ToolboxError::Duplicate(spec.name));
        }
        let input = compiled(&spec.name, "input", &spec.input_schema)?;
        let output =
            spec.output_schema.as_ref().map(|schema| compiled(&spec.name, "output", schema)).transpose()?;
        self.entries.insert(spec.name.clone(), Arc::new(Entry { spec, input, output, tool }));
        Ok(())
    }

    /// Only the tools with these names; the others are neither offered nor can they be called.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let mut seen = self.clone();
        seen.entries.retain(|name, _| names.contains(name));
        seen
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

    /// Puts an agent behind the tool of its table.
    ///
    /// # Errors
    /// Where the tool's name cannot work.
    pub fn employ(&mut self, table: &ToolTable, agent: Arc<Agent>) -> Result<(), ToolboxError> {
        let name = table.tool_name();
        if !self.entries.contains_key(name) {
            self.insert(ToolSpec::of_table(table), None)?;
        }
        self.agents.insert(name.to_owned(), agent);
        Ok(())
    }

    /// The agent behind a name, where the tool is one and it is at hand.
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<&Arc<Agent>> {
        self.agents.get(name)
    }

    /// Checks that these tools are there.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn has(&self, required: &[String]) -> Result<(), ToolboxError> {
        match required.iter().find(|name| !self.entries.contains_key(*name)) {
            None => Ok(()),
            Some(tool) => {
                let there = self.names().collect::<Vec<_>>().join(", ");
                Err(ToolboxError::Missing { tool: tool.clone(), there })
            }
        }
    }

    /// Checks arguments against the tool's schema.
    ///
    /// # Errors
    /// What the validator says, for the model to correct itself.
    pub fn validate(&self, name: &str, arguments: &str) -> Result<Value, String> {
        let value: Value =
            serde_json::from_str(arguments).map_err(|why| format!("the arguments are not JSON: {why}"))?;
        match self.entries.get(name).and_then(|entry| complaint(&entry.input, "arguments", &value)) {
            None => Ok(value),
            Some(wrong) => Err(wrong),
        }
    }

    /// Checks what a tool answered against the schema it declares, if it declares one.
    ///
    /// # Errors
    /// What the validator says.
    pub fn validate_answer(&self, name: &str, answer: &str) -> Result<(), String> {
        let Some(output) = self.entries.get(name).and_then(|entry| entry.output.as_ref()) else {
            return Ok(());
        };
        // A schema may ask for text, and text may look like a number.
        let text = Value::from(answer);
        if output.is_valid(&text) {
            return Ok(());
        }
        let value = serde_json::from_str(answer).unwrap_or(text);
        complaint(output, "the answer", &value).map_or(Ok(()), Err)
    }

    /// What the model is not told about the tools: missing descriptions of tools and parameters, one sentence each.
    #[must_use]
    pub fn lint(&self) -> Vec<String> {
        self.entries.values().flat_map(|entry| lint(&entry.spec)).collect()
    }
}

fn compiled(tool: &str, which: &'static str, schema: &Value) -> Result<Validator, ToolboxError> {
    jsonschema::validator_for(schema).map_err(|why| ToolboxError::Schema {
        tool: tool.to_owned(),
        which,
        why: why.to_string(),
    })
}

/// The first few things that are wrong with a value; `None` where nothing is.
fn complaint(schema: &Validator, what: &str, value: &Value) -> Option<String> {
    let wrong: Vec<String> = schema
        .iter_errors(value)
        .take(5)
        .map(|why| match why.instance_path().to_string().as_str() {
            "" => format!("{what}: {why}"),
            place => format!("{place}: {why}"),
        })
        .collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn lint(spec: &ToolSpec) -> Vec<String> {
    let is_said = |text: Option<&str>| text.is_some_and(|text| !text.trim().is_empty());
    let mut found = Vec::new();
    if !is_said(Some(&spec.description)) {
        found.push(format!("tool `{}` has no description: the model cannot tell when to use it", spec.name));
    }
    let parameters = spec.input_schema.get("properties").and_then(Value::as_object);
    for (name, schema) in parameters.into_iter().flatten() {
        if !is_said(schema.get("description").and_then(Value::as_str)) {
            found.push(format!("parameter `{name}` of tool `{}` has no description", spec.name));
        }
    }
    found
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
            output_schema: None,
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
        for name in reserved::NAMES {
            let refused = Toolbox::of_specs(vec![spec(name, json!({}))]);
            assert!(matches!(refused, Err(ToolboxError::Reserved(_))), "{name}");
        }
        let twice = vec![spec("t", json!({})), spec("t", json!({}))];
        assert!(matches!(Toolbox::of_specs(twice), Err(ToolboxError::Duplicate(_))));
        let bad = vec![spec("t", json!({"type": 3}))];
        assert!(matches!(Toolbox::of_specs(bad), Err(ToolboxError::Schema { which: "input", .. })));
        let bad = ToolSpec { output_schema: Some(json!({"type": 3})), ..spec("t", json!({})) };
        assert!(matches!(Toolbox::of_specs(vec![bad]), Err(ToolboxError::Schema { which: "output", .. })));
    }

    #[test]
    fn an_answer_is_held_to_the_declared_schema() {
        let with = |schema| {
            Toolbox::of_specs(vec![ToolSpec { output_schema: schema, ..spec("t", json!({})) }]).unwrap()
        };
        let object = Some(json!({"type":"object","required":["n"]}));
        for (schema, answer, holds) in [
            (None, "anything", true),
            (object.clone(), r#"{"n":1}"#, true),
            (object.clone(), r#"{"m":1}"#, false),
            (object, "prose", false),
            (Some(json!({"type":"string"})), "12", true),
            (Some(json!({"type":"integer"})), "12", true),
            (Some(json!({"type":"integer"})), "twelve", false),
        ] {
            assert_eq!(
                with(schema.clone()).validate_answer("t", answer).is_ok(),
                holds,
                "{schema:?} {answer}"
            );
        }
    }

    #[test]
    fn what_the_model_is_not_told_is_listed() {
        let schema =
            json!({"type":"object","properties":{"a":{"type":"string","description":"An a."},"b":{}}});
        let toolbox = Toolbox::of_specs(vec![spec("t", schema)]).unwrap();
        insta::assert_snapshot!(toolbox.lint().join("\n"), @r"
        tool `t` has no description: the model cannot tell when to use it
        parameter `b` of tool `t` has no description
        ");
    }

    #[test]
    fn a_spec_of_an_older_tape_is_written_back_byte_for_byte() {
        let old = r#"{"name":"t","description":"d","input_schema":{},"risk":"read","effect":"pure","timeout_ms":30000}"#;
        let spec: ToolSpec = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), old);
    }
}
