//! The owner's key: who may decide about runs on the pages.
//!
//! Place in the flow: a key is drawn for each process that serves, and `loopdeck serve` prints one address with it. Opened
//! in a browser, [`enter`] puts the key into a cookie and takes it out of the address bar. Everybody on this machine
//! can reach loopback, so a request that decides something must bear the cookie, and must come from a page of this
//! very address: cookies know no ports, so whatever else listens on loopback and is opened in the same browser sees
//! them. Therefore the key is good for decisions alone, and is not the token of readers.

use crate::guard::is_same;
use crate::page;
use crate::server::Server;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The key of one process that serves; never shown by `Debug`.
pub(crate) struct Key {
    text: String,
    pages: SocketAddr,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    /// The key of the pages at this address.
    pub(crate) const fn new(text: String, pages: SocketAddr) -> Self {
        Self { text, pages }
    }

    /// The address that makes a browser the owner's.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/enter?key={}", self.pages, self.text)
    }

    /// Whether the request comes from a browser that was made the owner's.
    pub(crate) fn opens(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(one, value)| one == name && is_same(value, &self.text))
    }

    /// The cookie's name: two servers on one machine do not write over each other.
    fn cookie(&self) -> String {
        format!("loopdeck_{}", self.pages.port())
    }

    fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie(), self.text)
    }
}

/// Whether a request that changes something was sent by a page of this very address, or by no page at all.
pub(crate) fn is_from_here(headers: &HeaderMap) -> bool {
    let of_site = headers.get(FETCH_SITE).is_none_or(|site| site == "same-origin");
    let of_page = headers.get(ORIGIN).is_none_or(|origin| {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        host.is_some_and(|host| origin.as_bytes() == format!("http://{host}").as_bytes())
    });
    of_site && of_page
}

/// What stands behind the `?` of `/enter`.
#[derive(Deserialize)]
pub(crate) struct Entry {
    key: String,
}

/// `/enter`: the key goes from the address into a cookie.
pub(crate) async fn enter(
    State(server): State<Arc<Server>>,
    entry: Result<Query<Entry>, QueryRejection>,
) -> Response {
    let is_key = entry.is_ok_and(|Query(entry)| is_same(&entry.key, &server.key.text));
    match HeaderValue::try_from(server.key.set_cookie()) {
        Ok(mut cookie) if is_key => {
            cookie.set_sensitive(true);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        _ => page::refusal(
            &server,
            StatusCode::FORBIDDEN,
            "Not the key",
            "this is not the key of the process that serves here: it is another one after each start; open the address \
             that `loopdeck serve` printed at its last start",
            "/",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("secret".to_owned(), "127.0.0.1:7878".parse().unwrap())
    }

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_key_opens_as_the_cookie_of_this_port_and_in_no_other_way() {
        for (cookies, opens) in [
            ("loopdeck_7878=secret", true),
            ("a=b; loopdeck_7878=secret; c=d", true),
            ("loopdeck_7878=old; loopdeck_7878=secret", true),
            ("loopdeck_7878=secreT", false),
            ("loopdeck_7878=", false),
            ("loopdeck_7879=secret", false),
            ("loopdeck_7878", false),
            ("secret", false),
        ] {
            assert_eq!(key().opens(&headers(&[("cookie", cookies)])), opens, "{cookies}");
        }
        assert!(!key().opens(&headers(&[("authorization", "Bearer secret")])));
        assert!(!format!("{:?}", key()).contains("secret"));
    }

    #[test]
    fn only_a_page_of_this_very_address_or_no_page_at_all_is_from_here() {
        let host = ("host", "127.0.0.1:7878");
        for (more, from_here) in [
            (&[][..], true),
            (&[("origin", "http://127.0.0.1:7878")], true),
            (&[("origin", "http://127.0.0.1:7878"), ("sec-fetch-site", "same-origin")], true),
            (&[("origin", "http://127.0.0.1:9999")], false),
            (&[("origin", "http://localhost:7878")], false),
            (&[("origin", "https://127.0.0.1:7878")], false),
            (&[("origin", "http://evil.example")], false),
            (&[("origin", "null")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("origin", "http://127.0.0.1:7878"), ("sec-fetch-site", "cross-site")], false),
        ] {
            let all: Vec<_> = more.iter().copied().chain([host]).collect();
            assert_eq!(is_from_here(&headers(&all)), from_here, "{more:?}");
        }
        assert!(!is_from_here(&headers(&[("origin", "http://127.0.0.1:7878")])), "no Host to hold it to");
    }
}
