//! agent.toml: one struct a table, defaults in `default.toml`, unknown keys are errors that name file and key.
//!
//! Place in the flow: the file becomes an [`AgentConfig`], the tape keeps it whole (secrets are never in it), and
//! a replay builds the same loop from it.

mod tool;

pub use tool::{Builtin, HttpTable, McpTable, Method, ToolTable};

use crate::model::CallSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The commented defaults, for people.
pub const DEFAULT_TOML: &str = include_str!("../default.toml");

/// Why an agent.toml cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not what the structs want.
    #[error("{}: {why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What and where, with the line.
        why: String,
    },
    /// A value cannot work.
    #[error("{}: `{key}`: {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
}

/// A whole agent.toml.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Who the agent is.
    #[serde(default)]
    pub agent: AgentTable,
    /// Which model it asks.
    pub model: ModelTable,
    /// What it may use up.
    #[serde(default)]
    pub budget: Budget,
    /// How the loop behaves.
    #[serde(default, rename = "loop")]
    pub loop_: LoopTable,
    /// What it may do.
    #[serde(default)]
    pub policy: PolicyTable,
    /// Its tools: commands, built-in ones and HTTP endpoints.
    #[serde(default, rename = "tool", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolTable>,
    /// Servers of the Model Context Protocol whose tools it has.
    #[serde(default, rename = "mcp", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<McpTable>,
}

/// `[agent]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentTable {
    /// Name in spans, rows and pages.
    pub name: String,
    /// The system prompt.
    pub prompt: String,
    /// A file with the system prompt, beside agent.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_file: Option<PathBuf>,
    /// The prompt's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
    /// The prompt's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// The service it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The deployment environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The agent's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Free words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Default for AgentTable {
    fn default() -> Self {
        Self {
            name: "agent".to_owned(),
            prompt: String::new(),
            prompt_file: None,
            prompt_name: None,
            prompt_version: None,
            service: None,
            environment: None,
            release: None,
            tags: Vec::new(),
        }
    }
}

/// `[model]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// A name for people and spans.
    #[serde(default = "default_provider")]
    pub provider: String,
    /// The wire format: `chat`, `responses`, `messages` or `gemini`.
    #[serde(default = "default_wire")]
    pub wire: String,
    /// The model asked for.
    pub name: String,
    /// Where the provider is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key; empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Whether answers are streamed.
    #[serde(default = "yes")]
    pub stream: bool,
    /// Longest silence of the provider, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
    /// Cap on output tokens of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Prices, where the table of prices knows the model or the file gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Whether system prompt and tools are marked for the prompt cache of a `messages` provider; the other wires'
    /// providers cache by themselves.
    #[serde(default, skip_serializing_if = "is_no")]
    pub cache: bool,
    /// JSON Schema that the model's text must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Further members of the request body.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

fn default_provider() -> String {
    "openai".to_owned()
}

fn default_wire() -> String {
    "chat".to_owned()
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_no(flag: &bool) -> bool {
    !*flag
}

const fn default_timeout() -> u64 {
    120
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that came from no cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from a cache; as `input` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input written to a cache; as `input` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// The cost of one call in US dollars; `None` where the provider told no tokens.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts of one call are far below 2^53")]
    pub fn cost_usd(&self, usage: &trace::message::Usage) -> Option<f64> {
        let (input, output) = (usage.input_tokens?, usage.output_tokens?);
        let (read, write) = (usage.cache_read_tokens.unwrap_or(0), usage.cache_write_tokens.unwrap_or(0));
        let plain = input.saturating_sub(read).saturating_sub(write);
        let micro = plain as f64 * self.input
            + read as f64 * self.cache_read.unwrap_or(self.input)
            + write as f64 * self.cache_write.unwrap_or(self.input)
            + output as f64 * self.output;
        Some(micro / 1e6)
    }
}

/// `[budget]`: a number is a limit, 0 means none at all, an absent key means no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Model turns.
    pub max_model_turns: u32,
    /// Tool calls of all tools.
    pub max_tool_calls: u32,
    /// Calls of each tool; further ones are refused and the run goes on.
    pub max_calls_per_tool: u32,
    /// Tool calls at the same time.
    pub max_parallel_tool_calls: u32,
    /// Wall time, in seconds.
    pub max_wall_time_seconds: u64,
    /// Input tokens of all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// Output tokens of all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Input and output tokens of all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    /// US dollars of all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_cost: Option<f64>,
    /// Characters of one tool result that the model is shown.
    pub max_tool_result_chars: usize,
    /// Further attempts of one model call.
    pub max_retries_per_model_call: u32,
    /// Further attempts of one tool call, for tools that may be repeated.
    pub max_retries_per_tool_call: u32,
    /// Failed tool calls of the run.
    pub max_errors: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_model_turns: 10,
            max_tool_calls: 50,
            max_calls_per_tool: 10,
            max_parallel_tool_calls: 4,
            max_wall_time_seconds: 600,
            max_input_tokens: None,
            max_output_tokens: None,
            max_total_tokens: Some(100_000),
            max_total_cost: None,
            max_tool_result_chars: 16_000,
            max_retries_per_model_call: 3,
            max_retries_per_tool_call: 2,
            max_errors: 10,
        }
    }
}

