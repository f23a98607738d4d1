//! OTLP/JSON -> OTLP messages, as tolerant as protobuf's JSON mapping demands.
//!
//! Place in the flow: [`super::decode_json`]. The generated messages can read JSON too, but fail a whole batch on
//! what the mapping allows: nulls, empty lists without `values`, numbers as text, `"NaN"`. Here null means
//! default, unknown members are ignored, and a member of the wrong type rejects its span alone. Ids are
//! hexadecimal in any case; enums are numbers, names are forbidden.

use super::decode::{self, Origin};
use super::{BadBody, Decoded};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Reads a body. Lists above the spans must be lists; from the span down, errors stay with the span.
pub(super) fn request(body: &[u8]) -> Result<Decoded, BadBody> {
    let body: Value = serde_json::from_slice(body).map_err(|error| BadBody::Json(error.to_string()))?;
    let root = object(&body, "the body")?;
    let mut decoded = Decoded::default();
    for (r, one) in list(root, "resourceSpans", "")?.iter().enumerate() {
        let place = format!("resourceSpans[{r}]");
        resource_spans(object(one, &place)?, r, &place, &mut decoded)?;
    }
    if decoded.spans.is_empty() && decoded.rejected.is_empty() {
        decoded.warning = no_spans(root);
    }
    Ok(decoded)
}

fn resource_spans(one: &Object, r: usize, place: &str, decoded: &mut Decoded) -> Result<(), BadBody> {
    let shared = member(one, "resource", resource).and_then(decode::resource);
    for (s, one) in list(one, "scopeSpans", place)?.iter().enumerate() {
        let place = format!("{place}.scopeSpans[{s}]");
        let one = object(one, &place)?;
        let (shared, scope) = match member(one, "scope", scope) {
            Ok(scope) => (shared.clone(), scope),
            Err(reason) => (Err(reason), None),
        };
        let origin = Origin::new(shared, scope);
        for (n, one) in list(one, "spans", &place)?.iter().enumerate() {
            decode::keep(
                decoded,
                || decode::place(r, s, n),
                span(one).and_then(|span| decode::span(span, &origin)),
            );
        }
    }
    Ok(())
}

/// A body that holds something but no span: most often keys in snake_case, which OTLP tells us to ignore.
fn no_spans(root: &Object) -> Option<String> {
    let has_spans =
        root.get("resourceSpans").is_some_and(|one| one.as_array().is_some_and(|list| !list.is_empty()));
    let first = root.keys().find(|key| *key != "resourceSpans");
    match (has_spans, first) {
        (true, _) => {
            Some("the body holds resources but no span: keys are lowerCamelCase, such as `scopeSpans`".into())
        }
        (false, Some(key)) => {
            let key: String = key.chars().take(40).collect();
            Some(format!(
                "the body holds `{key}` but no span: keys are lowerCamelCase, such as `resourceSpans`"
            ))
        }
        (false, None) => None,
    }
}

fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Object, BadBody> {
    value.as_object().ok_or_else(|| BadBody::Shape { place: place.to_owned(), wanted: "an object" })
}

fn list<'a>(object: &'a Object, name: &str, place: &str) -> Result<&'a [Value], BadBody> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => {
            let place =
                [place, name].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(".");
            Err(BadBody::Shape { place, wanted: "a list" })
        }
    }
}

fn resource(value: &Value) -> Result<Resource, String> {
    let from = fields(value, "resource")?;
    Ok(Resource { attributes: each(from, "attributes", key_value)?, ..Resource::default() })
}

fn scope(value: &Value) -> Result<InstrumentationScope, String> {
    let from = fields(value, "scope")?;
    Ok(InstrumentationScope {
        name: text(from, "name")?,
        version: text(from, "version")?,
        ..InstrumentationScope::default()
    })
}

fn span(value: &Value) -> Result<otlp::Span, String> {
    let from = fields(value, "span")?;
    Ok(otlp::Span {
        trace_id: hex(from, "traceId")?,
        span_id: hex(from, "spanId")?,
        trace_state: text(from, "traceState")?,
        parent_span_id: hex(from, "parentSpanId")?,
        flags: number(from, "flags")?,
        name: text(from, "name")?,
        kind: number(from, "kind")?,
        start_time_unix_nano: number(from, "startTimeUnixNano")?,
        end_time_unix_nano: number(from, "endTimeUnixNano")?,
        attributes: each(from, "attributes", key_value)?,
        dropped_attributes_count: number(from, "droppedAttributesCount")?,
        events: each(from, "events", event)?,
        dropped_events_count: number(from, "droppedEventsCount")?,
        links: each(from, "links", link)?,
        dropped_links_count: number(from, "droppedLinksCount")?,
        status: member(from, "status", status)?,
    })
}

