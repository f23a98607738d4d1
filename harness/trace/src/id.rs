//! Names of things: newtypes, so that a run's name is never passed where a span's belongs.
//!
//! Place in the flow: used by every room. Only [`crate::id`] knows how an id is spelled.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// A text that is no id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted} hexadecimal digits")]
pub struct BadId {
    text: String,
    wanted: usize,
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// The id made of these bytes.
            #[must_use]
            pub const fn new(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            /// The bytes of the id.
            #[must_use]
            pub const fn bytes(&self) -> &[u8; $bytes] {
                &self.0
            }

            /// Whether every byte is zero, which OTLP calls invalid.
            #[must_use]
            pub fn is_zero(&self) -> bool {
                self.0.iter().all(|byte| *byte == 0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Ten or more of them stand in each turn's lines: no formatting machinery for every byte.
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let mut text = [0; $bytes * 2];
                for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
                    pair[0] = DIGITS[usize::from(byte >> 4)];
                    pair[1] = DIGITS[usize::from(byte & 15)];
                }
                f.write_str(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                unhex(text).map(Self).ok_or_else(|| BadId { text: text.to_owned(), wanted: $bytes * 2 })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

const fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

hex_id! {
    /// A trace of OpenTelemetry: 16 bytes, 32 hexadecimal digits.
    TraceId, 16
}
hex_id! {
    /// A span of OpenTelemetry: 8 bytes, 16 hexadecimal digits.
    SpanId, 8
}
hex_id! {
    /// The BLAKE3 of some content: names a blob, a message, a frame or a node of a conversation.
    Hash, 32
}

impl Hash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The first 16 hexadecimal digits, for columns and screens where the whole would only be noise.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..16].to_owned()
    }
}

/// A run's name. Our own runs: 16 hexadecimal digits drawn at random; runs of foreign traces: the trace id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Takes an id that already has a spelling.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Spells an id from a random draw.
    #[must_use]
    pub fn from_draw(draw: u64) -> Self {
        Self(format!("{draw:016x}"))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The span of one thing inside this run; the same thing always gets the same span.
    #[must_use]
    pub fn span(&self, what: &str, turn: u32, index: u32) -> SpanId {
        let hash = Hash::of(format!("{}\u{0}{what}\u{0}{turn}\u{0}{index}", self.0).as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.bytes()[..8]);
        SpanId::new(bytes)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which tool call of a run: the turn that asked for it (1-based) and its place in that turn (0-based).
///
/// Wire ids are echoed verbatim but never used as keys: providers re-use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// Turn, 1-based.
    pub turn: u32,
    /// Place among the calls of the turn, 0-based.
    pub index: u32,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {} call {}", self.turn, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_spelling_in_any_case() {
        let id: SpanId = "00F067AA0ba902b7".parse().unwrap();
        assert_eq!(id.to_string(), "00f067aa0ba902b7");
        assert!("00f067aa0ba902".parse::<SpanId>().is_err());
        assert!("zzf067aa0ba902b7".parse::<SpanId>().is_err());
    }

    #[test]
    fn spans_of_a_run_differ_by_what_turn_and_index() {
        let run = RunId::from_draw(7);
        assert_eq!(run.span("tool", 1, 0), run.span("tool", 1, 0));
        assert_ne!(run.span("tool", 1, 0), run.span("tool", 1, 1));
        assert_ne!(run.span("tool", 1, 0), run.span("chat", 1, 0));
    }
}
