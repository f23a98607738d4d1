//! What a provider's error means: status, headers and error object to one [`Fault`].
//!
//! Place in the flow: a wire's `fault` and its stream decoder call this; the machine decides on retry and stop
//! by the class alone. All wires wrap errors as `{"error": {...}}` with a few of `type`, `code`, `status` and
//! `message`, so the table is one.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::SystemTime;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// Longest message kept of a provider's own words, in characters.
pub const MAX_MESSAGE_CHARS: usize = 2000;

/// The code of an answer that the provider stored once and has no more.
pub const FORGOTTEN: &str = "previous_response_not_found";

/// What the providers' words for an error say about its class.
const WORDS: &[(&str, FaultClass)] = &[
    ("context_length_exceeded", FaultClass::Overflow),
    ("prompt is too long", FaultClass::Overflow),
    ("maximum context length", FaultClass::Overflow),
    ("exceed context limit", FaultClass::Overflow),
    ("exceeds the context window", FaultClass::Overflow),
    ("exceeds the maximum number of tokens", FaultClass::Overflow),
    ("insufficient_quota", FaultClass::Permanent),
    ("authentication_error", FaultClass::Auth),
    ("permission_error", FaultClass::Auth),
    ("invalid_api_key", FaultClass::Auth),
    ("api key not valid", FaultClass::Auth),
    ("overloaded_error", FaultClass::Transient),
    ("rate_limit", FaultClass::Transient),
    ("api_error", FaultClass::Transient),
    ("server_error", FaultClass::Transient),
    ("timeout_error", FaultClass::Transient),
    // The next attempt says everything again.
    (FORGOTTEN, FaultClass::Transient),
];

/// The fault of an HTTP answer outside 2xx.
#[must_use]
pub fn of_answer(status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
    let error = ProviderError::from_body(body);
    Fault {
        class: class_of_status(status, &error),
        message: bounded(&format!("the provider answered {status}: {}", error.shown())),
        retry_after_ms: retry_after_ms(headers).or(error.retry_after_ms),
        elapsed_ms: None,
    }
}

/// The fault of an error object inside an answer that began as a success.
#[must_use]
pub fn of_error_object(error: &Value) -> Fault {
    let error = ProviderError::from_value(error);
    // Some repeat the HTTP status inside, as `status` or as the code.
    let status = [&error.status, &error.code].into_iter().find_map(|text| text.parse::<u16>().ok());
    let class = match status {
        Some(status) if (400..600).contains(&status) => class_of_status(status, &error),
        // An error halfway through an answer is the provider's, unless its words say otherwise.
        _ => error.class().unwrap_or(FaultClass::Transient),
    };
    let message = bounded(&format!("the provider reported an error in its answer: {}", error.shown()));
    Fault { retry_after_ms: error.retry_after_ms, ..Fault::new(class, message) }
}

fn class_of_status(status: u16, error: &ProviderError) -> FaultClass {
    match (status, error.class()) {
        (401 | 403, _) => FaultClass::Auth,
        // Gemini answers 400 to a key it does not know.
        (400, Some(FaultClass::Auth)) => FaultClass::Auth,
        (400 | 413 | 422, Some(FaultClass::Overflow)) => FaultClass::Overflow,
        // A used-up quota answers 429, and no wait will refill it.
        (429, Some(FaultClass::Permanent)) => FaultClass::Permanent,
        (408 | 429 | 500..=599, _) => FaultClass::Transient,
        (_, Some(FaultClass::Transient)) if error.kind == "overloaded_error" => FaultClass::Transient,
        (400 | 404, Some(FaultClass::Transient)) if error.code == FORGOTTEN => FaultClass::Transient,
        _ => FaultClass::Permanent,
    }
}

