//! People who can be asked while a run goes on, and what they answered elsewhere.
//!
//! Place in the flow: the driver asks through its ports. In a terminal a person types; in a resumed run the answer was
//! given by another process and waits to be taken up. Where nobody answers, the run pauses.

use futures::future::{BoxFuture, ready};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use trace::fact::{PersonAnswered, PersonAsked};

/// Somebody who can be asked.
pub trait Person: Send + Sync + Debug {
    /// Puts the question; `None` where nobody answers. The future is dropped to cancel.
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>>;
}

/// An answer that was given before the run went on, for its one question; then whoever else is there.
#[derive(Debug)]
pub struct Given {
    answer: Mutex<Option<PersonAnswered>>,
    then: Option<Arc<dyn Person>>,
}

impl Given {
    /// This answer, once, and then this person.
    #[must_use]
    pub const fn new(answer: PersonAnswered, then: Option<Arc<dyn Person>>) -> Self {
        Self { answer: Mutex::new(Some(answer)), then }
    }
}

impl Person for Given {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        let mut given = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        match (given.take_if(|answer| answer.token == asked.token), &self.then) {
            (Some(answer), _) => Box::pin(ready(Some(answer))),
            (None, Some(then)) => then.answer(asked),
            (None, None) => Box::pin(ready(None)),
        }
    }
}
