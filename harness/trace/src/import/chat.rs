//! An entry read as a conversation: messages, calls and results, and why it ended.

use crate::outcome::StopReason;
use serde_json::Value;

/// tau-bench gives up after so many assistant messages; its files do not say so.
pub(super) const TAU_BENCH_MAX_TURNS: usize = 30;
/// The word with which tau-bench's simulated user ends a conversation.
const USER_STOP: &str = "###STOP###";
/// The tool with which tau-bench hands a conversation over.
const TRANSFER: &str = "transfer_to_human_agents";

/// A field that is not what it should be.
pub(super) struct Wrong {
    pub(super) field: String,
    pub(super) what: String,
}

/// One conversation.
pub(super) struct Chat<'a> {
    pub(super) source: &'static str,
    pub(super) messages: Vec<ChatMessage<'a>>,
    pub(super) model: Option<&'a str>,
    pub(super) task_id: Option<String>,
    pub(super) trial: Option<u32>,
    pub(super) reward: Option<f64>,
    pub(super) stop_reason: StopReason,
}

/// One message.
pub(super) struct ChatMessage<'a> {
    pub(super) role: &'a str,
    pub(super) value: &'a Value,
    pub(super) calls: Vec<ChatCall<'a>>,
    pub(super) text: String,
}

/// One tool call of an assistant message.
pub(super) struct ChatCall<'a> {
    pub(super) id: &'a str,
    pub(super) tool_name: &'a str,
    pub(super) arguments: String,
}

pub(super) fn read(entry: &Value) -> Result<Chat<'_>, Wrong> {
    let (name, list) = list_of_messages(entry)?;
    let messages = (0..)
        .zip(list)
        .map(|(index, value)| message(value).map_err(|wrong| wrong.within(&format!("{name}[{index}]"))))
        .collect::<Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err(Wrong::new(name, "is empty"));
    }
    let is_tau = name == "traj";
    let task_id = entry.get("task_id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    let trial = match entry.get("trial") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            Some(number.ok_or_else(|| Wrong::new("trial", "is not a small whole number"))?)
        }
    };
    let reward = match entry.get("reward") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_f64().ok_or_else(|| Wrong::new("reward", "is not a number"))?),
    };
    let stop_reason = if is_tau { tau_stop(&messages) } else { chat_stop(&messages) };
    Ok(Chat {
        source: if is_tau { "tau_bench" } else { "openai_chat" },
        model: entry.get("model").and_then(Value::as_str),
        messages,
        task_id,
        trial,
        reward,
        stop_reason,
    })
}

fn list_of_messages(entry: &Value) -> Result<(&'static str, &Vec<Value>), Wrong> {
    if let Value::Array(list) = entry {
        return Ok(("messages", list));
    }
    for name in ["traj", "messages"] {
        match entry.get(name) {
            Some(Value::Array(list)) => return Ok((name, list)),
            Some(_) => return Err(Wrong::new(name, "is not a list of messages")),
            None => {}
        }
    }
    Err(Wrong::new("messages", "is missing: an entry is a list of messages, or has `messages` or `traj`"))
}

fn message(value: &Value) -> Result<ChatMessage<'_>, Wrong> {
    let role = match value.get("role") {
        Some(Value::String(role)) => role.as_str(),
        Some(_) => return Err(Wrong::new("role", "is not text")),
        None => return Err(Wrong::new("role", "is missing")),
    };
    let calls = match (value.get("tool_calls"), value.get("function_call")) {
        (Some(Value::Array(calls)), _) => {
            let read = (0..).zip(calls).map(|(index, one)| {
                let id = one.get("id").and_then(Value::as_str).unwrap_or_default();
                call(id, one.get("function").unwrap_or(one))
                    .map_err(|wrong| wrong.within(&format!("tool_calls[{index}].function")))
            });
            read.collect::<Result<Vec<_>, _>>()?
        }
        (Some(Value::Null) | None, Some(one)) if one.is_object() => {
            vec![call("", one).map_err(|wrong| wrong.within("function_call"))?]
        }
        (Some(Value::Null) | None, _) => Vec::new(),
        (Some(_), _) => return Err(Wrong::new("tool_calls", "is not a list")),
    };
    Ok(ChatMessage { role, value, calls, text: text(value) })
}

fn call<'a>(id: &'a str, function: &'a Value) -> Result<ChatCall<'a>, Wrong> {
    let tool_name =
        function.get("name").and_then(Value::as_str).ok_or_else(|| Wrong::new("name", "is not text"))?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    Ok(ChatCall { id, tool_name, arguments })
}

/// The text of a message, its content blocks joined.
fn text(value: &Value) -> String {
    match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn tau_stop(messages: &[ChatMessage<'_>]) -> StopReason {
    let turns = messages.iter().filter(|one| one.role == "assistant").count();
    match messages.last() {
        Some(last) if last.role == "tool" && last.value.get("name").is_some_and(|name| name == TRANSFER) => {
            StopReason::Transferred
        }
        Some(last) if last.role == "user" && last.text.contains(USER_STOP) => StopReason::Completed,
        _ if turns >= TAU_BENCH_MAX_TURNS => StopReason::MaxTurns,
        _ => StopReason::Unknown,
    }
}

/// A conversation that ends with an answer and without a call is complete; of others nobody knows.
fn chat_stop(messages: &[ChatMessage<'_>]) -> StopReason {
    match messages.last() {
        Some(last) if last.role == "assistant" && last.calls.is_empty() && !last.text.is_empty() => {
            StopReason::Completed
        }
        _ => StopReason::Unknown,
    }
}

impl Wrong {
    fn new(field: &str, what: &str) -> Self {
        Self { field: field.to_owned(), what: what.to_owned() }
    }

    fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}
