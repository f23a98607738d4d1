//! What rows say of spans of each dialect.

use super::*;
use crate::id::{SpanId, TraceId};
use crate::span::{SpanEvent, SpanStatus};
use serde_json::json;

pub(crate) fn span(scope: &str, attributes: &Value) -> Span {
    Span {
        trace_id: TraceId::new([7; 16]),
        span_id: SpanId::new([1; 8]),
        parent_span_id: None,
        name: "span".to_owned(),
        kind: 3,
        started_at_ns: Some(1_000_000),
        ended_at_ns: Some(3_500_000),
        open: false,
        status: SpanStatus::default(),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
        events: Vec::new(),
        links: Vec::new(),
        resource: Map::new(),
        scope: scope.to_owned(),
        scope_version: String::new(),
    }
}

fn row(scope: &str, attributes: &Value) -> SpanRow {
    rows(&span(scope, attributes), Origin::Otlp).0
}

#[test]
fn a_model_call_reads_the_same_in_every_dialect() {
    let told = [
        (
            "x",
            json!({"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
            "gen_ai.response.finish_reasons": ["tool_calls"], "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2,
            "gen_ai.response.id": "r"}),
        ),
        (
            "oi",
            json!({"openinference.span.kind": "LLM", "llm.provider": "openai", "llm.model_name": "m", "llm.finish_reason": "tool_calls",
            "llm.token_count.prompt": 5, "llm.token_count.completion": 2, "output.value": "{\"id\":\"r\"}"}),
        ),
        (
            "tl",
            json!({"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m", "gen_ai.response.id": "r",
            "gen_ai.usage.prompt_tokens": 5, "gen_ai.usage.completion_tokens": 2, "gen_ai.response.finish_reason": "tool_calls"}),
        ),
        (
            "ai",
            json!({"ai.operationId": "ai.generateText.doGenerate", "ai.model.provider": "openai.chat", "ai.model.id": "m",
            "ai.response.finishReason": "tool-calls", "ai.usage.promptTokens": 5, "ai.usage.completionTokens": 2, "ai.response.id": "r"}),
        ),
        (
            "lf",
            json!({"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m", "gen_ai.system": "openai",
            "langfuse.observation.usage_details": "{\"input\":5,\"output\":2}", "gen_ai.response.id": "r",
            "gen_ai.response.finish_reasons": ["tool_use"]}),
        ),
    ];
    for (scope, attributes) in told {
        let row = row(scope, &attributes);
        let r = &row.reading;
        assert_eq!(row.operation.as_deref(), Some("chat"), "{scope}");
        assert_eq!(
            (r.provider.as_deref(), r.request_model.as_deref()),
            (Some("openai"), Some("m")),
            "{scope}"
        );
        assert_eq!((r.input_tokens, r.output_tokens), (Some(5), Some(2)), "{scope}");
        assert_eq!(
            (r.finish_reason.as_deref(), r.response_id.as_deref()),
            (Some("tool_use"), Some("r")),
            "{scope}"
        );
    }
}

#[test]
fn unknown_tokens_are_none_and_exclusive_input_is_made_inclusive_and_flagged() {
    let silent = row("x", &json!({"gen_ai.operation.name": "chat"}));
    assert_eq!((silent.reading.input_tokens, silent.input_was_exclusive), (None, false));
    let exclusive = row(
        "x",
        &json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 90,
            "gen_ai.usage.cache_creation.input_tokens": 5}),
    );
    assert_eq!((exclusive.reading.input_tokens, exclusive.input_was_exclusive), (Some(105), true));
}

#[test]
fn a_tool_call_of_a_foreign_span_ends_as_its_span_says() {
    let tool = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.call.arguments": "{\"b\":1,\"a\":2}"});
    let status = |code: i32, event: Option<&str>, open: bool| {
        let mut span = span("x", &tool);
        span.status.code = code;
        span.open = open;
        span.events.extend(event.map(|kind| SpanEvent {
            name: "exception".to_owned(),
            at_ns: 1,
            attributes: json!({ "exception.type": kind }).as_object().cloned().unwrap(),
        }));
        rows(&span, Origin::Otlp).0.tool_status
    };
    assert_eq!(status(0, None, false).as_deref(), Some("ok"));
    assert_eq!(status(2, None, false).as_deref(), Some("error"));
    assert_eq!(status(0, Some("ValueError"), false).as_deref(), Some("error"));
    assert_eq!(status(1, Some("ValueError"), false).as_deref(), Some("ok"), "recovered, and said so");
    assert_eq!(status(2, Some("httpx.ReadTimeout"), false).as_deref(), Some("timeout"));
    assert_eq!(status(0, None, true), None, "nobody knows yet");
    let row = rows(&span("x", &tool), Origin::Otlp).0;
    assert_eq!(row.args_hash, Some(canonical::args_hash("add", "{\"a\":2.0,\"b\":1}").to_string()));
}

#[test]
fn a_tape_outranks_what_is_received_and_an_ended_span_an_open_one() {
    let ended = span("loopdeck", &json!({}));
    let open = Span { open: true, ended_at_ns: None, ..ended.clone() };
    let ranks =
        [(&open, Origin::Otlp), (&ended, Origin::Otlp), (&open, Origin::Tape), (&ended, Origin::Tape)]
            .map(|(span, origin)| rows(span, origin).0.rank);
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
}

#[test]
fn a_chain_is_no_agent_and_a_plain_span_is_nothing_of_a_run() {
    assert_eq!(row("oi", &json!({"openinference.span.kind": "CHAIN"})).operation, None);
    assert_eq!(row("http", &json!({"http.route": "/"})).operation, None);
    assert_eq!(row("http", &json!({})).run_id, "07".repeat(16));
}

#[test]
fn hostile_attributes_neither_panic_nor_pass_for_numbers() {
    let odd = row(
        "loopdeck",
        &json!({"gen_ai.operation.name": ["chat", 1], "gen_ai.usage.input_tokens": 1e300, "gen_ai.usage.output_tokens": "∞",
            "gen_ai.input.messages": "[[[", "loopdeck.turn.index": {"a": 1}, "loopdeck.model.first_position": i64::MAX,
            "gen_ai.output.messages": [1, null, {"role": 3}], "gen_ai.usage.cache_read.input_tokens": i64::MAX}),
    );
    assert_eq!((odd.reading.input_tokens, odd.reading.output_tokens, odd.own.turn), (None, None, None));
}

#[test]
fn a_span_that_ended_before_it_began_has_no_latency() {
    let mut span = span("x", &json!({}));
    span.ended_at_ns = Some(0);
    assert_eq!(rows(&span, Origin::Otlp).0.latency_ms, None);
}
