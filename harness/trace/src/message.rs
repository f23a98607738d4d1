//! What is said in a run, in words of no particular provider.
//!
//! Place in the flow: model adapters translate these to and from their wire; facts carry them; spans and rows
//! show them. Parts that no adapter understands are kept verbatim and echoed to the wire they came from.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions of the application.
    System,
    /// The task, or a person.
    User,
    /// The model.
    Assistant,
    /// Results of tools.
    Tool,
}

impl Role {
    /// The role as columns and OpenTelemetry spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text { text: text.into() }] }
    }

    /// All text parts, joined.
    #[must_use]
    pub fn joined_text(&self) -> String {
        joined_text(&self.parts)
    }

    /// The tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        tool_calls(&self.parts)
    }
}

/// All text parts of a list of parts, joined.
#[must_use]
pub fn joined_text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None })
        .collect()
}

/// The tool calls of a list of parts, in order.
pub fn tool_calls(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought aloud.
    Reasoning {
        /// The readable part; empty where the provider hides it.
        text: String,
        /// The block as received, to be echoed to the same wire (signatures and all).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A block of a provider that this program does not interpret: kept and echoed.
    Opaque {
        /// The wire it belongs to, such as `messages`.
        wire: String,
        /// The block as received.
        raw: Value,
    },
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, echoed exactly; unique only within its turn, if that.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The arguments as received: JSON text, possibly broken. Empty input is stored as `{}`.
    pub arguments: String,
}

/// The answer to one tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// What the model is shown: always text.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Tokens of one model call, or sums of them. `None` is unknown, never zero.
///
/// `input_tokens` includes cached tokens; `output_tokens` includes reasoning tokens.
/// Source: OpenTelemetry GenAI semantic conventions, usage attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, cached ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The part of the input that came from a prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// The part of the input that was written to a prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// The part of the output that was reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Adds another call's tokens; an unknown side adds nothing and stays unknown only if both are.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
        self.cache_read_tokens = sum(self.cache_read_tokens, other.cache_read_tokens);
        self.cache_write_tokens = sum(self.cache_write_tokens, other.cache_write_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, other.reasoning_tokens);
    }

    /// Input and output together; `None` when both are unknown.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        }
    }
}

/// Why the model stopped writing, in one vocabulary for all providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had no more to say.
    EndTurn,
    /// It asks for tools.
    ToolUse,
    /// It hit the limit of output tokens: what it said is cut off.
    Length,
    /// It or a filter declined.
    Refusal,
    /// The provider paused a long turn and wants the same context again.
    PauseTurn,
    /// The context window is full.
    ContextFull,
    /// A stop sequence of the request was met.
    StopSequence,
    /// A word this program does not know, kept as it came; empty where none came.
    Other(String),
}

/// What a model answered, decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// Text, reasoning, tool calls and unknown blocks, in the order received.
    pub parts: Vec<Part>,
    /// Why it stopped.
    pub finish: Finish,
    /// The provider's own word for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_raw: Option<String>,
    /// Tokens, as far as the provider told.
    pub usage: Usage,
}

impl Response {
    /// The answer as a message of the conversation.
    #[must_use]
    pub fn message(&self) -> Message {
        Message { role: Role::Assistant, parts: self.parts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tokens_stay_unknown_and_known_ones_add_up() {
        let mut sum = Usage::default();
        sum.add(&Usage::default());
        assert_eq!(sum.total(), None);
        sum.add(&Usage { input_tokens: Some(3), ..Usage::default() });
        sum.add(&Usage { input_tokens: Some(4), output_tokens: Some(1), ..Usage::default() });
        assert_eq!((sum.input_tokens, sum.output_tokens, sum.total()), (Some(7), Some(1), Some(8)));
    }
}
