//! What every request passes: the Host check and the headers of every answer.
//!
//! Place in the flow: a layer around both listeners. A page of another site can make a browser on this machine
//! send requests to loopback under a name of its own (DNS rebinding); such a Host is refused. Pages may load
//! nothing but our style sheet and send forms nowhere but here, so a hostile name that slipped through could still not
//! run.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::net::IpAddr;

const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers that every answer carries.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    // With `no-referrer` a browser sends `Origin: null` with our own forms, and nobody could tell whose they are.
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Refuses foreign hosts; adds the headers.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if is_ours(request.headers()) {
        next.run(request).await
    } else {
        let told =
            "this server answers on loopback only: use http://127.0.0.1 or http://localhost with its port\n";
        (StatusCode::MISDIRECTED_REQUEST, told).into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// Whether the Host is a name of this machine's loopback; a request without one comes from no browser.
fn is_ours(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _port)) => v6,
        None => host.split_once(':').map_or(host, |(name, _port)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether the request carries this bearer token.
pub(crate) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(axum::http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    is_same(given, token)
}

/// Whether a secret was given; the time it takes does not depend on where they differ.
pub(crate) fn is_same(given: &str, secret: &str) -> bool {
    let (given, secret) = (given.as_bytes(), secret.as_bytes());
    given.len() == secret.len() && given.iter().zip(secret).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn only_names_of_loopback_are_ours() {
        for (host, ours) in [
            ("127.0.0.1:7878", true),
            ("127.9.9.9", true),
            ("localhost:4318", true),
            ("LocalHost", true),
            ("[::1]:7878", true),
            ("evil.example:7878", false),
            ("127.0.0.1.evil.example", false),
            ("192.0.2.1", false),
            ("", false),
        ] {
            assert_eq!(is_ours(&with(HOST, host)), ours, "{host}");
        }
        assert!(is_ours(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_right_or_wrong_as_a_whole() {
        let authorization = axum::http::header::AUTHORIZATION;
        for (value, right) in [
            ("Bearer secret", true),
            ("Bearer secreT", false),
            ("Bearer secre", false),
            ("secret", false),
            ("", false),
        ] {
            assert_eq!(has_token(&with(authorization.clone(), value), "secret"), right, "{value}");
        }
        assert!(!has_token(&HeaderMap::new(), "secret"));
    }
}
