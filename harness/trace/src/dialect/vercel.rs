//! The Vercel AI SDK's own names, `ai.*`, from before its OpenTelemetry package.

use super::said::conversation;
use super::{Attributes, Reading, arguments, fill, finish};
use crate::attribute::operation;
use serde_json::{Value, json};

pub(super) fn read(span_name: &str, a: Attributes<'_>, out: &mut Reading) {
    let id = a.text(&["ai.operationId"]).unwrap_or_else(|| span_name.to_owned());
    if let Some(found) = operation_of(&id) {
        // `gen_ai.*` of these spans never names an operation, so this is not an overwrite.
        fill(&mut out.operation, Some(found.to_owned()));
    }
    fill(&mut out.agent, a.text(&["ai.telemetry.functionId"]));
    fill(&mut out.session_id, a.text(&["ai.telemetry.metadata.sessionId"]));
    fill(&mut out.user_id, a.text(&["ai.telemetry.metadata.userId"]));
    let provider = a.text(&["ai.model.provider"]);
    fill(&mut out.provider, provider.map(|word| word.split('.').next().unwrap_or_default().to_owned()));
    fill(&mut out.request_model, a.text(&["ai.model.id"]));
    fill(&mut out.response_model, a.text(&["ai.response.model"]));
    fill(&mut out.response_id, a.text(&["ai.response.id"]));
    fill(&mut out.finish_reason, a.text(&["ai.response.finishReason"]).map(|word| finish(&word)));
    fill(&mut out.input_tokens, a.int(&["ai.usage.inputTokens", "ai.usage.promptTokens"]));
    fill(&mut out.output_tokens, a.int(&["ai.usage.outputTokens", "ai.usage.completionTokens"]));
    fill(
        &mut out.cache_read_tokens,
        a.int(&["ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"]),
    );
    fill(&mut out.cache_write_tokens, a.int(&["ai.usage.inputTokenDetails.cacheWriteTokens"]));
    fill(
        &mut out.reasoning_tokens,
        a.int(&["ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"]),
    );
    fill(&mut out.ttft_ms, a.float(&["ai.response.msToFirstChunk"]));
    fill(&mut out.tool_name, a.text(&["ai.toolCall.name"]));
    fill(&mut out.call_id, a.text(&["ai.toolCall.id"]));
    fill(&mut out.arguments, a.payload(&["ai.toolCall.args"]).map(arguments));
    fill(&mut out.result, a.payload(&["ai.toolCall.result"]));
    if out.operation.as_deref() == Some(operation::INVOKE_AGENT) {
        fill(&mut out.answer, a.payload(&["ai.response.text", "ai.response.object", "ai.result.text"]));
    }
    if out.said.is_empty() {
        out.said = a.json(&["ai.prompt.messages"]).map(|value| conversation(&value)).unwrap_or_default();
        out.said.extend(answered(a).map(|value| conversation(&value)).unwrap_or_default());
    }
}

fn answered(a: Attributes<'_>) -> Option<Value> {
    let text = a.text(&["ai.response.text", "ai.result.text"]);
    let calls: Vec<Value> = match a.json(&["ai.response.toolCalls", "ai.result.toolCalls"]) {
        Some(Value::Array(calls)) => calls
            .iter()
            .map(|call| {
                let given = call.get("input").or_else(|| call.get("args"));
                json!({"id": call.get("toolCallId"), "function": {"name": call.get("toolName"), "arguments": given}})
            })
            .collect(),
        _ => Vec::new(),
    };
    (text.is_some() || !calls.is_empty())
        .then(|| json!([{"role": "assistant", "content": text, "tool_calls": calls}]))
}

fn operation_of(id: &str) -> Option<&'static str> {
    match id {
        "ai.toolCall" => Some(operation::EXECUTE_TOOL),
        id if id.ends_with(".doGenerate") || id.ends_with(".doStream") => Some(operation::CHAT),
        id if id.starts_with("ai.embed") && id.ends_with(".doEmbed") => Some("embeddings"),
        "ai.generateText" | "ai.streamText" | "ai.generateObject" | "ai.streamObject" => {
            Some(operation::INVOKE_AGENT)
        }
        _ => None,
    }
}