/// How long the other side asks us to wait, in milliseconds.
///
/// `retry-after` may be a date; it is read against the answer's own `date`, so that no clock of ours is asked.
pub(crate) fn retry_after_ms(headers: &BTreeMap<String, String>) -> Option<u64> {
    if let Some(ms) = headers.get("retry-after-ms").and_then(|value| millis(value, 1.0)) {
        return Some(ms);
    }
    let value = headers.get("retry-after")?;
    if let Some(ms) = millis(value, 1000.0) {
        return Some(ms);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let sent: SystemTime = httpdate::parse_http_date(headers.get("date")?).ok()?;
    let wait = until.duration_since(sent).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

fn millis(value: &str, factor: f64) -> Option<u64> {
    let number: f64 = value.trim().parse().ok()?;
    let ms = (number * factor).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within u32")]
    (ms >= 0.0 && ms <= f64::from(u32::MAX)).then_some(ms as u64)
}

/// The wait in Gemini's `details`, such as `"retryDelay": "34.5s"`; it sends no header for it.
fn retry_delay_ms(error: &Value) -> Option<u64> {
    let mut details = error["details"].as_array().into_iter().flatten();
    let delay = details.find_map(|detail| detail["retryDelay"].as_str())?;
    millis(delay.strip_suffix('s')?, 1000.0)
}

#[derive(Debug, Default)]
struct ProviderError {
    kind: String,
    code: String,
    status: String,
    message: String,
    retry_after_ms: Option<u64>,
}

impl ProviderError {
    fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            // A stream of Gemini's that fails before it begins is a list of one.
            Ok(Value::Array(list)) if list.len() == 1 => Self::from_value(&list[0]["error"]),
            Ok(Value::Object(object)) if object.contains_key("error") => Self::from_value(&object["error"]),
            Ok(value @ Value::Object(_)) => Self::from_value(&value),
            _ => Self { message: String::from_utf8_lossy(body).trim().to_owned(), ..Self::default() },
        }
    }

    fn from_value(error: &Value) -> Self {
        let word = |name: &str| match &error[name] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let mut message = error.as_str().map_or_else(|| word("message"), str::to_owned);
        if message.is_empty() {
            message = error.to_string();
        }
        let retry_after_ms = retry_delay_ms(error);
        Self { kind: word("type"), code: word("code"), status: word("status"), message, retry_after_ms }
    }

    fn class(&self) -> Option<FaultClass> {
        let message = self.message.to_lowercase();
        let says =
            |word: &str| self.kind.contains(word) || self.code.contains(word) || message.contains(word);
        WORDS.iter().find(|(word, _)| says(word)).map(|(_, class)| *class)
    }

    fn shown(&self) -> String {
        let label = if self.code.is_empty() { &self.kind } else { &self.code };
        match (label.is_empty(), self.message.is_empty()) {
            (true, true) => "no explanation".to_owned(),
            (true, false) => self.message.clone(),
            (false, _) => format!("{} ({label})", self.message),
        }
    }
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn status_and_words_decide_the_class() {
        use FaultClass::{Auth, Overflow, Permanent, Transient};
        let table = [
            (401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#, Auth),
            (403, "", Auth),
            (408, "", Transient),
            (429, r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#, Transient),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                Permanent,
            ),
            (500, "<html>oops</html>", Transient),
            (503, "", Transient),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Transient,
            ),
            (400, r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#, Overflow),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}"#,
                Overflow,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                Auth,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}"#,
                Overflow,
            ),
            (
                503,
                r#"[{"error":{"code":503,"message":"The model is overloaded","status":"UNAVAILABLE"}}]"#,
                Transient,
            ),
            (400, r#"{"error":{"message":"Unknown parameter"}}"#, Permanent),
            (400, r#"{"error":{"message":"the rate_limit parameter is unknown"}}"#, Permanent),
            (404, r#"{"error":"model not found"}"#, Permanent),
            (302, "", Permanent),
        ];
        for (status, body, class) in table {
            let fault = of_answer(status, &BTreeMap::new(), body.as_bytes());
            assert_eq!(fault.class, class, "{status} {body}");
            assert!(fault.message.contains(&status.to_string()), "{}", fault.message);
        }
    }

    #[test]
    fn the_providers_own_words_are_in_the_message_and_bounded() {
        let fault = of_answer(404, &BTreeMap::new(), br#"{"error":{"message":"no such model: gpt-9"}}"#);
        assert_eq!(fault.message, "the provider answered 404: no such model: gpt-9");
        let fault = of_answer(500, &BTreeMap::new(), "ü".repeat(1 << 20).as_bytes());
        assert_eq!(fault.message.chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn retry_after_is_read_as_seconds_as_milliseconds_and_as_a_date() {
        let date = ("date", "Sat, 21 Nov 2026 10:00:00 GMT");
        let table = [
            (headers(&[("retry-after", "7")]), Some(7000)),
            (headers(&[("retry-after", "0.25")]), Some(250)),
            (headers(&[("retry-after", "7"), ("retry-after-ms", "1234.5")]), Some(1235)),
            (headers(&[("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT"), date]), Some(30_000)),
            (headers(&[("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT"), date]), Some(0)),
            (headers(&[("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT")]), None),
            (headers(&[("retry-after", "-1")]), None),
            (headers(&[("retry-after", "NaN")]), None),
            (headers(&[("retry-after", "soon")]), None),
            (headers(&[]), None),
        ];
        for (headers, expected) in table {
            assert_eq!(of_answer(429, &headers, b"").retry_after_ms, expected, "{headers:?}");
        }
    }

    #[test]
    fn a_wait_in_the_details_of_an_error_counts_where_no_header_gives_one() {
        let body = br#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota",
            "details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
        assert_eq!(of_answer(429, &headers(&[]), body).retry_after_ms, Some(34_500));
        assert_eq!(of_answer(429, &headers(&[("retry-after", "1")]), body).retry_after_ms, Some(1000));
    }

    #[test]
    fn an_error_inside_an_answer_is_transient_unless_it_says_otherwise() {
        let class = |text: &str| of_error_object(&serde_json::from_str(text).expect("json")).class;
        assert_eq!(class(r#"{"type":"overloaded_error","message":"Overloaded"}"#), FaultClass::Transient);
        assert_eq!(class(r#"{"message":"hiccup"}"#), FaultClass::Transient);
        assert_eq!(class(r#"{"code":"content_filter","status":400}"#), FaultClass::Permanent);
        assert_eq!(class(r#"{"code":401,"message":"no"}"#), FaultClass::Auth);
        assert_eq!(class(r#"{"code":400,"message":"no"}"#), FaultClass::Permanent);
        assert_eq!(class(r#"{"code":"context_length_exceeded"}"#), FaultClass::Overflow);
    }
}
