//! pydantic-ai and Logfire: nearly the registry's names; older ones for agents and tools.
//!
//! `gen_ai.aggregated_usage.*` is a sum over calls and `gen_ai.usage.details.*` repeats other names: neither is
//! read, so nothing is counted twice.

use super::{Attributes, Reading, arguments, fill};

pub(super) fn read(a: Attributes<'_>, out: &mut Reading) {
    fill(&mut out.agent, a.text(&["agent_name"]));
    fill(&mut out.answer, a.payload(&["final_result"]));
    fill(&mut out.request_model, a.text(&["model_name"]));
    fill(&mut out.arguments, a.payload(&["tool_arguments"]).map(arguments));
    fill(&mut out.result, a.payload(&["tool_response"]));
    fill(&mut out.reasoning_tokens, a.int(&["gen_ai.usage.details.reasoning_tokens"]));
    fill(&mut out.cost_usd, a.float(&["operation.cost"]));
}
