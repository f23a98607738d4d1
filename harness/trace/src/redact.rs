//! Secrets leave before anything is hashed or stored.
//!
//! Place in the flow: every log writer passes its text through a [`Redactor`]. A secret becomes a placeholder
//! `[redacted:KIND:DIGEST]`, whose digest is keyed: equal secrets give equal placeholders, so repeats stay
//! detectable, and nobody without the key can test a guess. Placeholders match no pattern, so redacting twice
//! changes nothing. Patterns never cross a quotation mark, so JSON stays JSON.

use crate::id::Hash;
use regex::{Captures, Regex, RegexSet};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What is a secret: a name and a pattern, whose group `secret` is replaced (the whole match without one).
///
/// Shapes follow the issuers' public formats; the last looks at the names of JSON members and settings. Boundaries and
/// cases are those of ASCII: those of Unicode would make the engine give up its fast way on the first letter beyond,
/// which cost fifty times the time on such texts.
const PATTERNS: [(&str, &str); 9] = [
    ("private_key", r#"-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?-----END [A-Z ]*PRIVATE KEY-----"#),
    ("provider_key", r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    ("aws_key", r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)"),
    ("github_token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("slack_token", r"(?-u:\b)xox[abprs]-[A-Za-z0-9-]{10,}"),
    ("google_key", r"(?-u:\b)AIza[0-9A-Za-z_-]{35}"),
    ("jwt", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("bearer", r"(?i-u)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),
    (
        "named",
        r#"(?i-u:\\*"(?:[a-z0-9]+[_-])*(?:password|passwd|secret|api[_-]?key|access[_-]?token|refresh[_-]?token|authorization|client[_-]?secret)\\*"\s*:\s*\\*")(?P<secret>[^"\\]+)"#,
    ),
];

type Compiled = (RegexSet, Vec<(&'static str, Regex)>);

/// The patterns, compiled once a process: that takes longer than a replay. A clone would share the programs, but
/// not what they have learnt of their input so far.
static COMPILED: LazyLock<Result<Compiled, regex::Error>> = LazyLock::new(|| {
    let each = PATTERNS.iter().map(|(name, pattern)| Ok((*name, Regex::new(pattern)?)));
    Ok((RegexSet::new(PATTERNS.map(|(_, pattern)| pattern))?, each.collect::<Result<_, regex::Error>>()?))
});

/// Replaces secrets by placeholders.
#[derive(Debug)]
pub struct Redactor {
    key: [u8; 32],
    key_id: String,
    any: &'static RegexSet,
    patterns: &'static [(&'static str, Regex)],
}

impl Redactor {
    /// A redactor whose placeholders are keyed with `key`.
    ///
    /// # Errors
    /// Where a pattern is malformed.
    pub fn new(key: [u8; 32]) -> Result<Self, regex::Error> {
        let (any, patterns) = COMPILED.as_ref().map_err(Clone::clone)?;
        Ok(Self { key, key_id: Hash::of(&key).short()[..8].to_owned(), any, patterns })
    }

    /// Names the key without telling it.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The text without secrets; borrowed where there are none.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // Nearly every text holds no secret: that is asked first, since to tell which patterns match takes twice as long.
        if !self.any.is_match(text) {
            return Cow::Borrowed(text);
        }
        let hits = self.any.matches(text);
        let mut clean = Cow::Borrowed(text);
        for hit in &hits {
            let (name, pattern) = &self.patterns[hit];
            let next = pattern.replace_all(&clean, |found: &Captures<'_>| self.replacement(name, found));
            if let Cow::Owned(next) = next {
                clean = Cow::Owned(next);
            }
        }
        clean
    }

    /// The bytes without secrets, where they are text; other bytes stay as they are.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match std::str::from_utf8(bytes).map(|text| self.text(text)) {
            Ok(Cow::Owned(clean)) => Cow::Owned(clean.into_bytes()),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// Redacts every string inside a JSON value, names of members included in what is looked at.
    pub fn value(&self, value: &mut Value) {
        let Ok(text) = serde_json::to_string(value) else { return };
        if let Cow::Owned(clean) = self.text(&text) {
            // Placeholders hold nothing that JSON must escape, so the text is still JSON.
            if let Ok(clean) = serde_json::from_str(&clean) {
                *value = clean;
            }
        }
    }

    fn replacement(&self, name: &str, found: &Captures<'_>) -> String {
        let whole = found.get(0).map_or("", |all| all.as_str());
        let secret = found.name("secret").map_or(whole, |secret| secret.as_str());
        if is_placeholder(secret) {
            return whole.to_owned();
        }
        let digest = Hash::new(*blake3::keyed_hash(&self.key, secret.as_bytes()).as_bytes()).short();
        whole.replacen(secret, &format!("[redacted:{name}:{}]", &digest[..8]), 1)
    }
}

/// Whether a value is a placeholder already, or what the cutting of a long result left of one.
fn is_placeholder(value: &str) -> bool {
    let first = value.lines().next().unwrap_or_default();
    match first.is_empty() {
        true => value.trim_start().starts_with("[... "),
        false => first.starts_with("[redacted:") || "[redacted:".starts_with(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor() -> Redactor {
        Redactor::new([7; 32]).unwrap()
    }

    #[test]
    fn each_kind_of_secret_becomes_a_placeholder_of_its_kind() {
        for (text, kind) in [
            ("key sk-abcdefghijklmnopqrstuv", "provider_key"),
            ("AKIAABCDEFGHIJKLMNOP", "aws_key"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "github_token"),
            ("xoxb-1234567890-abc", "slack_token"),
            ("Authorization: Bearer abcdefghijklmnopqrst", "bearer"),
            (r#"{"db_password": "hunter2"}"#, "named"),
            (r#"{"arguments":"{\"api_key\":\"hunter2\"}"}"#, "named"),
            (r#""-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n""#, "private_key"),
        ] {
            let clean = redactor().text(text).into_owned();
            assert!(clean.contains(&format!("[redacted:{kind}:")), "{text} became {clean}");
        }
    }

    #[test]
    fn ordinary_text_is_not_touched_or_copied() {
        for text in ["the task is sk-ipped", "bearer of news", r#"{"password_hint": null}"#, ""] {
            assert!(matches!(redactor().text(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn what_a_cut_left_of_a_placeholder_is_left_alone() {
        let whole = redactor().text("{\"password\":\"hunter2\"}").into_owned();
        for cut in 12..whole.len() {
            let text = format!("{}\n[... 9 of 40 characters left out ...]\n{}", &whole[..cut], "x\"}");
            assert_eq!(Redactor::new([8; 32]).unwrap().text(&text), text, "cut at {cut}");
        }
    }

    #[test]
    fn equal_secrets_stay_equal_and_other_keys_give_other_placeholders() {
        let text = "sk-abcdefghijklmnopqrstuv";
        assert_eq!(redactor().text(text), redactor().text(text));
        assert_ne!(redactor().text(text), Redactor::new([8; 32]).unwrap().text(text));
    }

    proptest! {
        #[test]
        fn json_stays_json_and_redacting_twice_changes_nothing(
            secret in "sk-[A-Za-z0-9]{20,30}", name in "(password|note|api_key)", other in "[a-z\"\\\\ ]{0,9}"
        ) {
            let value = serde_json::json!({ name: secret, "text": format!("{other} {secret}") });
            let text = value.to_string();
            let once = redactor().text(&text).into_owned();
            prop_assert!(serde_json::from_str::<Value>(&once).is_ok());
            prop_assert!(!once.contains(&secret));
            prop_assert_eq!(redactor().text(&once).into_owned(), once);
        }
    }

    #[test]
    fn no_pattern_knows_unicode_where_ascii_will_do() {
        for (name, pattern) in PATTERNS {
            let ascii = pattern.replace(r"(?-u:\b)", "");
            let all_ascii = pattern.starts_with("(?i-u");
            assert!(
                all_ascii || !(ascii.contains(r"\b") || ascii.contains("(?i")),
                "{name}: slow beyond ASCII"
            );
        }
    }
}
