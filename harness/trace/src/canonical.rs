//! One spelling for JSON values that mean the same, so that equal calls hash equally.
//!
//! Place in the flow: the driver hashes arguments and results with it, rows do it for foreign spans, replay
//! matches recorded answers by it. Rules: keys in order of code points (the order of their UTF-8 bytes), no
//! white space, numbers by value (`2`, `2.0` and `2e0` are one), strings in NFC. `1`, `true` and `"1"` stay
//! apart. Integers beyond 64 bits keep the precision serde_json gives them, that of a double.
//! Source: RFC 8785, with number equality and NFC added.

use crate::id::Hash;
use serde_json::{Number, Value};
use std::fmt::Write as _;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// The canonical text of a value.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// The canonical text of JSON text; the text itself, trimmed, where it is not JSON.
#[must_use]
pub fn canonical_text(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.trim().to_owned(), |value| canonical(&value))
}

/// The hash that identifies a call: tool name and canonical arguments.
#[must_use]
pub fn args_hash(tool_name: &str, arguments: &str) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool_name.as_bytes());
    hasher.update(&[0]);
    hasher.update(canonical_text(arguments).as_bytes());
    Hash::new(*hasher.finalize().as_bytes())
}

/// The hash that identifies a result: equal for results that say the same.
#[must_use]
pub fn result_hash(result: &str) -> Hash {
    Hash::of(canonical_text(result).as_bytes())
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, &map[key]);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    // 2^53: above it a double no longer tells neighbouring integers apart, so only exact integers are kept as such.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
            let _ = write!(out, "{}", float as i64);
        }
        _ => {
            let _ = write!(out, "{number}");
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    let normal: std::borrow::Cow<'_, str> = match is_nfc(text) {
        true => text.into(),
        false => text.nfc().collect::<String>().into(),
    };
    // Serialising a string into a string cannot fail.
    out.push_str(&serde_json::to_string(normal.as_ref()).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_the_same_arguments_are_one() {
        for (a, b) in [
            (r#"{"b":1,"a":2}"#, r#"{ "a" : 2.0, "b": 1e0 }"#),
            ("\"e\u{301}\"", "\"\u{e9}\""),
            (r#"[1, 2]"#, "[1,2]"),
            ("-0.0", "0"),
        ] {
            assert_eq!(canonical_text(a), canonical_text(b), "{a} and {b}");
        }
    }

    #[test]
    fn different_meanings_stay_apart() {
        let texts = ["1", "true", "\"1\"", "1.5", "[1]", "null", "9007199254740993", "9007199254740992"];
        for (index, a) in texts.iter().enumerate() {
            for b in &texts[index + 1..] {
                assert_ne!(canonical_text(a), canonical_text(b));
            }
        }
    }

    #[test]
    fn what_is_not_json_is_kept_as_it_is() {
        assert_eq!(canonical_text(" {broken "), "{broken");
    }

    proptest! {
        #[test]
        fn canonical_text_is_its_own_canonical_text(text in r#"[\[\]{}",:0-9a-c. ]{0,24}"#) {
            let once = canonical_text(&text);
            prop_assert_eq!(canonical_text(&once), once);
        }
    }
}
