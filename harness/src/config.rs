//! agent.toml: one struct a table, defaults in `default.toml`, unknown keys are errors that name file and key.
//!
//! Place in the flow: the file becomes an [`AgentConfig`], the tape keeps it whole (secrets are never in it), and
//! a replay builds the same loop from it.

mod budget;
mod context;
mod finish;
mod goal;
mod model;
mod policy;
mod preparation;
mod preset;
mod tier;
mod tool;

pub use budget::Budget;
pub use context::{ContextTable, Strategy};
pub use finish::{Compare, ExpectTable, FinishBy};
pub use goal::GoalTable;
pub use model::{ModelTable, Price};
pub use policy::{PolicyRule, PolicyTable, Verdict};
pub use preparation::{Inject, OnFailure, PreparationTable};
pub use preset::Preset;
pub use tier::TierTable;
pub use tool::{Builtin, HttpTable, McpTable, Method, ToolTable};

use crate::model::CallSpec;
use serde::{Deserialize, Serialize};
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
    /// The answer it must come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<ExpectTable>,
    /// What it works at over many turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalTable>,
    /// A stage before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<PreparationTable>,
    /// What it may do.
    #[serde(default)]
    pub policy: PolicyTable,
    /// Its tools: commands, built-in ones and HTTP endpoints.
    #[serde(default, rename = "tool", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolTable>,
    /// Servers of the Model Context Protocol whose tools it has.
    #[serde(default, rename = "mcp", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<McpTable>,
    /// How much of the conversation the model is shown.
    #[serde(default, skip_serializing_if = "ContextTable::is_default")]
    pub context: ContextTable,
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
    /// Whether results have names that later calls may use instead of the result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub references: bool,
    /// Whether the model answers with plans, for one that cannot call tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub planner: bool,
    /// What counts as an answer; text where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishBy>,
    /// Confidence, 0 to 100, from which an answer ends the run; none where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<u8>,
    /// How deep agents may have agents as tools: an agent's own tools are the first level.
    #[serde(skip_serializing_if = "is_default_depth")]
    pub max_agent_depth: u32,
}

const MAX_AGENT_DEPTH: u32 = 3;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_default_depth(depth: &u32) -> bool {
    *depth == MAX_AGENT_DEPTH
}

impl Default for LoopTable {
    fn default() -> Self {
        Self {
            max_identical_calls: 3,
            polling_tools: Vec::new(),
            max_unknown_tools: 2,
            max_nudges: 1,
            references: false,
            planner: false,
            finish: None,
            confidence_threshold: None,
            max_agent_depth: MAX_AGENT_DEPTH,
        }
    }
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
        let (agent, context) = (&mut config.agent, &mut config.context);
        read_in(path, ("agent.prompt", "prompt_file"), &mut agent.prompt, agent.prompt_file.take())?;
        read_in(path, ("context.memory", "memory_file"), &mut context.memory, context.memory_file.take())?;
        Ok(config)
    }

    /// Parses and checks the text of an agent.toml; `path` is only for messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|why| ConfigError::Parse {
            path: path.to_owned(),
            why: why.to_string().trim().to_owned(),
        })?;
        config.budget.fill_in(text, &["budget"]);
        if let Some(preparation) = &mut config.preparation {
            preparation.budget.fill_in(text, &["preparation", "budget"]);
            preparation.budget.reserve.get_or_insert(true);
        }
        if let Some(tier) = &config.model.tier {
            config.model = config.model.of_tier(tier).map_err(|why| bad(path, "model.tier", &why))?;
        }
        config.budget.reserve.get_or_insert(true);
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
        if self.model.store && self.model.wire != crate::model::responses::NAME {
            return Err(bad(path, "model.store", "is only for the wire `responses`; leave it out"));
        }
        if let Some(preparation) = &self.preparation
            && preparation.prompt.trim().is_empty()
        {
            return Err(bad(path, "preparation.prompt", "is empty; say what the stage is to find out"));
        }
        self.check_finish().map_err(|(key, why)| bad(path, key, &why))?;
        self.model.check_tiers().map_err(|(key, why)| bad(path, &key, &why))?;
        self.context.check().map_err(|(key, why)| bad(path, key, &why))?;
        for (key, tier) in self.tiers_used() {
            self.model.of_tier(tier).map_err(|why| bad(path, &key, &why))?;
        }
        tool::check(&self.tools, &self.servers).map_err(|(key, why)| bad(path, &key, &why))
    }

    /// What every request of this agent says besides its messages.
    #[must_use]
    pub fn call_spec(&self, tools: &[crate::tool::ToolSpec]) -> CallSpec {
        CallSpec {
            model: self.model.name.clone(),
            system: self.system_prompt(),
            tools: self.offers(tools),
            max_output_tokens: self.model.max_output_tokens,
            temperature: self.model.temperature,
            stream: self.model.stream,
            cache: self.model.cache,
            store: self.model.store,
            output_schema: self.model.output_schema.clone(),
            extra: self.model.extra.clone(),
        }
    }

    /// The tools on offer: the agent's own, and the loop's where a run ends through them.
    fn offers(&self, tools: &[crate::tool::ToolSpec]) -> Vec<crate::model::ToolOffer> {
        let own = tools.iter().map(crate::tool::ToolSpec::offer);
        match self.finish() {
            FinishBy::Text => own.collect(),
            FinishBy::Tool | FinishBy::Either => own.chain(crate::tool::reserved::offers()).collect(),
        }
    }

    /// The tiers that something asks for by name, each with the key that does.
    #[must_use]
    pub fn tiers_used(&self) -> Vec<(String, &str)> {
        let context = self.context.tier.iter().map(|tier| ("context.tier".to_owned(), tier.as_str()));
        context.collect()
    }

    /// The model that writes summaries.
    #[must_use]
    pub fn context_model(&self) -> ModelTable {
        let tier = self.context.tier.as_ref().and_then(|tier| self.model.of_tier(tier).ok());
        tier.unwrap_or_else(|| self.model.clone())
    }

    /// Where the provider is.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.model.base_url()
    }

    /// The environment variable that holds the key; `None` where none is needed.
    #[must_use]
    pub fn key_env(&self) -> Option<&str> {
        self.model.key_env()
    }

    /// Longest silence of the provider.
    #[must_use]
    pub const fn model_timeout(&self) -> Duration {
        Duration::from_secs(self.model.timeout_seconds)
    }
}

