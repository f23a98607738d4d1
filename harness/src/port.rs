//! The only door to clock, randomness and interruption, so that a run can be replayed.
//!
//! Place in the flow: the driver draws everything that differs between two runs from here. [`Live`] asks the
//! machine it runs on; a replay answers from the tape.

use crate::person::Person;
use futures::future::{BoxFuture, ready};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::fact::{PersonAnswered, PersonAsked};

/// What a run needs from the world besides model, tools and tape.
pub trait Ports: Send + Sync + Debug {
    /// Nanoseconds since 1970. The driver asks once for each fact it records, and never otherwise.
    fn now_ns(&self) -> i64;

    /// A random number, for ids.
    fn draw(&self) -> u64;

    /// Waits.
    fn sleep(&self, how_long: Duration) -> BoxFuture<'_, ()>;

    /// Who asked the run to end, if anybody did. Checked between steps.
    fn interrupted(&self) -> Option<String>;

    /// Resolves when somebody asks the run to end. Raced against everything that takes time.
    fn interruption(&self) -> BoxFuture<'_, ()>;

    /// Asks a person, where one is at hand; `None` where nobody is: then the run pauses. Nobody is never a yes.
    fn ask_person<'a>(&'a self, _asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        Box::pin(ready(None))
    }
}

/// The word for an interruption by the wall-time budget.
pub const DEADLINE: &str = "deadline";
/// The word for an interruption by a person or a signal.
pub const INTERRUPT: &str = "interrupt";

/// The real world. Its clock is read once; from there on time only goes forward, so that a clock that is set
/// anew neither uses a budget up nor lets anything end before it began.
#[derive(Debug)]
pub struct Live {
    cancel: CancellationToken,
    began: tokio::time::Instant,
    began_at_ns: i64,
    deadline: tokio::time::Instant,
    /// Time that people took: it moves the deadline.
    idle_ms: AtomicU64,
    person: Option<Arc<dyn Person>>,
}

impl Live {
    /// Ports of a run that starts now, may take `wall_time` and ends early when `cancel` is cancelled.
    #[must_use]
    pub fn new(cancel: CancellationToken, wall_time: Duration) -> Self {
        // A budget beyond the clock's range is no limit in practice: a century.
        const CENTURY: Duration = Duration::from_secs(3_155_760_000);
        let (began, began_at_ns) = (tokio::time::Instant::now(), wall_clock_ns());
        let deadline = began + wall_time.min(CENTURY);
        Self { cancel, began, began_at_ns, deadline, idle_ms: AtomicU64::new(0), person: None }
    }

    /// The same with a person to ask.
    #[must_use]
    pub fn with_person(mut self, person: Option<Arc<dyn Person>>) -> Self {
        self.person = person;
        self
    }

    fn deadline(&self) -> tokio::time::Instant {
        self.deadline + Duration::from_millis(self.idle_ms.load(Ordering::Acquire))
    }
}

impl Ports for Live {
    fn now_ns(&self) -> i64 {
        let since = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.began_at_ns.saturating_add(since)
    }

    fn draw(&self) -> u64 {
        random()
    }

    fn sleep(&self, how_long: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(how_long))
    }

    fn interrupted(&self) -> Option<String> {
        match () {
            () if self.cancel.is_cancelled() => Some(INTERRUPT.to_owned()),
            () if tokio::time::Instant::now() >= self.deadline() => Some(DEADLINE.to_owned()),
            () => None,
        }
    }

    fn interruption(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = tokio::time::sleep_until(self.deadline()) => {}
            }
        })
    }

    fn ask_person<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        let Some(person) = &self.person else { return Box::pin(ready(None)) };
        Box::pin(async move {
            let begun = tokio::time::Instant::now();
            let answer = person.answer(asked).await;
            let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.idle_ms.fetch_add(took_ms, Ordering::AcqRel);
            answer
        })
    }
}

/// Nanoseconds since 1970 by the machine's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub fn wall_clock_ns() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// A random number from the operating system.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the port")]
pub fn random() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    // Both halves hold fixed version bits; folded together every bit is random.
    high ^ low.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_passes_as_the_clock_that_is_never_set_tells_it() {
        let live = Live::new(CancellationToken::new(), Duration::MAX);
        let began = live.now_ns();
        live.sleep(Duration::from_secs(3600)).await;
        assert_eq!(live.now_ns() - began, 3_600_000_000_000);
        assert_eq!(live.interrupted(), None, "a budget beyond the clock's range is none");
    }
}
