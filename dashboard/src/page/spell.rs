//! Figures and names as people read them.
//!
//! Place in the flow: used by every page. Unknown is a dash, never a zero.

/// What stands where nothing is known.
pub(super) const UNKNOWN: &str = "–";

/// A count with its thousands apart.
pub(super) fn count(number: Option<u64>) -> String {
    let Some(number) = number else { return UNKNOWN.to_owned() };
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A time span.
pub(super) fn duration(ms: Option<f64>) -> String {
    match ms {
        None => UNKNOWN.to_owned(),
        Some(ms) if ms < 1000.0 => format!("{ms:.0} ms"),
        Some(ms) if ms < 60_000.0 => format!("{:.1} s", ms / 1000.0),
        Some(ms) => format!("{:.0} min", ms / 60_000.0),
    }
}

/// A sum of money in US dollars.
pub(super) fn dollars(usd: Option<f64>) -> String {
    usd.map_or_else(|| UNKNOWN.to_owned(), |usd| format!("${usd:.4}"))
}

/// A share in per cent.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A text, or a dash.
pub(super) fn text(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(UNKNOWN).to_owned()
}

/// How long ago an instant was, in one unit.
pub(super) fn ago(at_ns: i64, now_ns: i64) -> String {
    let seconds = (now_ns - at_ns).max(0) / 1_000_000_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A text cut to so many characters.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A status with a sign, so that colour never carries the meaning alone.
pub(super) fn sign(status: &str) -> &'static str {
    match status {
        "completed" | "ok" | "resolved" => "✓",
        "running" => "…",
        "paused" => "‖",
        "stopped" | "timeout" | "denied" => "!",
        "" => "?",
        _ => "✗",
    }
}

/// A name as one segment of a path: anything but letters, digits and a few signs is percent-encoded.
pub(crate) fn path_segment(name: &str) -> String {
    use std::fmt::Write as _;
    name.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_spelled_for_people_and_unknown_is_no_zero() {
        assert_eq!(count(Some(1_234_567)).replace('\u{202f}', " "), "1 234 567");
        assert_eq!((count(Some(999)), count(None)), ("999".into(), "–".into()));
        assert_eq!(
            (duration(Some(12.4)), duration(Some(2500.0)), duration(None)),
            ("12 ms".into(), "2.5 s".into(), "–".into())
        );
        assert_eq!(ago(0, 7200 * 1_000_000_000), "2 h");
        assert_eq!((cut("häuser", 2), cut("ab", 2)), ("hä…".into(), "ab".into()));
        assert_eq!(path_segment("a/../<b>\"é"), "a%2F%2E%2E%2F%3Cb%3E%22%C3%A9");
    }
}
