//! Questions to people and their answers, as a tape keeps them.
//!
//! Place in the flow: policy or a tool wants a person; [`PersonAsked`] is on the tape before anybody sees the
//! question, [`PersonAnswered`] is what came back, by whatever way it came. An answer bears the token of its question,
//! so it counts for that one question and for nothing else.

use crate::id::{CallKey, Hash, RunId};
use crate::outcome::words;
use crate::tape::Line;
use serde::{Deserialize, Serialize};

words! {
    /// What a person is asked for.
    Wants {
        /// Leave to run a call: policy wants it.
        Approval = "approval",
        /// A yes or no that a tool wants before it goes on.
        Confirmation = "confirmation",
        /// Words that a tool needs to go on.
        Input = "input",
    }
}

words! {
    /// What a person decides about a call.
    Ruling {
        /// It may run.
        Allow = "allow",
        /// It must not run.
        Deny = "deny",
    }
}

words! {
    /// How an answer came.
    Way {
        /// Typed where the run was started.
        Terminal = "terminal",
        /// By a command of another process.
        Command = "command",
        /// On the run's page.
        Page = "page",
    }
}

/// A question to a person about one call, before it is put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAsked {
    /// Which call.
    pub key: CallKey,
    /// The provider's id.
    pub call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments as canonical JSON.
    pub arguments: String,
    /// BLAKE3 of the tool's name and canonical arguments.
    pub args_hash: Hash,
    /// What is wanted.
    pub wants: Wants,
    /// The question, for people.
    pub prompt: String,
    /// The rule that wants it.
    pub rule: String,
    /// Names the question: BLAKE3 of run, call, tool, its schema, the arguments and the expiry.
    pub token: Hash,
    /// When an answer comes too late, in nanoseconds since 1970.
    pub expires_at_ns: i64,
    /// As in [`super::ModelAsked::heard`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<String>,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAnswered {
    /// Which call.
    pub key: CallKey,
    /// The token of the question.
    pub token: Hash,
    /// The decision, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruling>,
    /// What the person said to a tool's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Why, for the model and for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who.
    pub by: String,
    /// How it came.
    pub way: Way,
    /// When the person decided, in nanoseconds since 1970.
    pub decided_at_ns: i64,
}

impl PersonAsked {
    /// An answer to this question.
    #[must_use]
    pub fn answered(&self, by: &str, way: Way, decided_at_ns: i64) -> PersonAnswered {
        PersonAnswered {
            key: self.key,
            token: self.token,
            ruling: None,
            said: None,
            reason: None,
            by: by.to_owned(),
            way,
            decided_at_ns,
        }
    }
}

/// An answer that waits in the ops log for its run to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The run.
    pub run_id: RunId,
    /// What was answered.
    #[serde(flatten)]
    pub answer: PersonAnswered,
}

/// The question that a run of these lines waits for, if it waits for one.
#[must_use]
pub fn waiting(lines: &[Line]) -> Option<&PersonAsked> {
    use super::Fact;
    let mut waiting: Option<&PersonAsked> = None;
    for line in lines {
        match &line.fact {
            Fact::PersonAsked(fact) => waiting = Some(fact),
            Fact::PersonAnswered(fact) if waiting.is_some_and(|asked| asked.token == fact.token) => {
                waiting = None;
            }
            Fact::ToolFinished(fact) if waiting.is_some_and(|asked| asked.key == fact.key) => waiting = None,
            _ => {}
        }
    }
    waiting
}
