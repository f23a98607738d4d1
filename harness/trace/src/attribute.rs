//! Every span attribute this program writes or reads by name, once.
//!
//! Place in the flow: spans are built with these names, rows are read by them. `gen_ai.*` is the registry of
//! OpenTelemetry (all in development); `loopdeck.*` is ours, for what the registry does not define.
//! Source: open-telemetry/semantic-conventions-genai, model/gen-ai, fork at fe5608e2 (2026-08-03).

/// The schema these GenAI names belong to.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";
/// The instrumentation scope of our own spans.
pub const SCOPE: &str = "loopdeck";

macro_rules! names {
    ($($name:ident = $text:literal;)+) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: &str = $text;)+
    };
}

names! {
    OPERATION_NAME = "gen_ai.operation.name";
    PROVIDER_NAME = "gen_ai.provider.name";
    REQUEST_MODEL = "gen_ai.request.model";
    REQUEST_STREAM = "gen_ai.request.stream";
    RESPONSE_MODEL = "gen_ai.response.model";
    RESPONSE_ID = "gen_ai.response.id";
    FINISH_REASONS = "gen_ai.response.finish_reasons";
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";
    INPUT_TOKENS = "gen_ai.usage.input_tokens";
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens";
    CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens";
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens";
    CONVERSATION_ID = "gen_ai.conversation.id";
    AGENT_NAME = "gen_ai.agent.name";
    PROMPT_NAME = "gen_ai.prompt.name";
    PROMPT_VERSION = "gen_ai.prompt.version";
    TOOL_NAME = "gen_ai.tool.name";
    TOOL_TYPE = "gen_ai.tool.type";
    TOOL_CALL_ID = "gen_ai.tool.call.id";
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments";
    TOOL_RESULT = "gen_ai.tool.call.result";
    SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions";
    INPUT_MESSAGES = "gen_ai.input.messages";
    OUTPUT_MESSAGES = "gen_ai.output.messages";
    TOOL_DEFINITIONS = "gen_ai.tool.definitions";
    ERROR_TYPE = "error.type";
    SERVICE_NAME = "service.name";
    SERVICE_VERSION = "service.version";
    ENVIRONMENT = "deployment.environment.name";
    USER_ID = "user.id";
    SESSION_ID = "session.id";

    SPAN_KIND = "loopdeck.span.kind";
    RUN_ID = "loopdeck.run.id";
    PARENT_RUN_ID = "loopdeck.run.parent_run_id";
    RUN_STATUS = "loopdeck.run.status";
    RUN_TASK = "loopdeck.run.task";
    RUN_ANSWER = "loopdeck.run.answer";
    RUN_TASK_ID = "loopdeck.run.task_id";
    RUN_TRIAL = "loopdeck.run.trial";
    RUN_TAGS = "loopdeck.run.tags";
    RUN_PROMPT_HASH = "loopdeck.run.prompt_hash";
    RUN_SOURCE = "loopdeck.run.source";
    RUN_TURNS = "loopdeck.run.turns";
    STOP_REASON = "loopdeck.stop.reason";
    STOP_TRIGGER = "loopdeck.stop.trigger";
    STOP_ALIASES = "loopdeck.stop.aliases";
    STOP_EVIDENCE = "loopdeck.stop.evidence";
    TURN_INDEX = "loopdeck.turn.index";
    TURN_TOOL_NAMES = "loopdeck.turn.tool_names";
    TURN_ARGUMENTS = "loopdeck.turn.arguments";
    TURN_TOOL_STATUSES = "loopdeck.turn.tool_statuses";
    TURN_INPUT_TOKENS = "loopdeck.turn.input_tokens";
    TURN_OUTPUT_TOKENS = "loopdeck.turn.output_tokens";
    TURN_LATENCY_MS = "loopdeck.turn.latency_ms";
    BUDGET_PREFIX = "loopdeck.budget.";
    BUDGET_TURNS_LIMIT = "loopdeck.budget.turns.limit";
    BUDGET_TOKENS_LIMIT = "loopdeck.budget.tokens.limit";
    CALL_INDEX = "loopdeck.tool.call_index";
    TOOL_STATUS = "loopdeck.tool.status";
    TOOL_ERROR_CLASS = "loopdeck.tool.error_class";
    TOOL_FAILURE_STAGE = "loopdeck.tool.failure_stage";
    TOOL_ARGS_HASH = "loopdeck.tool.args_hash";
    TOOL_RESULT_HASH = "loopdeck.tool.result_hash";
    TOOL_ATTEMPTS = "loopdeck.tool.attempts";
    TOOL_RISK = "loopdeck.tool.risk";
    TOOL_TRUNCATED = "loopdeck.tool.truncated";
    TOOL_PERMISSION = "loopdeck.tool.permission";
    CHILD_RUN_ID = "loopdeck.tool.child_run_id";
    CHILD_STOP_REASON = "loopdeck.tool.child_stop_reason";
    MODEL_ATTEMPTS = "loopdeck.model.attempts";
    CONTEXT_HEAD = "loopdeck.model.context_head";
    FIRST_POSITION = "loopdeck.model.first_position";
    COST_USD = "loopdeck.cost.usd";
    REPLAY_OF = "loopdeck.replay.of";
    REPLAY_MODE = "loopdeck.replay.mode";
}

/// Values of `gen_ai.operation.name` and of [`SPAN_KIND`].
pub mod operation {
    /// A whole run.
    pub const INVOKE_AGENT: &str = "invoke_agent";
    /// One model call, all its attempts.
    pub const CHAT: &str = "chat";
    /// One tool call.
    pub const EXECUTE_TOOL: &str = "execute_tool";
    /// One turn; ours, so it is a value of [`super::SPAN_KIND`] and never of the registry's operation.
    pub const TURN: &str = "turn";
}
