//! Facts that a run could have, for tests of what people see.

use std::collections::BTreeMap;
use trace::fact::{Fact, ModelAnswered, ModelAsked, RunStarted, ToolFinished, ToolStarted};
use trace::id::{CallKey, Hash, RunId, TraceId};
use trace::message::{Finish, Part, Response, Usage};
use trace::outcome::ToolStatus;

const NONE: Hash = Hash::new([0; 32]);

pub(super) fn started(limits: &[(&str, f64)]) -> Fact {
    let limits: BTreeMap<String, f64> =
        limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
    let fact = serde_json::json!({
        "run_id": RunId::new("00aa"), "trace_id": TraceId::new([1; 16]), "agent": "order-desk", "provider": "p",
        "model": "mini", "wire": "chat", "task": "t", "config": NONE, "tools": NONE, "prompt_hash": NONE,
        "limits": limits,
    });
    Fact::RunStarted(Box::new(serde_json::from_value::<RunStarted>(fact).unwrap()))
}

pub(super) fn asked(turn: u32) -> Fact {
    let fact = serde_json::json!({
        "turn": turn, "attempt": 1, "endpoint": "/x", "stream": true, "fragments": [], "head": NONE, "depth": 0,
        "frame": NONE, "body_bytes": 0, "body_hash": NONE,
    });
    Fact::ModelAsked(serde_json::from_value::<ModelAsked>(fact).unwrap())
}

pub(super) fn answered(turn: u32, text: &str, tokens: u64, cost_usd: Option<f64>) -> Fact {
    let fact = serde_json::json!({ "turn": turn, "attempt": 1, "latency_ns": 42_000_000 });
    let mut fact: ModelAnswered = serde_json::from_value(fact).unwrap();
    fact.response = Some(Response {
        response_id: None,
        response_model: None,
        parts: vec![Part::Text { text: text.to_owned() }],
        finish: Finish::EndTurn,
        finish_raw: None,
        usage: Usage { input_tokens: Some(tokens), output_tokens: Some(0), ..Usage::default() },
    });
    fact.cost_usd = cost_usd;
    Fact::ModelAnswered(Box::new(fact))
}

pub(super) fn tool_started(turn: u32, index: u32, tool_name: &str, arguments: &str) -> Fact {
    let fact = serde_json::json!({
        "key": CallKey { turn, index }, "call_id": "c", "tool_name": tool_name, "arguments": arguments,
        "args_hash": NONE, "permission": "allow", "permission_rule": "r", "idempotent": true, "synced": false,
    });
    Fact::ToolStarted(serde_json::from_value::<ToolStarted>(fact).unwrap())
}

pub(super) fn tool_finished(
    turn: u32,
    tool_name: &str,
    arguments: &str,
    status: ToolStatus,
    said: &str,
) -> Fact {
    let fact = serde_json::json!({
        "key": CallKey { turn, index: 0 }, "call_id": "c", "tool_name": tool_name, "arguments": arguments,
        "args_hash": NONE, "status": status, "result": NONE, "shown": NONE, "result_hash": NONE, "attempts": 1,
        "latency_ns": 12_000_000,
    });
    let mut fact: ToolFinished = serde_json::from_value(fact).unwrap();
    said.clone_into(&mut fact.content);
    Fact::ToolFinished(Box::new(fact))
}
