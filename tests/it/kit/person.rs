//! People of stories: one who answers what the story says, one who never does.

use futures::future::{BoxFuture, pending, ready};
use harness::person::Person;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
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
        let mut answer = asked.answered("ada", Way::Terminal, asked.expires_at_ns - 1);
        match self.0.lock().unwrap().pop_front() {
            None => return Box::pin(ready(None)),
            Some(Answer::Allow) => answer.ruling = Some(Ruling::Allow),
            Some(Answer::Deny(why)) => {
                answer.ruling = Some(Ruling::Deny);
                answer.reason = Some(why.to_owned());
            }
            Some(Answer::Say(said)) => answer.said = Some(said.to_owned()),
            Some(Answer::Elsewhere) => {
                answer.ruling = Some(Ruling::Allow);
                answer.token = trace::id::Hash::of(b"another question");
            }
        }
        Box::pin(ready(Some(answer)))
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
