//! `[[tool]]` and `[[mcp]]` of agent.toml: what a tool is made of, and which keys go together.
//!
//! Place in the flow: [`super::AgentConfig`] holds the tables, [`crate::tool::Toolbox`] makes tools of them. A
//! secret is never in a table: a table names the environment variable that holds it.

use crate::tool::{Effect, Risk};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How long a tool may take where its table does not say, in seconds.
const TIMEOUT_SECONDS: u64 = 30;
/// The same for an agent, which is as long as a run may take by default.
const AGENT_TIMEOUT_SECONDS: u64 = 600;
/// Longest name of a tool that every provider takes.
const MAX_NAME_CHARS: usize = 64;

/// `[[tool]]`: exactly one of `command`, `builtin`, `http` and `agent`, and the keys that go with it.
///
/// The order of the fields is the order on tapes; new ones come last and are left out where absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolTable {
    /// Name; a built-in tool without one has its own.
    #[serde(default)]
    pub name: String,
    /// What it does, for the model; a built-in tool without one has its own.
    #[serde(default)]
    pub description: String,
    /// Program and arguments; run without a shell, in the folder of agent.toml.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// What it can do; as for programs where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Whether it may be repeated; not at all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// How long it may take, in seconds; 30 where absent, and 600 for an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// JSON Schema of what it answers; an answer that breaks it is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// A tool that loopdeck brings along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Builtin>,
    /// The folder that a built-in tool cannot leave, seen from the folder of agent.toml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// The programs that `run_program` may start; no other can be started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Environment variables that these programs see beside the usual few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// An HTTP endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTable>,
    /// Another agent: its agent.toml, seen from the folder of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<PathBuf>,
}

/// The tools that loopdeck brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Reads a text file.
    ReadFile,
    /// Lists a folder.
    ListFiles,
    /// Searches text files.
    SearchFiles,
    /// Writes a text file.
    WriteFile,
    /// Runs one of the named programs.
    RunProgram,
}

impl Builtin {
    /// Its name where the table gives none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::ListFiles => "list_files",
            Self::SearchFiles => "search_files",
            Self::WriteFile => "write_file",
            Self::RunProgram => "run_program",
        }
    }
}

/// `http = { method, url }` of a `[[tool]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTable {
    /// The method.
    pub method: Method,
    /// The whole address; arguments become its query or the body, never its host or path.
    pub url: String,
    /// The environment variable that holds the bearer token; absent where none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_env: Option<String>,
}

/// HTTP methods: GET and DELETE carry the arguments as query, the others as JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Arguments in the query.
    Get,
    /// Arguments in the query.
    Delete,
    /// Arguments in the body.
    Post,
    /// Arguments in the body.
    Put,
    /// Arguments in the body.
    Patch,
}

/// `[[mcp]]`: a server of the Model Context Protocol, by `command` (child process) or by `url` (streamable HTTP).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTable {
    /// Name of the server; the prefix of its tools where two would have one name.
    pub name: String,
    /// Program and arguments; run without a shell, in the folder of agent.toml.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Environment variables that the program sees beside the usual few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The address of its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The environment variable that holds the bearer token for `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_env: Option<String>,
    /// The tools to offer, by the server's names for them; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// How long a call may take, in seconds.
    #[serde(default = "default_timeout", skip_serializing_if = "is_default_timeout")]
    pub timeout_seconds: u64,
    /// How long the server may take to start and to list its tools, in seconds.
    #[serde(default = "default_timeout", skip_serializing_if = "is_default_timeout")]
    pub start_timeout_seconds: u64,
}

