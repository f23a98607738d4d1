//! Listening on loopback, and nowhere else: nobody is asked for a password here.
//!
//! Place in the flow: the server binds its two listeners through [`bind`] before it does anything else.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, lookup_host};

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not an address.
    #[error("{flag} {wanted}: this is no HOST:PORT; for example {flag} 127.0.0.1:7878")]
    Address {
        /// The flag that named it.
        flag: &'static str,
        /// What it said.
        wanted: String,
    },
    /// An address that others can reach.
    #[error(
        "{flag} {wanted}: refused, because others could reach it and there is no authentication yet; use 127.0.0.1, [::1] or localhost"
    )]
    Exposed {
        /// The flag that named it.
        flag: &'static str,
        /// What it said.
        wanted: String,
    },
    /// Somebody else listens there.
    #[error(
        "{flag} {wanted}: the port is in use by another program; end it, or choose another port with {flag} HOST:PORT (port 0 takes a free one)"
    )]
    InUse {
        /// The flag that named it.
        flag: &'static str,
        /// What it said.
        wanted: String,
    },
    /// The system refuses for another reason.
    #[error("{flag} {wanted}: cannot listen: {source}")]
    Refused {
        /// The flag that named it.
        flag: &'static str,
        /// What it said.
        wanted: String,
        /// Why.
        source: io::Error,
    },
}

/// Listens on `HOST:PORT`, as this flag wants it.
///
/// # Errors
/// When it is no address, not on loopback, or taken.
pub(crate) async fn bind(flag: &'static str, wanted: &str) -> Result<TcpListener, ListenError> {
    let address = resolve(flag, wanted).await?;
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { flag, wanted: wanted.to_owned() },
        _ => ListenError::Refused { flag, wanted: wanted.to_owned(), source },
    })
}

async fn resolve(flag: &'static str, wanted: &str) -> Result<SocketAddr, ListenError> {
    let bad = || ListenError::Address { flag, wanted: wanted.to_owned() };
    let addresses: Vec<SocketAddr> = match wanted.parse::<SocketAddr>() {
        Ok(address) => vec![address],
        // A name other than localhost may mean another address tomorrow.
        Err(_) if wanted.starts_with("localhost:") => lookup_host(wanted).await.map_err(|_| bad())?.collect(),
        Err(_) => return Err(bad()),
    };
    if addresses.iter().any(|address| !address.ip().is_loopback()) {
        return Err(ListenError::Exposed { flag, wanted: wanted.to_owned() });
    }
    let v4 = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    v4.copied().ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_loopback_is_listened_on_and_every_refusal_names_flag_and_address() {
        for (wanted, told) in [
            ("0.0.0.0:0", "--listen 0.0.0.0:0: refused"),
            ("192.0.2.1:80", "--listen 192.0.2.1:80: refused"),
            ("[::]:0", "--listen [::]:0: refused"),
            ("7878", "--listen 7878: this is no HOST:PORT"),
            ("example.org:80", "--listen example.org:80: this is no HOST:PORT"),
            ("127.0.0.1:99999", "--listen 127.0.0.1:99999: this is no HOST:PORT"),
        ] {
            let error = bind("--listen", wanted).await.unwrap_err().to_string();
            assert!(error.starts_with(told), "{wanted} gave {error}");
        }
        assert!(bind("--listen", "127.0.0.1:0").await.unwrap().local_addr().unwrap().ip().is_loopback());
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_with_the_flag_that_changes_it() {
        let first = bind("--listen", "127.0.0.1:0").await.unwrap();
        let taken = first.local_addr().unwrap().to_string();
        let error = bind("--otlp-http", &taken).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("--otlp-http {taken}: the port is in use")), "{error}");
    }
}
