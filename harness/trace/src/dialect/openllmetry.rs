//! OpenLLMetry: `traceloop.*`, `llm.*`, and messages flattened under `gen_ai.prompt` and `gen_ai.completion`.

use super::said::conversation;
use super::tree::unflatten;
use super::{Attributes, Reading, arguments, fill, finish};
use crate::attribute::operation;

pub(super) fn read(a: Attributes<'_>, out: &mut Reading) {
    let kind = a.text(&["traceloop.span.kind"]).unwrap_or_default();
    fill(
        &mut out.operation,
        operation_of(&kind, a.text(&["llm.request.type"]).as_deref()).map(str::to_owned),
    );
    fill(&mut out.request_model, a.text(&["llm.request.model"]));
    fill(&mut out.response_model, a.text(&["llm.response.model"]));
    let word = a.text(&["llm.response.finish_reason", "llm.response.stop_reason"]);
    fill(&mut out.finish_reason, word.map(|word| finish(&word)));
    fill(&mut out.input_tokens, a.int(&["llm.usage.prompt_tokens"]));
    fill(&mut out.output_tokens, a.int(&["llm.usage.completion_tokens"]));
    fill(&mut out.reasoning_tokens, a.int(&["llm.usage.reasoning_tokens"]));
    fill(&mut out.prompt_name, a.text(&["traceloop.prompt.key"]));
    fill(&mut out.prompt_version, a.text(&["traceloop.prompt.version"]));
    match kind.as_str() {
        // The entity is an agent on agent spans only; elsewhere it is the name of a step.
        "agent" => {
            fill(&mut out.agent, a.text(&["traceloop.entity.name"]));
            fill(&mut out.answer, a.payload(&["traceloop.entity.output"]));
        }
        "tool" => {
            fill(&mut out.tool_name, a.text(&["traceloop.entity.name"]));
            fill(&mut out.arguments, a.payload(&["traceloop.entity.input"]).map(arguments));
            fill(&mut out.result, a.payload(&["traceloop.entity.output"]));
        }
        _ => {}
    }
    if out.said.is_empty() {
        for prefix in ["gen_ai.prompt", "gen_ai.completion"] {
            out.said.extend(unflatten(a.0, prefix).map(|tree| conversation(&tree)).unwrap_or_default());
        }
    }
}

fn operation_of<'a>(kind: &str, request: Option<&'a str>) -> Option<&'a str> {
    match (kind, request) {
        ("agent", _) => Some(operation::INVOKE_AGENT),
        ("tool", _) => Some(operation::EXECUTE_TOOL),
        (_, Some("chat")) => Some(operation::CHAT),
        (_, Some("completion")) => Some("text_completion"),
        (_, Some("embedding")) => Some("embeddings"),
        (_, Some("rerank")) => Some("retrieval"),
        _ => None,
    }
}
