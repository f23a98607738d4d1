//! Panics of those around the driver end nothing: a watcher that panics is not told anything more, and a transport
//! that panics has brought no answer.
//!
//! Place in the flow: the driver speaks to its observer and its transport through here, as [`crate::hands`] does to
//! tools. A run is worth more than who looks at it, and every run comes to an end that is on its tape.

use super::Observer;
use crate::machine::Event;
use crate::model::{Delta, Reply};
use futures::FutureExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trace::fact::{Fact, Fault};
use trace::outcome::FaultClass;

/// An observer until it panics.
pub(super) struct Guarded<'a>(Option<&'a mut dyn Observer>);

impl<'a> Guarded<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer) -> Self {
        Self(Some(observer))
    }

    fn tell(&mut self, what: impl FnOnce(&mut dyn Observer)) {
        if let Some(observer) = self.0.take()
            && catch_unwind(AssertUnwindSafe(|| what(&mut *observer))).is_ok()
        {
            self.0 = Some(observer);
        }
    }
}

impl Observer for Guarded<'_> {
    fn recorded(&mut self, seq: u64, at_ns: i64, fact: &Fact) {
        self.tell(|observer| observer.recorded(seq, at_ns, fact));
    }

    fn delta(&mut self, delta: &Delta) {
        self.tell(|observer| observer.delta(delta));
    }

    fn event(&mut self, event: &Event) {
        self.tell(|observer| observer.event(event));
    }
}

/// What a transport brings; a panic in it is a fault that is not tried again.
pub(super) async fn brought(sending: impl Future<Output = Result<Reply, Fault>>) -> Result<Reply, Fault> {
    let panicked = |_| Err(Fault::new(FaultClass::Permanent, "the transport panicked"));
    AssertUnwindSafe(sending).catch_unwind().await.unwrap_or_else(panicked)
}