impl Budget {
    /// The limits by name, as facts and spans carry them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
    pub fn limits(&self) -> BTreeMap<String, f64> {
        let set = [
            ("turns", Some(f64::from(self.max_model_turns))),
            ("tool_calls", Some(f64::from(self.max_tool_calls))),
            ("calls_per_tool", Some(f64::from(self.max_calls_per_tool))),
            ("wall_ms", Some(self.max_wall_time_seconds as f64 * 1e3)),
            ("input_tokens", self.max_input_tokens.map(|limit| limit as f64)),
            ("output_tokens", self.max_output_tokens.map(|limit| limit as f64)),
            ("tokens", self.max_total_tokens.map(|limit| limit as f64)),
            ("cost_usd", self.max_total_cost),
            ("errors", Some(f64::from(self.max_errors))),
        ];
        set.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect()
    }
}

/// `[loop]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopTable {
    /// Equal calls with equal results in a row before the run stops; 0 switches the rule off.
    pub max_identical_calls: u32,
    /// Tools that may be asked again and again.
    pub polling_tools: Vec<String>,
    /// Calls of tools that do not exist before the run stops.
    pub max_unknown_tools: u32,
    /// Reminders to a model that neither answers nor calls a tool.
    pub max_nudges: u32,
}

impl Default for LoopTable {
    fn default() -> Self {
        Self { max_identical_calls: 3, polling_tools: Vec::new(), max_unknown_tools: 2, max_nudges: 1 }
    }
}

/// `[policy]`: decisions by risk, and rules by tool. The strictest wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyTable {
    /// For tools that only read.
    pub read: Verdict,
    /// For tools that change something.
    pub write: Verdict,
    /// For tools that run programs.
    pub execute: Verdict,
    /// For tools that reach outside.
    pub external: Verdict,
    /// Whether a denied call ends the run.
    pub deny_is_terminal: bool,
    /// Rules by tool.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
}

impl Default for PolicyTable {
    fn default() -> Self {
        Self {
            read: Verdict::Allow,
            write: Verdict::Allow,
            execute: Verdict::Allow,
            external: Verdict::Allow,
            deny_is_terminal: false,
            rules: Vec::new(),
        }
    }
}

/// What policy says about a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
}

/// `[[policy.rule]]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// The tool it speaks of.
    pub tool: String,
    /// What it says.
    pub decision: Verdict,
    /// Why, for the model and for people.
    #[serde(default)]
    pub reason: String,
}

