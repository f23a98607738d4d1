//! Bodies as senders write them, good and bad, and what becomes of their spans.

use super::*;
use crate::span::Span;
use proptest::prelude::*;
use serde_json::{Value, json};

const TRACE: &str = "5b8efff798038103d269b633813fc60c";

/// A body of one span that has this on top of its ids.
fn body(more: &Value) -> Vec<u8> {
    let mut span = json!({"traceId": TRACE, "spanId": "eee19b7ec3c1b174", "name": "chat"});
    span.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string().into_bytes()
}

fn attribute(value: &Value) -> Value {
    json!({"attributes": [{"key": "k", "value": value}]})
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({"intValue": 1}), |inner, _| json!({"arrayValue": {"values": [inner]}}))
}

fn spans(body: &[u8]) -> Vec<Span> {
    let decoded = decode_json(body).unwrap();
    assert_eq!(decoded.rejected, []);
    decoded.spans
}

#[test]
fn values_that_protobufs_json_allows_are_read_as_what_they_mean() {
    for (value, expected) in [
        (json!({"intValue": "42"}), json!(42)),
        (json!({"intValue": 42}), json!(42)),
        (json!({"intValue": 42.0}), json!(42)),
        (json!({"doubleValue": "1.5"}), json!(1.5)),
        (json!({"doubleValue": 2}), json!(2.0)),
        (json!({"doubleValue": "NaN"}), json!("NaN")),
        (json!({"doubleValue": "-Infinity"}), json!("-Infinity")),
        (json!({"arrayValue": {}}), json!([])),
        (json!({"kvlistValue": {}}), json!({})),
        (json!({"arrayValue": {"values": null}}), json!([])),
        (
            json!({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": true}}]}}),
            json!({"a": true}),
        ),
        (json!({"bytesValue": "aGk="}), json!("aGk=")),
        (json!({"bytesValue": "aGk"}), json!("aGk=")),
        (json!({"stringValue": null}), Value::Null),
        (json!({"futureValue": 1}), Value::Null),
        (json!({}), Value::Null),
        (Value::Null, Value::Null),
    ] {
        assert_eq!(spans(&body(&attribute(&value)))[0].attributes["k"], expected, "{value}");
    }
}

#[test]
fn nulls_and_numbers_as_text_are_defaults_and_numbers_everywhere() {
    let span = &spans(&body(&json!({
        "parentSpanId": null, "attributes": null, "events": null, "links": null, "status": null, "traceState": null,
        "kind": "3", "startTimeUnixNano": "1000", "endTimeUnixNano": 2000, "droppedAttributesCount": "2",
        "unknown": {"x": 1}
    })))[0];
    assert_eq!(
        (span.kind, span.started_at_ns, span.ended_at_ns, span.open),
        (3, Some(1000), Some(2000), false)
    );
    assert_eq!(span.attributes["loopdeck.otlp.dropped_attributes"], json!(2));
}

#[test]
fn ids_are_hexadecimal_in_any_case_and_zeros_mean_no_parent() {
    let text = String::from_utf8(body(&json!({"parentSpanId": "0000000000000000"}))).unwrap();
    let upper = text.replace(TRACE, &TRACE.to_uppercase());
    assert_eq!(spans(upper.as_bytes())[0].trace_id.to_string(), TRACE);
    assert_eq!(spans(upper.as_bytes())[0].parent_span_id, None);
}

#[test]
fn a_bad_span_is_rejected_by_name_and_its_neighbours_are_kept() {
    for (more, reason) in [
        (json!({"traceId": "5b8eff"}), "traceId has 3 bytes, 16 are wanted"),
        (json!({"traceId": "0".repeat(32)}), "traceId is all zeros, which OTLP calls invalid"),
        (
            json!({"traceId": "W47/95gDgQPSabYzgT/GDA=="}),
            "traceId must be hexadecimal digits (base64 is not OTLP)",
        ),
        (json!({"spanId": null}), "spanId is missing"),
        (json!({"spanId": "eee19b7ec3c1b17"}), "spanId must be hexadecimal digits (base64 is not OTLP)"),
        (json!({"parentSpanId": "eee1"}), "parentSpanId has 2 bytes, 8 are wanted"),
        (json!({"kind": "SPAN_KIND_CLIENT"}), "kind must be a whole number that fits"),
        (json!({"startTimeUnixNano": -1}), "startTimeUnixNano must be a whole number that fits"),
        (
            json!({"startTimeUnixNano": "18446744073709551615"}),
            "startTimeUnixNano 18446744073709551615 lies beyond the year 2262",
        ),
        (json!({"attributes": {"k": 1}}), "attributes must be a list"),
        (json!({"name": 7}), "name must be text"),
        (attribute(&json!({"intValue": "many"})), "attribute `k`: intValue must be a 64-bit integer"),
        (attribute(&nested(25)), "attribute `k` is nested deeper than 24 levels"),
        (json!({"links": [{"traceId": TRACE}]}), "link spanId is missing"),
    ] {
        let mut request: Value = serde_json::from_slice(&body(&more)).unwrap();
        let good: Value = serde_json::from_slice(&body(&json!({}))).unwrap();
        let good = good["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone();
        request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut().unwrap().push(good);
        let decoded = decode_json(request.to_string().as_bytes()).unwrap();
        assert_eq!(decoded.spans.len(), 1, "{more}");
        assert_eq!(decoded.rejected[0].reason, reason, "{more}");
        assert_eq!(decoded.rejected[0].place, "resourceSpans[0].scopeSpans[0].spans[0]");
    }
}

#[test]
fn the_deepest_allowed_value_is_read_from_both_encodings() {
    let kvlist = (0..MAX_DEPTH).fold(
        json!({"intValue": 1}),
        |inner, _| json!({"kvlistValue": {"values": [{"key": "a", "value": inner}]}}),
    );
    for value in [nested(MAX_DEPTH), kvlist] {
        let from_json = spans(&body(&attribute(&value)));
        assert_eq!(decode_protobuf(&encode(&from_json).encode_to_vec()).unwrap().spans, from_json);
    }
}

#[test]
fn a_body_of_another_shape_is_an_error_that_names_the_place() {
    for (body, told) in [
        (
            "{\"resourceSpans\":{}}",
            "the body is not an ExportTraceServiceRequest: resourceSpans must be a list",
        ),
        ("[]", "the body is not an ExportTraceServiceRequest: the body must be an object"),
        (
            "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":7}]}]}",
            "the body is not an ExportTraceServiceRequest: resourceSpans[0].scopeSpans[0].spans must be a list",
        ),
        ("{", "the body is not JSON: EOF while parsing an object at line 1 column 1"),
    ] {
        assert_eq!(decode_json(body.as_bytes()).unwrap_err().to_string(), told);
    }
    assert!(decode_json(&b"[".repeat(100_000)).is_err(), "depth is bounded");
    assert!(decode_protobuf(b"\xff\xff\xff").is_err());
}