const fn default_timeout() -> u64 {
    TIMEOUT_SECONDS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_default_timeout(seconds: &u64) -> bool {
    *seconds == TIMEOUT_SECONDS
}

impl ToolTable {
    /// The name the model sees.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        match self.builtin {
            Some(builtin) if self.name.is_empty() => builtin.name(),
            _ => &self.name,
        }
    }

    /// How long it may take, in milliseconds.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        let usual = if self.agent.is_some() { AGENT_TIMEOUT_SECONDS } else { TIMEOUT_SECONDS };
        self.timeout_seconds.unwrap_or(usual).saturating_mul(1000)
    }

    fn check(&self) -> Result<(), Wrong> {
        let kinds =
            [!self.command.is_empty(), self.builtin.is_some(), self.http.is_some(), self.agent.is_some()];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            return wrong("command", "give exactly one of `command`, `builtin`, `http` and `agent`");
        }
        let name = self.tool_name();
        if !is_name(name) {
            return wrong("name", NAME);
        }
        match self.builtin {
            Some(builtin) => self.check_builtin(builtin),
            None => self.check_own(),
        }
    }

    fn check_builtin(&self, builtin: Builtin) -> Result<(), Wrong> {
        let set = [
            ("input_schema", self.input_schema.is_some()),
            ("output_schema", self.output_schema.is_some()),
            ("risk", self.risk.is_some()),
            ("effect", self.effect.is_some()),
        ];
        if let Some((field, _)) = set.into_iter().find(|(_, given)| *given) {
            return wrong(field, "a built-in tool declares this itself; remove the key");
        }
        if self.root.is_none() {
            return wrong(
                "root",
                "is missing; name the folder that the tool cannot leave, for example \".\"",
            );
        }
        let runs = builtin == Builtin::RunProgram;
        if runs && self.programs.is_empty() {
            return wrong(
                "programs",
                "is missing; name the programs that may be run, for example [\"cargo\"]",
            );
        }
        let names_programs = !self.programs.is_empty() || !self.env.is_empty();
        if names_programs && !runs {
            return wrong("programs", "`programs` and `env` belong to builtin = \"run_program\" alone");
        }
        Ok(())
    }

    fn check_own(&self) -> Result<(), Wrong> {
        let set = [
            ("root", self.root.is_some()),
            ("programs", !self.programs.is_empty()),
            ("env", !self.env.is_empty()),
        ];
        if let Some((field, _)) = set.into_iter().find(|(_, given)| *given) {
            return wrong(field, "belongs to built-in tools; remove the key");
        }
        if self.agent.is_some() {
            let set = [
                ("input_schema", self.input_schema.is_some()),
                ("output_schema", self.output_schema.is_some()),
            ];
            return match set.into_iter().find(|(_, given)| *given) {
                Some((field, _)) => {
                    wrong(field, "an agent is given a task and answers with text; remove the key")
                }
                None => Ok(()),
            };
        }
        if self.input_schema.is_none() {
            return wrong("input_schema", "is missing; give the JSON Schema of the arguments");
        }
        match &self.http {
            Some(http) => check_url("http.url", &http.url),
            None => Ok(()),
        }
    }
}

impl McpTable {
    fn check(&self) -> Result<(), Wrong> {
        if !is_name(&self.name) {
            return wrong("name", NAME);
        }
        match (&self.url, self.command.is_empty()) {
            (Some(url), true) if self.env.is_empty() => check_url("url", url),
            (Some(_), true) => wrong("env", "belongs to `command`; remove the key"),
            (None, false) if self.bearer_env.is_none() => Ok(()),
            (None, false) => wrong("bearer_env", "belongs to `url`; a program is given its keys by `env`"),
            _ => wrong("command", "give exactly one of `command` and `url`"),
        }
    }
}

/// A key within a table, and what is wrong with it.
type Wrong = (&'static str, String);

const NAME: &str = "is no name that providers take: use 1 to 64 letters, digits, `_` and `-`";

fn wrong(field: &'static str, why: &str) -> Result<(), Wrong> {
    Err((field, why.to_owned()))
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn check_url(field: &'static str, url: &str) -> Result<(), Wrong> {
    let parsed = Url::parse(url).map_err(|why| (field, format!("`{url}` is no address: {why}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err((field, format!("`{url}` is no http or https address")));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return wrong(field, "has a user or password in it; name a variable with `bearer_env` instead");
    }
    Ok(())
}

/// Checks all tables; an error is the key, such as `tool[0].root`, and what is wrong with it.
pub(super) fn check(tools: &[ToolTable], servers: &[McpTable]) -> Result<(), (String, String)> {
    for (index, tool) in tools.iter().enumerate() {
        tool.check().map_err(|(field, why)| (format!("tool[{index}].{field}"), why))?;
        if tools[..index].iter().any(|other| other.tool_name() == tool.tool_name()) {
            let why = format!("a second tool named `{}`", tool.tool_name());
            return Err((format!("tool[{index}].name"), why));
        }
    }
    for (index, server) in servers.iter().enumerate() {
        server.check().map_err(|(field, why)| (format!("mcp[{index}].{field}"), why))?;
        if servers[..index].iter().any(|other| other.name == server.name) {
            return Err((format!("mcp[{index}].name"), format!("a second server named `{}`", server.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
