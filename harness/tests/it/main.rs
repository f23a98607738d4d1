//! The harness against recorded provider traffic and a provider on loopback.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests; the lint's own exception covers test functions only"
)]

mod cassette;
mod cassette_run;
mod conformance;
mod growth;
#[cfg(all(feature = "mcp", unix))]
mod mcp;
mod recorded;