#[test]
fn keys_in_snake_case_are_told_and_an_empty_request_is_fine() {
    for (body, warned) in [
        (r#"{"resource_spans":[{"scope_spans":[{"spans":[{}]}]}]}"#, true),
        (r#"{"resourceSpans":[{"scope_spans":[{"spans":[{}]}]}]}"#, true),
        ("{}", false),
        (r#"{"resourceSpans":null}"#, false),
        (r#"{"resourceSpans":[]}"#, false),
        ("", false),
    ] {
        let decoded = decode_json(body.as_bytes()).unwrap();
        assert_eq!(decoded.partial_success().is_some(), warned, "{body}");
        assert_eq!(decoded.partial_success().map_or(0, |told| told.rejected_spans), 0);
    }
}

#[test]
fn a_resource_that_cannot_be_read_rejects_its_own_spans_only() {
    let mut request: Value = serde_json::from_slice(&body(&json!({}))).unwrap();
    let mut bad = request["resourceSpans"][0].clone();
    bad["resource"] = json!({"attributes": [{"key": "a", "value": {"boolValue": "maybe"}}]});
    request["resourceSpans"].as_array_mut().unwrap().push(bad);
    let decoded = decode_json(request.to_string().as_bytes()).unwrap();
    assert_eq!(decoded.spans.len(), 1);
    insta::assert_snapshot!(
        decoded.partial_success().unwrap().error_message,
        @"resourceSpans[1].scopeSpans[0].spans[0]: attribute `a`: boolValue must be true or false"
    );
}

#[test]
fn the_last_of_equal_keys_wins() {
    let more = json!({"attributes": [
        {"key": "k", "value": {"intValue": 1}}, {"key": "k", "value": {"stringValue": "two"}}
    ]});
    assert_eq!(spans(&body(&more))[0].attributes["k"], json!("two"));
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_protobuf(&bytes);
        let _ = decode_json(&bytes);
    }

    #[test]
    fn a_span_survives_protobuf(
        kind in 0..6_i32,
        start in 1..i64::MAX,
        double in any::<f64>().prop_filter("JSON has no such number", |x| x.is_finite()),
        int in any::<i64>(),
        text in ".{0,12}",
    ) {
        let more = json!({"kind": kind, "startTimeUnixNano": start.to_string(), "endTimeUnixNano": "1",
            "status": {"code": 2, "message": text},
            "events": [{"name": text, "timeUnixNano": "5", "attributes": [{"key": "e", "value": {"boolValue": true}}]}],
            "links": [{"traceId": TRACE, "spanId": "eee19b7ec3c1b174"}],
            "attributes": [
                {"key": "d", "value": {"doubleValue": double}}, {"key": "i", "value": {"intValue": int.to_string()}},
                {"key": text, "value": {"arrayValue": {"values": [{"stringValue": text}]}}}
            ]});
        let before = spans(&body(&more));
        let after = decode_protobuf(&encode(&before).encode_to_vec()).unwrap();
        prop_assert_eq!(after.spans, before);
    }

    #[test]
    fn a_double_is_the_same_from_json_text_as_from_protobuf(double in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        let read = spans(&body(&attribute(&json!({"doubleValue": double}))));
        prop_assert_eq!(read[0].attributes["k"].as_f64().map(f64::to_bits), Some(double.to_bits()));
    }
}
