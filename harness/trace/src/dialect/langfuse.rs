//! Langfuse: `langfuse.observation.*` and `langfuse.trace.*`.

use super::said::conversation;
use super::{Attributes, Reading, arguments, fill, whole};
use crate::attribute::operation;

pub(super) fn read(a: Attributes<'_>, out: &mut Reading) {
    let kind = a.text(&["langfuse.observation.type"]).unwrap_or_default();
    fill(&mut out.operation, operation_of(&kind).map(str::to_owned));
    fill(&mut out.agent, a.text(&["langfuse.trace.name"]));
    fill(&mut out.session_id, a.text(&["langfuse.session.id"]));
    fill(&mut out.user_id, a.text(&["langfuse.user.id"]));
    fill(&mut out.request_model, a.text(&["langfuse.observation.model.name"]));
    fill(&mut out.prompt_name, a.text(&["langfuse.observation.prompt.name"]));
    fill(&mut out.prompt_version, a.text(&["langfuse.observation.prompt.version"]));
    if let Some(usage) = a.json(&["langfuse.observation.usage_details"]) {
        let count = |names: &[&str]| names.iter().find_map(|name| usage.get(*name)).and_then(whole);
        fill(&mut out.input_tokens, count(&["input", "prompt_tokens", "input_tokens"]));
        fill(&mut out.output_tokens, count(&["output", "completion_tokens", "output_tokens"]));
        fill(&mut out.cache_read_tokens, count(&["cache_read_input_tokens", "input_cached_tokens"]));
        fill(&mut out.cache_write_tokens, count(&["cache_creation_input_tokens", "input_cache_creation"]));
        fill(&mut out.reasoning_tokens, count(&["output_reasoning_tokens", "reasoning_tokens"]));
    }
    let cost = a.json(&["langfuse.observation.cost_details"]);
    fill(&mut out.cost_usd, cost.and_then(|cost| cost.get("total")?.as_f64()));
    let (input, output) = ("langfuse.observation.input", "langfuse.observation.output");
    match kind.as_str() {
        "tool" => {
            fill(&mut out.arguments, a.payload(&[input]).map(arguments));
            fill(&mut out.result, a.payload(&[output]));
        }
        "generation" if out.said.is_empty() => {
            for side in [input, output] {
                out.said.extend(a.json(&[side]).map(|value| conversation(&value)).unwrap_or_default());
            }
        }
        _ => {}
    }
}

fn operation_of(kind: &str) -> Option<&'static str> {
    match kind {
        "generation" => Some(operation::CHAT),
        "agent" => Some(operation::INVOKE_AGENT),
        "tool" => Some(operation::EXECUTE_TOOL),
        "embedding" => Some("embeddings"),
        "retriever" => Some("retrieval"),
        _ => None,
    }
}
