//! What only our own spans say: names under `loopdeck.*`.

use crate::attribute as name;
use crate::span::Span;
use serde_json::Value;

/// The fields of a row that come from `loopdeck.*` attributes.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "each field is the column of the same name")]
pub struct Own {
    pub run_id: Option<String>,
    pub parent_run_id: Option<String>,
    pub turn: Option<i64>,
    pub run_status: Option<String>,
    pub stop_reason: Option<String>,
    pub stop_evidence: Option<String>,
    pub max_turns: Option<i64>,
    pub max_tokens: Option<i64>,
    pub prompt_hash: Option<String>,
    pub task: Option<String>,
    pub answer: Option<String>,
    pub task_id: Option<String>,
    pub trial: Option<i64>,
    pub tags: Option<String>,
    pub replay_of: Option<String>,
    pub replay_mode: Option<String>,
    pub context_head: Option<String>,
    pub call_index: Option<i64>,
    pub args_hash: Option<String>,
    pub result_hash: Option<String>,
    pub tool_status: Option<String>,
    pub error_class: Option<String>,
    pub failure_stage: Option<String>,
    pub permission: Option<String>,
    pub attempts: Option<i64>,
}

pub(super) fn read(span: &Span) -> Own {
    let text = |name: &str| match span.attributes.get(name)? {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let int = |name: &str| {
        let value = span.attributes.get(name)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "limits are whole and small; others are no limits"
        )]
        value
            .as_i64()
            .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
    };
    Own {
        run_id: text(name::RUN_ID),
        parent_run_id: text(name::PARENT_RUN_ID),
        turn: int(name::TURN_INDEX),
        run_status: text(name::RUN_STATUS),
        stop_reason: text(name::STOP_REASON),
        stop_evidence: text(name::STOP_EVIDENCE),
        max_turns: int(name::BUDGET_TURNS_LIMIT),
        max_tokens: int(name::BUDGET_TOKENS_LIMIT),
        prompt_hash: text(name::RUN_PROMPT_HASH),
        task: text(name::RUN_TASK),
        answer: text(name::RUN_ANSWER),
        task_id: text(name::RUN_TASK_ID),
        trial: int(name::RUN_TRIAL),
        tags: text(name::RUN_TAGS),
        replay_of: text(name::REPLAY_OF),
        replay_mode: text(name::REPLAY_MODE),
        context_head: text(name::CONTEXT_HEAD),
        call_index: int(name::CALL_INDEX),
        args_hash: text(name::TOOL_ARGS_HASH),
        result_hash: text(name::TOOL_RESULT_HASH),
        tool_status: text(name::TOOL_STATUS),
        error_class: text(name::TOOL_ERROR_CLASS),
        failure_stage: text(name::TOOL_FAILURE_STAGE),
        permission: text(name::TOOL_PERMISSION),
        attempts: int(name::TOOL_ATTEMPTS).or_else(|| int(name::MODEL_ATTEMPTS)),
    }
}
