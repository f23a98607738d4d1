//! Reading columns whose values anybody may have sent.
//!
//! Place in the flow: row -> struct, for rules and pages. A negative count or a hash that is none is unknown; it
//! must not stop the rules or take a page away from everybody else's runs.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole number that fits; anything else is unknown.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_i64().and_then(|number| T::try_from(number).ok()))
}

/// An id or hash in its spelling; anything else is unknown.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T: std::str::FromStr>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value.as_str().and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::id::SpanId;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Row {
        #[serde(deserialize_with = "whole")]
        count: Option<u32>,
        #[serde(deserialize_with = "parsed")]
        span: Option<SpanId>,
    }

    #[test]
    fn what_is_no_count_or_no_id_is_unknown() {
        for (text, count, known) in [
            (r#"{"count": 7, "span": "00f067aa0ba902b7"}"#, Some(7), true),
            (r#"{"count": -7, "span": "zzz"}"#, None, false),
            (r#"{"count": 99999999999, "span": null}"#, None, false),
            (r#"{"count": "170141183460469231731687303715884105727", "span": 7}"#, None, false),
            (r#"{"count": 1.5, "span": []}"#, None, false),
        ] {
            let row: Row = serde_json::from_str(text).unwrap();
            assert_eq!((row.count, row.span.is_some()), (count, known), "{text}");
        }
    }
}