/// Reads a text in that the configuration keeps in a file beside it; `key` names the text and the file's key.
fn read_in(
    path: &Path,
    (key, file_key): (&str, &str),
    text: &mut String,
    file: Option<PathBuf>,
) -> Result<(), ConfigError> {
    let Some(file) = file else { return Ok(()) };
    let (table, name) = key.split_once('.').unwrap_or(("", key));
    let at = format!("{table}.{file_key}");
    if !text.is_empty() {
        return Err(bad(path, &at, &format!("give either `{name}` or `{file_key}`, not both")));
    }
    let file = path.parent().unwrap_or(Path::new(".")).join(file);
    *text = std::fs::read_to_string(&file)
        .map_err(|why| bad(path, &at, &format!("{} cannot be read: {why}", file.display())))?;
    Ok(())
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
            (
                "[model]\nname = \"m\"\nwire = \"soap\"",
                "`soap` is no wire; use chat, responses, messages, gemini",
            ),
            (
                "[model]\nname=\"m\"\n[[tool]]\nname=\"a\"\ndescription=\"\"\ncommand=[]\ninput_schema={}",
                "tool[0].command",
            ),
            ("[agent]\nname = 3\n[model]\nname=\"m\"", "agent.toml"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn a_preset_fills_in_what_the_file_leaves_out() {
        let turns = |budget: &str| {
            parse(&format!("[model]\nname = \"m\"\n[budget]\n{budget}")).unwrap().budget.max_model_turns
        };
        assert_eq!(
            ["qa", "research", "coding"].map(|name| turns(&format!("preset = \"{name}\""))),
            [5, 15, 30]
        );
        assert_eq!(turns("preset = \"qa\"\nmax_model_turns = 10"), 10, "the file's own word wins");
        assert_eq!(turns(""), 10);
        let why = parse("[model]\nname = \"m\"\n[budget]\npreset = \"art\"").unwrap_err();
        assert!(why.contains("`art`") && why.contains("coding"), "{why}");
    }

    #[test]
    fn what_a_call_may_use_is_reserved_in_a_preparation_too() {
        let reserves = |table: &str| {
            let text = format!("[model]\nname = \"m\"\n[preparation]\nprompt = \"Look.\"\n{table}");
            parse(&text).unwrap().preparation.unwrap().budget.reserve
        };
        assert_eq!(reserves(""), Some(true));
        assert_eq!(reserves("[preparation.budget]\nmax_model_turns = 2"), Some(true));
        assert_eq!(
            reserves("[preparation.budget]\nreserve = false"),
            Some(false),
            "the file's own word wins"
        );
    }

    #[test]
    fn a_confidence_threshold_wants_a_tool_that_tells_confidence() {
        let why = parse("[model]\nname = \"m\"\n[loop]\nconfidence_threshold = 80").unwrap_err();
        assert!(why.contains("loop.confidence_threshold") && why.contains("loop.finish"), "{why}");
        let why = parse("[model]\nname = \"m\"\n[loop]\nfinish = \"tool\"\nconfidence_threshold = 101")
            .unwrap_err();
        assert!(why.contains("101 is above 100"), "{why}");
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
