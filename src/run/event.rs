//! What a program sees of a run: one JSON object a line on stdout, as things happen. `help/run.txt` documents them.
//!
//! Place in the flow: fact, delta, conclusion -> **event** -> stdout. They are made of facts, never stored, and the
//! last one holds the outcome.

use harness::agent::Finished;
use harness::model::Delta;
use serde_json::{Value, json};
use trace::fact::Fact;
use trace::redact::Redactor;

/// What a fact says to a program; most facts say nothing.
pub(super) fn of_fact(at_ns: i64, fact: &Fact, redactor: &Redactor) -> Option<Value> {
    let mut event = match fact {
        Fact::RunStarted(fact) => json!({
            "type": "run_started", "run_id": fact.run_id, "trace_id": fact.trace_id, "agent": fact.agent,
            "model": fact.model, "limits": fact.limits,
        }),
        Fact::Resumed(_) => json!({ "type": "resumed" }),
        Fact::ModelAsked(fact) => json!({ "type": "turn", "turn": fact.turn, "attempt": fact.attempt }),
        Fact::ModelAnswered(fact) => {
            let response = fact.response.as_ref()?;
            json!({
                "type": "answered", "turn": fact.turn, "attempt": fact.attempt, "finish": response.finish,
                "usage": response.usage, "cost_usd": fact.cost_usd, "latency_ms": ms(fact.latency_ns),
            })
        }
        Fact::ToolStarted(fact) => json!({
            "type": "tool_started", "turn": fact.key.turn, "call_index": fact.key.index,
            "call_id": fact.call_id, "tool_name": fact.tool_name,
            "arguments": redactor.text(&fact.arguments),
        }),
        Fact::ToolFinished(fact) => json!({
            "type": "tool_finished", "turn": fact.key.turn, "call_index": fact.key.index,
            "call_id": fact.call_id, "tool_name": fact.tool_name, "status": fact.status,
            "failure_stage": fact.failure_stage, "error_class": fact.error_class,
            "result": redactor.text(&fact.content), "attempts": fact.attempts,
            "latency_ms": ms(fact.latency_ns),
        }),
        Fact::Compacted(fact) => json!({
            "type": "compacted", "turn": fact.turn, "strategy": fact.strategy, "trigger": fact.trigger,
            "before_tokens": fact.before_tokens, "after_tokens": fact.after_tokens,
        }),
        Fact::Cancelled(fact) => json!({ "type": "cancelled", "by": fact.by }),
        _ => return None,
    };
    event["at_ns"] = json!(at_ns);
    Some(event)
}

/// A piece of an answer as it arrives.
pub(super) fn of_delta(turn: u32, delta: &Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({ "type": "text", "turn": turn, "text": text }),
        Delta::Reasoning(text) => json!({ "type": "reasoning", "turn": turn, "text": text }),
        Delta::ToolCall { name } => json!({ "type": "tool_call", "turn": turn, "tool_name": name }),
    }
}

/// A model call that failed and is tried again.
pub(super) fn retry(turn: u32, pause_ms: u64, why: &str) -> Value {
    json!({ "type": "retry", "turn": turn, "pause_ms": pause_ms, "why": why })
}

/// How it ended, and before that, where it can go on, with what.
pub(super) fn of_end(finished: &Finished, go_on: Option<&str>) -> Vec<Value> {
    let outcome = &finished.outcome;
    let paused = go_on.map(|command| {
        json!({
            "type": "paused", "run_id": finished.run_id, "stop_reason": outcome.stop_reason, "go_on": command,
        })
    });
    let ended =
        json!({ "type": "ended", "run_id": finished.run_id, "outcome": outcome, "tape": finished.tape });
    paused.into_iter().chain([ended]).collect()
}

const fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}
