//! Attribute values: OTLP's `AnyValue` and JSON.
//!
//! Place in the flow: used where spans are decoded and encoded. Integers stay integers and doubles doubles;
//! bytes become base64 text, and the doubles that JSON cannot spell become the words that protobuf's JSON uses.

use super::MAX_DEPTH;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use serde_json::{Map, Number, Value};

/// Attributes as a map: the last of equal keys wins.
pub(super) fn map(attributes: Vec<KeyValue>) -> Result<Map<String, Value>, String> {
    nested_map(attributes, 0)
}

/// A map as attributes.
pub(super) fn attributes(map: &Map<String, Value>) -> Vec<KeyValue> {
    map.iter().map(|(key, value)| key_value(key, value)).collect()
}

/// One attribute.
pub(super) fn key_value(key: &str, value: &Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..KeyValue::default() }
}

fn nested_map(attributes: Vec<KeyValue>, depth: usize) -> Result<Map<String, Value>, String> {
    let mut map = Map::new();
    for attribute in attributes {
        let value = match attribute.value {
            Some(value) => {
                json(value, depth).map_err(|reason| format!("attribute `{}` {reason}", attribute.key))?
            }
            None => Value::Null,
        };
        map.insert(attribute.key, value);
    }
    Ok(map)
}

fn json(value: AnyValue, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(match value.value {
        None | Some(Any::StringValueStrindex(_)) => Value::Null,
        Some(Any::StringValue(text)) => Value::String(text),
        Some(Any::BoolValue(yes)) => Value::Bool(yes),
        Some(Any::IntValue(number)) => Value::from(number),
        Some(Any::DoubleValue(number)) => double(number),
        Some(Any::BytesValue(bytes)) => Value::String(STANDARD.encode(bytes)),
        Some(Any::ArrayValue(list)) => {
            Value::Array(list.values.into_iter().map(|one| json(one, depth + 1)).collect::<Result<_, _>>()?)
        }
        Some(Any::KvlistValue(list)) => Value::Object(nested_map(list.values, depth + 1)?),
    })
}

fn double(number: f64) -> Value {
    Number::from_f64(number).map_or_else(
        || {
            Value::from(if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            })
        },
        Value::Number,
    )
}

fn any(value: &Value) -> AnyValue {
    AnyValue {
        value: match value {
            Value::Null => None,
            Value::Bool(yes) => Some(Any::BoolValue(*yes)),
            Value::Number(number) => Some(
                number
                    .as_i64()
                    .map_or_else(|| Any::DoubleValue(number.as_f64().unwrap_or(f64::NAN)), Any::IntValue),
            ),
            Value::String(text) => Some(Any::StringValue(text.clone())),
            Value::Array(items) => {
                Some(Any::ArrayValue(ArrayValue { values: items.iter().map(any).collect() }))
            }
            Value::Object(members) => Some(Any::KvlistValue(KeyValueList { values: attributes(members) })),
        },
    }
}
