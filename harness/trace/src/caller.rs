//! Who started this process, as OpenTelemetry's environment variables tell: the span that a run is a child of, and
//! the names of the service that it runs in.
//!
//! Place in the flow: environment -> **caller** -> the first fact of a run; and the other way round, the span of a
//! tool call is told to the program that carries it out. Pure: the environment is looked up by who calls.
//! Source: W3C Trace Context, section 3.2; OpenTelemetry, "Environment Variables as Context Propagation Carriers"
//! and "General SDK Configuration".

use crate::id::{SpanId, TraceId};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The variable that names the span of the caller.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// A span in W3C's words: `00-TRACE-SPAN-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
}

/// A variable that does not say what it should; whoever started us is then unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is ignored: `{value}` {why}")]
pub struct BadVariable {
    variable: &'static str,
    value: String,
    why: &'static str,
}

impl FromStr for TraceParent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "is not of the form 00-TRACE-SPAN-FLAGS in lower-case hexadecimal digits";
        let hex = |part: &str| part.bytes().all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let mut next =
            |digits: usize| parts.next().filter(|part| part.len() == digits && hex(part)).ok_or(FORM);
        let (version, trace, span, _flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        match version {
            "ff" => return Err("has the version ff, which is none"),
            // A later version may say more behind a dash.
            "00" if parts.next().is_some() => return Err(FORM),
            _ => {}
        }
        let parent =
            Self { trace_id: trace.parse().map_err(|_| FORM)?, span_id: span.parse().map_err(|_| FORM)? };
        match parent.trace_id.is_zero() || parent.span_id.is_zero() {
            true => Err("has an id of zeros, which names nothing"),
            false => Ok(parent),
        }
    }
}

/// Runs are always recorded, so the flag says sampled.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", self.trace_id, self.span_id)
    }
}

/// The span of the caller; `None` where none is named.
///
/// # Errors
/// Where the variable is malformed: W3C says to start a trace of one's own then.
pub fn parent(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<TraceParent>, BadVariable> {
    let Some(value) = lookup(TRACEPARENT).filter(|value| !value.trim().is_empty()) else { return Ok(None) };
    match value.trim().parse() {
        Ok(parent) => Ok(Some(parent)),
        Err(why) => Err(BadVariable { variable: TRACEPARENT, value, why }),
    }
}

/// What the caller says about the service: `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_SERVICE_NAME` before it.
///
/// # Errors
/// Where the list is malformed: all of it is left out, as OpenTelemetry says.
pub fn resource(lookup: impl Fn(&str) -> Option<String>) -> Result<BTreeMap<String, String>, BadVariable> {
    const LIST: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let value = lookup(LIST).unwrap_or_default();
    let pairs = value.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), decoded(value.trim())?)).filter(|(name, _)| !name.is_empty())
    };
    let mut resource: BTreeMap<String, String> =
        pairs.map(read).collect::<Option<_>>().ok_or_else(|| BadVariable {
            variable: LIST,
            value: value.clone(),
            why: "is no list of NAME=VALUE with commas between",
        })?;
    if let Some(service) = lookup("OTEL_SERVICE_NAME").filter(|name| !name.trim().is_empty()) {
        resource.insert("service.name".to_owned(), service);
    }
    Ok(resource)
}

/// A text with its percent escapes resolved; `None` where one is broken.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn named(value: &str) -> Result<Option<TraceParent>, BadVariable> {
        parent(|name| (name == TRACEPARENT).then(|| value.to_owned()))
    }

    #[test]
    fn a_caller_is_read_as_w3c_writes_it() {
        let read = named(GOOD).unwrap().unwrap();
        assert_eq!(read.trace_id.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.span_id.to_string(), "b7ad6b7169203331");
        assert_eq!(read.to_string(), GOOD);
        assert_eq!(
            named(&format!("cc{}-what-comes-later", &GOOD[2..])).unwrap(),
            Some(read),
            "a later version"
        );
        assert_eq!((named("").unwrap(), parent(|_| None).unwrap()), (None, None));
    }

    #[test]
    fn a_malformed_caller_is_named_and_is_no_caller() {
        let zeros = |from: usize, to: usize| {
            let mut text = GOOD.to_owned();
            text.replace_range(from..to, &"0".repeat(to - from));
            text
        };
        let rows = [
            GOOD.to_uppercase(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-more"),
            format!("ff{}", &GOOD[2..]),
            GOOD.replace('-', "_"),
            zeros(3, 35),
            zeros(36, 52),
            "garbage".to_owned(),
        ];
        for row in rows {
            let why = named(&row).unwrap_err().to_string();
            assert!(why.starts_with("TRACEPARENT is ignored: `") && why.contains(&row), "{why}");
        }
    }

    #[test]
    fn the_service_has_the_names_that_its_surroundings_give_it() {
        let lookup = |list: &'static str, name: &'static str| {
            resource(move |variable| {
                let value = if variable == "OTEL_SERVICE_NAME" { name } else { list };
                Some(value.to_owned()).filter(|value| !value.is_empty())
            })
        };
        let read =
            lookup("service.name=a, service.version=1%2C2,deployment.environment.name=test", "b").unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let wanted =
            [("deployment.environment.name", "test"), ("service.name", "b"), ("service.version", "1,2")];
        assert_eq!(read, wanted);
        assert!(lookup("", "").unwrap().is_empty());
        for bad in ["no pair", "a=%zz", "=b"] {
            assert!(lookup(bad, "").unwrap_err().to_string().contains("NAME=VALUE"), "{bad}");
        }
    }
}
