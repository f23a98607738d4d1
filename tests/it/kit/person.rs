//! People of stories: one who answers what the story says, one who never does.

use futures::future::{BoxFuture, pending, ready};
use harness::person::Person;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Way};

/// What a person answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Allow,
    Deny(&'static str),
    Say(&'static str),
    /// An answer to another question.
    Elsewhere,
}

/// A person who gives these answers, one a question, and then none.
#[derive(Debug)]
pub(crate) struct Ada(Mutex<VecDeque<Answer>>);

impl Ada {
    pub(crate) fn who(answers: &[Answer]) -> Option<Arc<dyn Person>> {
        Some(Arc::new(Self(Mutex::new(answers.iter().copied().collect()))))
    }
}

impl Person for Ada {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        let answer = self.0.lock().unwrap().pop_front().map(|answer| answer.to(asked));
        Box::pin(ready(answer))
    }
}

impl Answer {
    fn to(self, asked: &PersonAsked) -> PersonAnswered {
        let mut answer = asked.answered("ada", Way::Terminal, asked.expires_at_ns - 1);
        match self {
            Self::Allow => answer.ruling = Some(Ruling::Allow),
            Self::Deny(why) => {
                answer.ruling = Some(Ruling::Deny);
                answer.reason = Some(why.to_owned());
            }
            Self::Say(said) => answer.said = Some(said.to_owned()),
            Self::Elsewhere => {
                answer.ruling = Some(Ruling::Allow);
                answer.token = trace::id::Hash::of(b"another question");
            }
        }
        answer
    }
}

/// A person who gives the same answer to every question, after some thought.
#[derive(Debug)]
pub(crate) struct Steady(Answer);

/// How often such a person wakes up before the answer comes, and how long each nap is.
const NAPS: u32 = 3;
const NAP: Duration = Duration::from_millis(100);

impl Steady {
    pub(crate) fn who(answer: Answer) -> Option<Arc<dyn Person>> {
        Some(Arc::new(Self(answer)))
    }
}

impl Person for Steady {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        Box::pin(async move {
            for _ in 0..NAPS {
                tokio::time::sleep(NAP).await;
            }
            Some(self.0.to(asked))
        })
    }
}

/// Nobody is there when the first question comes; whoever goes on with the run finds this person.
#[derive(Debug)]
pub(crate) struct Later {
    came: AtomicBool,
    then: Steady,
}

impl Later {
    pub(crate) fn who(answer: Answer) -> Option<Arc<dyn Person>> {
        Some(Arc::new(Self { came: AtomicBool::new(false), then: Steady(answer) }))
    }
}

impl Person for Later {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        match self.came.swap(true, Ordering::SeqCst) {
            true => self.then.answer(asked),
            false => Box::pin(ready(None)),
        }
    }
}

/// A person who looks at the question and says nothing.
#[derive(Debug)]
pub(crate) struct Silent;

impl Silent {
    pub(crate) fn who() -> Option<Arc<dyn Person>> {
        Some(Arc::new(Self))
    }
}

impl Person for Silent {
    fn answer<'a>(&'a self, _asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        Box::pin(pending())
    }
}
