//! The registry's own names: the current ones, and those it has given up.

use super::said::{Said, conversation, system};
use super::{Attributes, Reading, arguments, fill, finish};
use crate::attribute as name;

/// The current names.
pub(super) fn read(a: Attributes<'_>, out: &mut Reading) {
    fill(&mut out.operation, a.text(&[name::OPERATION_NAME]));
    fill(&mut out.agent, a.text(&[name::AGENT_NAME]));
    fill(&mut out.session_id, a.text(&[name::CONVERSATION_ID, name::SESSION_ID]));
    fill(&mut out.user_id, a.text(&[name::USER_ID]));
    fill(&mut out.prompt_name, a.text(&[name::PROMPT_NAME]));
    fill(&mut out.prompt_version, a.text(&[name::PROMPT_VERSION]));
    fill(&mut out.provider, a.text(&[name::PROVIDER_NAME]));
    fill(&mut out.request_model, a.text(&[name::REQUEST_MODEL]));
    fill(&mut out.response_model, a.text(&[name::RESPONSE_MODEL]));
    fill(&mut out.response_id, a.text(&[name::RESPONSE_ID]));
    fill(&mut out.finish_reason, a.text(&[name::FINISH_REASONS]).map(|word| finish(&word)));
    fill(&mut out.input_tokens, a.int(&[name::INPUT_TOKENS]));
    fill(&mut out.output_tokens, a.int(&[name::OUTPUT_TOKENS]));
    fill(&mut out.cache_read_tokens, a.int(&[name::CACHE_READ_TOKENS]));
    fill(&mut out.cache_write_tokens, a.int(&[name::CACHE_WRITE_TOKENS]));
    fill(&mut out.reasoning_tokens, a.int(&[name::REASONING_TOKENS]));
    fill(&mut out.cost_usd, a.float(&[name::COST_USD]));
    fill(&mut out.ttft_ms, a.float(&[name::TIME_TO_FIRST_CHUNK]).map(|seconds| seconds * 1000.0));
    fill(&mut out.tool_name, a.text(&[name::TOOL_NAME]));
    fill(&mut out.call_id, a.text(&[name::TOOL_CALL_ID]));
    fill(&mut out.arguments, a.payload(&[name::TOOL_ARGUMENTS]).map(arguments));
    fill(&mut out.result, a.payload(&[name::TOOL_RESULT]));
    if out.said.is_empty() {
        out.said = said(a);
    }
}

/// Names of before: still sent by many, never preferred to a current one.
pub(super) fn read_outdated(a: Attributes<'_>, out: &mut Reading) {
    fill(&mut out.provider, a.text(&["gen_ai.system"]).map(|word| provider(&word)));
    fill(&mut out.input_tokens, a.int(&["gen_ai.usage.prompt_tokens"]));
    fill(&mut out.output_tokens, a.int(&["gen_ai.usage.completion_tokens"]));
    fill(&mut out.cache_read_tokens, a.int(&["gen_ai.usage.cache_read_input_tokens"]));
    fill(
        &mut out.cache_write_tokens,
        a.int(&["gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"]),
    );
    fill(&mut out.reasoning_tokens, a.int(&["gen_ai.usage.reasoning_tokens"]));
    let word = a.text(&[
        "gen_ai.response.finish_reason",
        "gen_ai.response.stop_reason",
        "anthropic.message.stop_reason",
    ]);
    fill(&mut out.finish_reason, word.map(|word| finish(&word)));
    fill(&mut out.cost_usd, a.float(&["gen_ai.usage.cost"]));
}

fn said(a: Attributes<'_>) -> Vec<Said> {
    let mut said: Vec<Said> =
        a.json(&[name::SYSTEM_INSTRUCTIONS]).and_then(|value| system(&value)).into_iter().collect();
    said.extend(a.json(&[name::INPUT_MESSAGES]).map(|value| conversation(&value)).unwrap_or_default());
    said.extend(a.json(&[name::OUTPUT_MESSAGES]).map(|value| conversation(&value)).unwrap_or_default());
    said
}

fn provider(word: &str) -> String {
    match word {
        "az.ai.openai" => "azure.ai.openai",
        "mistralai" => "mistral_ai",
        other => other,
    }
    .to_owned()
}
