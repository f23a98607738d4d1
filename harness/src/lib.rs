//! The loop decides: prompt -> turn -> fact.
//!
//! [`machine`] is pure: it says what to do next and takes in what happened. [`driver`] does it: calls models,
//! runs tools, waits. [`model`] holds the wires, [`tool`] the tools, [`policy`] the permits, [`port`] the only
//! door to clock and randomness, [`person`] those who can be asked.

pub mod agent;
pub mod config;
pub mod context;
mod conversation;
pub mod driver;
pub mod hands;
mod known;
pub mod machine;
pub mod model;
pub mod person;
pub mod policy;
pub mod port;
mod preparation;
pub mod price;
pub mod sandbox;
pub mod session;
pub mod surface;
pub mod team;
pub mod tool;
