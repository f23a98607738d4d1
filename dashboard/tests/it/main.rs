//! The server from outside: real listeners, real bodies, real pages.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on panics, and one that skips says so"
)]

mod alert;
mod approval;
mod page;
mod real_data;
mod receiver;
mod running;