impl AgentConfig {
    /// Reads and checks an agent.toml; the prompt file is read in.
    ///
    /// # Errors
    /// Names the file, the key and what to do.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.to_owned(), source })
        };
        let mut config = Self::parse(&read(path)?, path)?;
        if let Some(file) = config.agent.prompt_file.take() {
            if !config.agent.prompt.is_empty() {
                return Err(bad(path, "agent.prompt_file", "give either `prompt` or `prompt_file`, not both"));
            }
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            config.agent.prompt = std::fs::read_to_string(&file).map_err(|why| {
                bad(path, "agent.prompt_file", &format!("{} cannot be read: {why}", file.display()))
            })?;
        }
        Ok(config)
    }

    /// Parses and checks the text of an agent.toml; `path` is only for messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|why| ConfigError::Parse { path: path.to_owned(), why: why.to_string().trim().to_owned() })?;
        config.check(path)?;
        Ok(config)
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        if self.model.name.is_empty() {
            return Err(bad(path, "model.name", "is empty; name a model, for example gpt-4o-mini"));
        }
        if crate::model::wire(&self.model.wire).is_none() {
            return Err(bad(path, "model.wire", &no_wire(&self.model.wire)));
        }
        tool::check(&self.tools, &self.servers).map_err(|(key, why)| bad(path, &key, &why))
    }

    /// What every request of this agent says besides its messages.
    #[must_use]
    pub fn call_spec(&self, tools: &[crate::tool::ToolSpec]) -> CallSpec {
        CallSpec {
            model: self.model.name.clone(),
            system: self.agent.prompt.clone(),
            tools: tools.iter().map(crate::tool::ToolSpec::offer).collect(),
            max_output_tokens: self.model.max_output_tokens,
            temperature: self.model.temperature,
            stream: self.model.stream,
            cache: self.model.cache,
            output_schema: self.model.output_schema.clone(),
            extra: self.model.extra.clone(),
        }
    }

    /// Where the provider is.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.model.base_url.as_deref().unwrap_or(match self.model.wire.as_str() {
            "messages" => "https://api.anthropic.com",
            "gemini" => "https://generativelanguage.googleapis.com/v1beta",
            _ => "https://api.openai.com/v1",
        })
    }

    /// The environment variable that holds the key; `None` where none is needed.
    #[must_use]
    pub fn key_env(&self) -> Option<&str> {
        let name = self.model.key_env.as_deref().unwrap_or(match self.model.wire.as_str() {
            "messages" => "ANTHROPIC_API_KEY",
            "gemini" => "GEMINI_API_KEY",
            _ => "OPENAI_API_KEY",
        });
        (!name.is_empty()).then_some(name)
    }

    /// Longest silence of the provider.
    #[must_use]
    pub const fn model_timeout(&self) -> Duration {
        Duration::from_secs(self.model.timeout_seconds)
    }
}

/// Why a wire is none, and which there are.
pub(crate) fn no_wire(name: &str) -> String {
    format!("`{name}` is no wire; use {}", crate::model::NAMES.join(", "))
}

fn bad(path: &Path, key: &str, why: &str) -> ConfigError {
    ConfigError::Value { path: path.to_owned(), key: key.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse(text, Path::new("agent.toml")).map_err(|why| why.to_string())
    }

    #[test]
    fn the_commented_defaults_are_the_defaults() {
        let written = parse(&DEFAULT_TOML.replace("name = \"\" ", "name = \"m\" ")).unwrap();
        let implied = parse("[model]\nname = \"m\"").unwrap();
        assert_eq!(written, implied);
    }

    #[test]
    fn unknown_keys_are_named_with_their_line() {
        let why = parse("[model]\nname = \"m\"\n[budget]\nmax_turns = 3\n").unwrap_err();
        assert!(why.contains("agent.toml") && why.contains("max_turns") && why.contains("line 4"), "{why}");
    }

    #[test]
    fn values_that_cannot_work_are_named() {
        for (text, wanted) in [
            ("[model]\nname = \"\"", "model.name"),
            ("[model]\nname = \"m\"\nwire = \"soap\"", "`soap` is no wire; use chat, responses, messages, gemini"),
            ("[model]\nname=\"m\"\n[[tool]]\nname=\"a\"\ndescription=\"\"\ncommand=[]\ninput_schema={}", "tool[0].command"),
            ("[agent]\nname = 3\n[model]\nname=\"m\"", "agent.toml"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn cached_tokens_are_priced_once() {
        let price = Price { input: 2.0, output: 10.0, cache_read: Some(0.5), cache_write: None };
        let usage = trace::message::Usage {
            input_tokens: Some(1_000_000),
            output_tokens: Some(100_000),
            cache_read_tokens: Some(500_000),
            ..trace::message::Usage::default()
        };
        assert_eq!(price.cost_usd(&usage), Some(1.0 + 0.25 + 1.0));
        assert_eq!(price.cost_usd(&trace::message::Usage::default()), None);
    }
}
