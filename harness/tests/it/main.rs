//! The harness against recorded provider traffic and a provider on loopback.

mod cassette;
mod cassette_run;
mod recorded;
