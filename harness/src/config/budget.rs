//! `[budget]` of agent.toml: every limit of a run, by name.

use super::Preset;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[budget]`: a number is a limit, 0 means none at all, an absent key means its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// The kind of task; it fills in what the file leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
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
    /// Input and output tokens of all calls. Without a limit it is written as null, since an absent key means the
    /// default, and a replay must not find a limit that the run had not.
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
    /// Whether a model call starts only where what it may use still fits, as far as `model.max_output_tokens` tells
    /// what that is. Read from agent.toml it is on; absent on tapes of older builds, which did not do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<bool>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            preset: None,
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
            reserve: None,
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
