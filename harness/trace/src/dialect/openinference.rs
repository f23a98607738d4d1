//! OpenInference: `openinference.span.kind`, `llm.*` and flattened messages.
//!
//! A chain stays what it is: calling it an agent would inflate the count of runs.

use super::said::conversation;
use super::tree::unflatten;
use super::{Attributes, Reading, arguments, fill, finish};
use crate::attribute::operation;
use serde_json::Value;

pub(super) fn read(a: Attributes<'_>, out: &mut Reading) {
    let kind = a.text(&["openinference.span.kind"]).unwrap_or_default();
    fill(&mut out.operation, operation_of(&kind).map(str::to_owned));
    fill(&mut out.agent, a.text(&["agent.name"]));
    fill(&mut out.provider, a.text(&["llm.provider", "llm.system"]));
    fill(
        &mut out.request_model,
        a.text(&["llm.request.model_name", "llm.model_name", "embedding.model_name", "reranker.model_name"]),
    );
    fill(&mut out.response_model, a.text(&["llm.response.model_name"]));
    fill(&mut out.finish_reason, a.text(&["llm.finish_reason"]).map(|word| finish(&word)));
    fill(&mut out.input_tokens, a.int(&["llm.token_count.prompt"]));
    fill(&mut out.output_tokens, a.int(&["llm.token_count.completion"]));
    fill(&mut out.cache_read_tokens, a.int(&["llm.token_count.prompt_details.cache_read"]));
    fill(&mut out.cache_write_tokens, a.int(&["llm.token_count.prompt_details.cache_write"]));
    fill(&mut out.reasoning_tokens, a.int(&["llm.token_count.completion_details.reasoning"]));
    fill(&mut out.cost_usd, a.float(&["llm.cost.total"]));
    fill(&mut out.prompt_name, a.text(&["prompt.id"]));
    fill(&mut out.prompt_version, a.text(&["llm.prompt_template.version"]));
    match kind.as_str() {
        "LLM" => {
            // The id stands nowhere but in the recorded body; it is what tells two tellings of one call.
            if let Some(body) = a.json(&["output.value"]) {
                fill(&mut out.response_id, body.get("id").and_then(Value::as_str).map(str::to_owned));
                fill(&mut out.finish_reason, finish_of_response(&body));
            }
            messages(a, out);
        }
        "TOOL" => {
            fill(&mut out.tool_name, a.text(&["tool.name"]));
            fill(&mut out.call_id, a.text(&["tool_call.id", "tool.id"]));
            let given = a.payload(&["tool_call.function.arguments", "tool.parameters", "input.value"]);
            fill(&mut out.arguments, given.map(arguments));
            fill(&mut out.result, a.payload(&["output.value"]));
        }
        "AGENT" => fill(&mut out.answer, a.payload(&["output.value"])),
        _ => {}
    }
}

fn messages(a: Attributes<'_>, out: &mut Reading) {
    if !out.said.is_empty() {
        return;
    }
    for prefix in ["llm.input_messages", "llm.output_messages"] {
        if let Some(tree) = unflatten(a.0, prefix) {
            out.said.extend(conversation(&tree));
        }
    }
}

/// The Responses API has no finish reason: a completed response either asks for tools or has ended.
fn finish_of_response(body: &Value) -> Option<String> {
    let status = body.get("status")?.as_str()?;
    let output = body.get("output")?.as_array()?;
    let asks = output.iter().any(|item| item.get("type").is_some_and(|kind| kind == "function_call"));
    Some(finish(if asks { "tool_use" } else { status }))
}

fn operation_of(kind: &str) -> Option<&str> {
    match kind {
        "LLM" => Some(operation::CHAT),
        "EMBEDDING" => Some("embeddings"),
        "RETRIEVER" | "RERANKER" => Some("retrieval"),
        "TOOL" => Some(operation::EXECUTE_TOOL),
        "AGENT" => Some(operation::INVOKE_AGENT),
        _ => None,
    }
}
