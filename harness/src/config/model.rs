//! `[model]` of agent.toml: which model is asked, where, and at what price.

use super::TierTable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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
    #[serde(default)]
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
    /// Whether a `responses` provider stores what is said: a request then bears the id of the answer before
    /// (`previous_response_id`) and what was said since, instead of the whole conversation.
    #[serde(default, skip_serializing_if = "is_no")]
    pub store: bool,
    /// JSON Schema that the model's text must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Further members of the request body.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The tier this model is; the rest of the table fills in what the tier leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Models by their role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, TierTable>,
}

impl ModelTable {
    /// Where the provider is.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base_url.as_deref().unwrap_or(match self.wire.as_str() {
            "messages" => "https://api.anthropic.com",
            "gemini" => "https://generativelanguage.googleapis.com/v1beta",
            _ => "https://api.openai.com/v1",
        })
    }

    /// The environment variable that holds the key; `None` where none is needed.
    #[must_use]
    pub fn key_env(&self) -> Option<&str> {
        let name = self.key_env.as_deref().unwrap_or(match self.wire.as_str() {
            "messages" => "ANTHROPIC_API_KEY",
            "gemini" => "GEMINI_API_KEY",
            _ => "OPENAI_API_KEY",
        });
        (!name.is_empty()).then_some(name)
    }
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
