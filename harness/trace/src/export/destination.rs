//! Where spans are exported to: OpenTelemetry's environment variables, read from a lookup.
//!
//! Place in the flow: the command line reads the environment once and passes it here; tests pass a map.

use reqwest::header::{HeaderName, HeaderValue};
use std::time::Duration;

/// How long one request may take where `OTEL_EXPORTER_OTLP_TIMEOUT` says nothing; OpenTelemetry's default.
const TIMEOUT_MS: u64 = 10_000;

/// A collector and what it may be told.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    /// The whole URL, `/v1/traces` included.
    pub endpoint: String,
    /// Headers of each request, such as a key.
    pub headers: Vec<(String, String)>,
    /// Overrides `service.name` of every span.
    pub service_name: Option<String>,
    /// Whether messages, arguments and results leave too.
    pub with_content: bool,
    /// The longest time that one request may take.
    pub timeout: Duration,
}

/// A variable cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}")]
pub struct DestinationError {
    variable: &'static str,
    reason: String,
}

impl Destination {
    /// A collector at this URL, told no content.
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service_name: None,
            with_content: false,
            timeout: Duration::from_millis(TIMEOUT_MS),
        }
    }

    /// The collector that the variables name; `None` where none is named.
    ///
    /// # Errors
    /// When a variable is no URL, header list, number or protocol that this program speaks.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, DestinationError> {
        let get =
            |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let Some(endpoint) = endpoint(&get)? else { return Ok(None) };
        protocol(&get)?;
        let mut destination = Self::new(endpoint);
        for variable in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"] {
            let more = get(variable).map_or(Ok(Vec::new()), |text| headers(variable, &text))?;
            destination.headers.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
            destination.headers.extend(more);
        }
        destination.service_name = get("OTEL_SERVICE_NAME");
        destination.with_content = get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
            .is_some_and(|word| matches!(word.to_ascii_uppercase().as_str(), "SPAN_ONLY" | "SPAN_AND_EVENT"));
        if let Some(text) =
            get("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| get("OTEL_EXPORTER_OTLP_TIMEOUT"))
        {
            let ms = text.parse().map_err(|_| DestinationError {
                variable: "OTEL_EXPORTER_OTLP_TIMEOUT",
                reason: format!("`{text}` is no number of milliseconds"),
            })?;
            destination.timeout = Duration::from_millis(ms);
        }
        Ok(Some(destination))
    }

    pub(super) fn client(&self) -> reqwest::Result<reqwest::Client> {
        // A redirect would carry keys to a place that nobody named.
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(self.timeout).build()
    }
}

/// Header values are keys more often than not.
impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Destination")
            .field("endpoint", &self.endpoint)
            .field("header_names", &names)
            .field("service_name", &self.service_name)
            .field("with_content", &self.with_content)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// The traces variable is taken as it is; the general one gets the path appended.
fn endpoint(get: &impl Fn(&str) -> Option<String>) -> Result<Option<String>, DestinationError> {
    let own =
        get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(|url| ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url));
    let named = own.or_else(|| {
        let base = get("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        Some(("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/v1/traces", base.trim_end_matches('/'))))
    });
    let Some((variable, url)) = named else { return Ok(None) };
    match reqwest::Url::parse(&url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => Ok(Some(url)),
        _ => Err(DestinationError { variable, reason: format!("`{url}` is no http or https URL") }),
    }
}

fn protocol(get: &impl Fn(&str) -> Option<String>) -> Result<(), DestinationError> {
    let word = get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| get("OTEL_EXPORTER_OTLP_PROTOCOL"));
    match word.as_deref() {
        None | Some("http/protobuf") => Ok(()),
        Some(other) => Err(DestinationError {
            variable: "OTEL_EXPORTER_OTLP_PROTOCOL",
            reason: format!("`{other}` is not spoken here; use http/protobuf"),
        }),
    }
}

/// `name=value,name=value`, values percent-encoded as in W3C baggage.
fn headers(variable: &'static str, text: &str) -> Result<Vec<(String, String)>, DestinationError> {
    let wrong = |part: &str| DestinationError {
        variable,
        // The value may be a key: only the name is told.
        reason: format!(
            "`{}` is no NAME=VALUE of an HTTP header",
            part.split('=').next().unwrap_or_default()
        ),
    };
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let name = name.trim().to_ascii_lowercase();
            let value = crate::caller::decoded(value.trim()).ok_or_else(|| wrong(part))?;
            let fits = HeaderName::try_from(&name).is_ok() && HeaderValue::try_from(&value).is_ok();
            if fits { Ok((name, value)) } else { Err(wrong(part)) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Destination>, DestinationError> {
        Destination::from_lookup(|name| {
            variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_are_read_as_opentelemetry_means_them() {
        assert_eq!(read(&[]), Ok(None));
        let base = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b, tenant=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "tenant=2"),
            ("OTEL_SERVICE_NAME", "booker"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only"),
        ]);
        let base = base.unwrap().unwrap();
        assert_eq!(base.endpoint, "http://collector:4318/v1/traces");
        let headers = [("x-key".to_owned(), "a b".to_owned()), ("tenant".to_owned(), "2".to_owned())];
        assert_eq!(base.headers, headers);
        assert_eq!((base.service_name.as_deref(), base.with_content), (Some("booker"), true));

        let own = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://b/x"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY"),
        ]);
        let own = own.unwrap().unwrap();
        assert_eq!((own.endpoint.as_str(), own.with_content), ("https://b/x", false));
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named_without_its_secret() {
        const URL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        for (variable, value, told) in [
            (URL, "collector:4318", "`collector:4318/v1/traces` is no http or https URL"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`grpc` is not spoken here; use http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=hush%zz", "`key` is no NAME=VALUE of an HTTP header"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "`10s` is no number of milliseconds"),
        ] {
            let told = format!("{variable}: {told}");
            let variables = [(variable, value), (URL, "http://collector:4318")];
            assert_eq!(read(&variables).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_destination_never_prints_its_keys() {
        let mut one = Destination::new("http://c");
        one.headers = vec![("authorization".into(), "hush".into())];
        assert!(!format!("{one:?}").contains("hush"));
    }
}