fn event(value: &Value) -> Result<otlp::span::Event, String> {
    let from = fields(value, "event")?;
    Ok(otlp::span::Event {
        time_unix_nano: number(from, "timeUnixNano")?,
        name: text(from, "name")?,
        attributes: each(from, "attributes", key_value)?,
        dropped_attributes_count: number(from, "droppedAttributesCount")?,
    })
}

fn link(value: &Value) -> Result<otlp::span::Link, String> {
    let from = fields(value, "link")?;
    Ok(otlp::span::Link {
        trace_id: hex(from, "traceId")?,
        span_id: hex(from, "spanId")?,
        trace_state: text(from, "traceState")?,
        attributes: each(from, "attributes", key_value)?,
        dropped_attributes_count: number(from, "droppedAttributesCount")?,
        flags: number(from, "flags")?,
    })
}

fn status(value: &Value) -> Result<otlp::Status, String> {
    let from = fields(value, "status")?;
    Ok(otlp::Status { code: number(from, "code")?, message: text(from, "message")? })
}

fn key_value(value: &Value) -> Result<KeyValue, String> {
    let from = fields(value, "attribute")?;
    let key = text(from, "key")?;
    let value = member(from, "value", any).map_err(|reason| format!("attribute `{key}`: {reason}"))?;
    Ok(KeyValue { key, value, ..KeyValue::default() })
}

/// The last member that says something wins, as it does in protobuf.
fn any(value: &Value) -> Result<AnyValue, String> {
    let mut found = None;
    for (name, value) in fields(value, "value")? {
        if value.is_null() {
            continue;
        }
        found = match name.as_str() {
            "stringValue" => Some(Any::StringValue(as_text(value, name)?)),
            "boolValue" => Some(Any::BoolValue(value.as_bool().ok_or_else(|| wrong(name, "true or false"))?)),
            "intValue" => Some(Any::IntValue(integer(value).ok_or_else(|| wrong(name, "a 64-bit integer"))?)),
            "doubleValue" => Some(Any::DoubleValue(double(value).ok_or_else(|| wrong(name, "a number"))?)),
            "bytesValue" => Some(Any::BytesValue(bytes(value).ok_or_else(|| wrong(name, "base64 text"))?)),
            "arrayValue" => {
                let values = each(fields(value, name)?, "values", any)?;
                Some(Any::ArrayValue(ArrayValue { values }))
            }
            "kvlistValue" => {
                let values = each(fields(value, name)?, "values", key_value)?;
                Some(Any::KvlistValue(KeyValueList { values }))
            }
            _ => found,
        };
    }
    Ok(AnyValue { value: found })
}

fn fields<'a>(value: &'a Value, name: &str) -> Result<&'a Object, String> {
    value.as_object().ok_or_else(|| wrong(name, "an object"))
}

/// A member that may be absent or null.
fn member<T>(
    from: &Object,
    name: &str,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    from.get(name).filter(|value| !value.is_null()).map(read).transpose()
}

/// A list that may be absent or null, and whose nulls are left out.
fn each<T>(from: &Object, name: &str, read: impl Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    match from.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().filter(|one| !one.is_null()).map(read).collect(),
        Some(_) => Err(wrong(name, "a list")),
    }
}

fn text(from: &Object, name: &str) -> Result<String, String> {
    Ok(member(from, name, |value| as_text(value, name))?.unwrap_or_default())
}

fn as_text(value: &Value, name: &str) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "text"))
}

/// A whole number, as a number or as text.
fn number<T: TryFrom<i128> + Default>(from: &Object, name: &str) -> Result<T, String> {
    let read = |value: &Value| {
        whole(value)
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| wrong(name, "a whole number that fits"))
    };
    Ok(member(from, name, read)?.unwrap_or_default())
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| number.as_f64().and_then(exact)),
        _ => None,
    }
}

/// `1e3` and `42.0` are whole too, as long as a double tells them apart from their neighbours.
fn exact(number: f64) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
    let whole = (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i128);
    whole
}

fn integer(value: &Value) -> Option<i64> {
    whole(value).and_then(|number| i64::try_from(number).ok())
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            other => other.trim().parse().ok(),
        },
        _ => None,
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?.trim_end_matches('=');
    STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
}

fn hex(from: &Object, name: &str) -> Result<Vec<u8>, String> {
    let text = text(from, name)?;
    let pairs = text.as_bytes().chunks(2);
    let decoded: Option<Vec<u8>> = pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    decoded.ok_or_else(|| wrong(name, "hexadecimal digits (base64 is not OTLP)"))
}

const fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

fn wrong(name: &str, wanted: &str) -> String {
    format!("{name} must be {wanted}")
}
