//! What happened is kept: fact -> tape -> span -> row -> rule.
//!
//! This room knows no model, no tool and no HTTP server. It owns the vocabulary of a run ([`fact`]), the logs
//! that are the truth ([`tape`], [`inbox`], [`ops`]), what is derived from them ([`span`], [`row`]) and the only
//! door to DuckDB ([`store`]).

pub mod attribute;
pub mod caller;
pub mod canonical;
pub mod context;
pub mod dialect;
pub mod export;
pub mod fact;
pub mod home;
pub mod id;
pub mod import;
pub mod inbox;
pub mod lock;
pub mod log;
pub mod message;
pub mod ops;
pub mod otlp;
pub mod outcome;
pub mod question;
pub mod reader;
pub mod redact;
pub mod row;
pub mod rule;
pub mod span;
pub mod store;
pub mod tape;
