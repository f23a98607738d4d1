//! What the server counts about itself, for `/metrics` and the foot of every page.
//!
//! Place in the flow: the receiver, the indexer, the schedule and the delivery add; pages read.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An instant in nanoseconds since 1970; 0 until it has happened once.
#[derive(Debug, Default)]
pub(crate) struct Instant(AtomicI64);

impl Instant {
    pub(crate) fn set(&self, at_ns: i64) {
        self.0.store(at_ns, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

/// All counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// OTLP requests that were acknowledged.
    pub(crate) requests_accepted: Counter,
    /// OTLP requests that were refused for good (4xx).
    pub(crate) requests_refused: Counter,
    /// OTLP requests that were put off (429, 503).
    pub(crate) requests_deferred: Counter,
    /// Spans written to the inbox.
    pub(crate) spans_accepted: Counter,
    /// Spans rejected one by one.
    pub(crate) spans_rejected: Counter,
    /// Spans that the index has taken from the logs.
    pub(crate) spans_indexed: Counter,
    /// Times that the index could not be brought up to date.
    pub(crate) index_failures: Counter,
    /// Times that the rules could not be evaluated.
    pub(crate) evaluation_failures: Counter,
    /// Notifications that a webhook took.
    pub(crate) deliveries: Counter,
    /// Notifications that a webhook did not take; each is tried again.
    pub(crate) delivery_failures: Counter,
    /// Notifications that wait to be taken.
    pub(crate) deliveries_pending: Gauge,
    /// When the index was last up to date.
    pub(crate) indexed_at: Instant,
    /// When something was last received that the index may not have yet.
    pub(crate) received_at: Instant,
    /// When the rules were last evaluated.
    pub(crate) evaluated_at: Instant,
}

impl Counters {
    /// How far the index is behind what was received, in milliseconds: 0 when it has everything.
    pub(crate) fn lag_ms(&self, now_ns: i64) -> i64 {
        match (self.received_at.get(), self.indexed_at.get()) {
            (Some(received), Some(indexed)) if indexed >= received => 0,
            (Some(received), _) => (now_ns - received).max(0) / 1_000_000,
            (None, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_age_of_what_is_not_indexed() {
        let counters = Counters::default();
        assert_eq!(counters.lag_ms(5_000_000), 0);
        counters.received_at.set(1_000_000);
        assert_eq!(counters.lag_ms(5_000_000), 4);
        counters.indexed_at.set(2_000_000);
        assert_eq!(counters.lag_ms(5_000_000), 0);
    }
}
