//! What must hold of a run, whatever struck it: one result a call, no effect twice, spans closed once, sums exact,
//! an exact replay; and that a run which was struck and went on tells the story of the one that was not.

use crate::kit::{Kit, assert_exact, checked};
use harness::machine::Run;
use harness::model::scripted::ScriptTurn;
use harness::tool::Tool;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trace::attribute::{self as name, operation};
use trace::fact::{Fact, ModelAnswered, ToolFinished};
use trace::id::CallKey;
use trace::message::{Message, Role, Usage};
use trace::outcome::{FaultClass, Outcome, ToolStatus};
use trace::span::from_tape;
use trace::tape::Tape;

/// A run that has ended: its tape, its outcome, its conversation.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) tape: Arc<Tape>,
    pub(super) outcome: Outcome,
    messages: Vec<Message>,
    kit: Kit,
}

/// The turns that the model has not said yet, by this tape: one whose answer was cancelled is said again.
pub(super) fn unsaid(kit: &Kit, tape: &Tape) -> Vec<ScriptTurn> {
    let is_cancelled =
        |fact: &ModelAnswered| fact.fault.as_ref().is_some_and(|fault| fault.class == FaultClass::Cancelled);
    let said = answers(tape).filter(|fact| !is_cancelled(fact)).count();
    kit.turns.iter().skip(said).cloned().collect()
}

fn answers(tape: &Tape) -> impl Iterator<Item = &ModelAnswered> {
    tape.lines().iter().filter_map(|line| match &line.fact {
        Fact::ModelAnswered(fact) => Some(&**fact),
        _ => None,
    })
}

impl Story {
    /// The story on this tape, after its fsck.
    pub(super) fn of(kit: &Kit, path: &Path, outcome: Outcome) -> Self {
        let tape = Arc::new(checked(path));
        let specs = kit.tools.iter().map(|tool| tool.spec().clone()).collect();
        let facts = tape.lines().iter().map(|line| (line.at_ns, &line.fact));
        let run = Run::fold(Arc::new(kit.config.clone()), Arc::new(specs), facts);
        let messages = run.state().messages.clone();
        Self { tape, outcome, messages, kit: kit.clone() }
    }

    fn results(&self) -> Vec<&ToolFinished> {
        let facts = self.tape.lines().iter().map(|line| &line.fact);
        facts
            .filter_map(|fact| if let Fact::ToolFinished(fact) = fact { Some(&**fact) } else { None })
            .collect()
    }

    /// Every promise that does not depend on how the run went.
    pub(super) async fn holds(&self, what: &str) {
        let ended = self.tape.ended().unwrap_or_else(|| panic!("{what}: the end is not on the tape"));
        assert_eq!(ended.outcome, self.outcome, "{what}");
        self.sums_are_exact(what);
        self.spans_are_closed_once(what);
        self.no_effect_comes_twice(what);
        assert_exact(&self.tape).await;
    }

    fn sums_are_exact(&self, what: &str) {
        let mut usage = Usage::default();
        answers(&self.tape).for_each(|fact| usage.add(&fact.usage()));
        assert_eq!(self.outcome.usage, usage, "{what}: tokens");
        assert_eq!(self.outcome.tool_calls as usize, self.results().len(), "{what}: tool calls");
        let turns = self.tape.lines().iter().filter_map(|line| line.fact.turn()).max();
        assert_eq!(self.outcome.turns, turns.unwrap_or(0), "{what}: turns");
        assert!(self.outcome.turns <= self.kit.config.budget.max_model_turns, "{what}: turns");
    }

    fn spans_are_closed_once(&self, what: &str) {
        let spans = from_tape(&self.tape);
        let ids: BTreeSet<_> = spans.iter().map(|span| span.span_id).collect();
        assert_eq!(ids.len(), spans.len(), "{what}: a span comes twice");
        for span in &spans {
            assert!(!span.open, "{what}: {} is still open", span.name);
            assert!(span.ended_at_ns >= span.started_at_ns, "{what}: {} ends before it begins", span.name);
            let parent = span.parent_span_id;
            assert!(parent.is_none_or(|id| ids.contains(&id)), "{what}: {} hangs in the air", span.name);
        }
        let count = |kind: &str| {
            let of = |span: &&trace::span::Span| {
                [name::OPERATION_NAME, name::SPAN_KIND].iter().any(|key| span.text(key) == Some(kind))
            };
            spans.iter().filter(of).count()
        };
        assert_eq!(count(operation::INVOKE_AGENT), 1, "{what}");
        assert_eq!(count(operation::CHAT), self.outcome.turns as usize, "{what}: a model call a turn");
        assert_eq!(count(operation::EXECUTE_TOOL), self.results().len(), "{what}: a span a call");
    }

    /// A tool that must not run twice has at most one intent a call, and no effect without one.
    fn no_effect_comes_twice(&self, what: &str) {
        let mut intents: BTreeMap<(String, CallKey), u32> = BTreeMap::new();
        for line in self.tape.lines() {
            if let Fact::ToolStarted(fact) = &line.fact {
                *intents.entry((fact.tool_name.clone(), fact.key)).or_default() += 1;
            }
        }
        for tool in self.kit.tools.iter().filter(|tool| !tool.spec().is_repeatable()) {
            let of_tool: Vec<u32> = intents
                .iter()
                .filter(|((name, _), _)| *name == tool.spec().name)
                .map(|(_, times)| *times)
                .collect();
            assert!(of_tool.iter().all(|times| *times == 1), "{what}: `{}` began twice", tool.spec().name);
            assert!(
                tool.entered() as usize <= of_tool.len(),
                "{what}: `{}` without an intent",
                tool.spec().name
            );
        }
    }

    /// The other run is this one: same conversation, same end. Only what nobody can know may differ: the result of
    /// a call that had begun and must not be repeated.
    pub(super) fn is_told_by(&self, other: &Self, what: &str) {
        let unknown: BTreeSet<CallKey> = other
            .results()
            .into_iter()
            .filter(|fact| fact.status == ToolStatus::UnknownOutcome)
            .map(|fact| fact.key)
            .collect();
        let known = |story: &Self| -> Vec<_> {
            let results = story.results().into_iter().filter(|fact| !unknown.contains(&fact.key));
            results.map(|fact| (fact.key, fact.call_id.clone(), fact.status, fact.content.clone())).collect()
        };
        assert_eq!(known(other), known(self), "{what}: results");
        let spoken = |story: &Self| -> Vec<Message> {
            story.messages.iter().filter(|message| message.role != Role::Tool).cloned().collect()
        };
        assert_eq!(spoken(other), spoken(self), "{what}: what was said");
        let end = |story: &Self| {
            let outcome = &story.outcome;
            (
                outcome.status,
                outcome.stop_reason,
                outcome.trigger.clone(),
                outcome.answer.clone(),
                outcome.turns,
            )
        };
        // Fewer known failures can only make a limit of failures hold later.
        if unknown.is_empty() {
            assert_eq!(other.messages, self.messages, "{what}: the conversation");
            assert_eq!(other.outcome.head, self.outcome.head, "{what}: the conversation as sent");
            assert_eq!(other.outcome.usage, self.outcome.usage, "{what}: tokens");
        }
        assert_eq!(end(other), end(self), "{what}: the end");
    }
}
