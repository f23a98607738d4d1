//! The wall clock of the server: the one place that reads it.
//!
//! Place in the flow: everything that decides is given `now_ns`; only the loops that call it ask here.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, in whole microseconds: what the index keeps, so an instant read back is the one written.
#[must_use]
pub(crate) fn now_ns() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the server's clock is this function")]
    let now = SystemTime::now();
    let micros = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    i64::try_from(micros).unwrap_or(0).saturating_mul(1000)
}

/// An instant as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub(crate) fn spelled(at_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at_ns))
        .map_or_else(|_| at_ns.to_string(), |at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_spelled_in_utc() {
        assert_eq!(spelled(1_795_292_886_619_386_416), "2026-11-21T20:28:06.619Z");
    }
}
