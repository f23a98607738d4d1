//! What must hold of a run, whatever struck it: one result a call, no effect twice, spans closed once, sums exact,
//! an exact replay; and that a run which was struck and went on tells the story of the one that was not.

use crate::goal::folded;
use crate::kit::{Kit, assert_exact, checked};
use harness::machine::Spent;
use harness::model::scripted::ScriptTurn;
use harness::tool::Tool;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trace::attribute::{self as name, operation};
use trace::fact::{Fact, ModelAnswered, RunStarted, ToolFinished, Wants, waiting};
use trace::id::CallKey;
use trace::message::{Message, Role, Usage};
use trace::outcome::{FaultClass, Outcome, RunStatus, StopReason, ToolStatus};
use trace::span::{Span, from_tape};
use trace::tape::{Line, Tape};

/// A run that has ended: its tape, its outcome, its conversation, what it knows of the runs that were its calls.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) tape: Arc<Tape>,
    pub(super) outcome: Outcome,
    messages: Vec<Message>,
    parts: Spent,
    turns: u32,
    kit: Kit,
}

/// The turns that the model has not said yet, by these tapes: one whose answer was cancelled is said again.
pub(super) fn unsaid(kit: &Kit, tapes: &[&Tape]) -> Vec<ScriptTurn> {
    let is_cancelled =
        |fact: &&ModelAnswered| fact.fault.as_ref().is_some_and(|fault| fault.class == FaultClass::Cancelled);
    let said = tapes.iter().flat_map(|tape| answers(tape)).filter(|fact| !is_cancelled(fact)).count();
    kit.turns.iter().skip(said).cloned().collect()
}

/// What a model said, summaries included.
fn answers(tape: &Tape) -> impl Iterator<Item = &ModelAnswered> {
    tape.lines().iter().filter_map(|line| match &line.fact {
        Fact::ModelAnswered(fact) | Fact::SummaryAnswered(fact) => Some(&**fact),
        _ => None,
    })
}

impl Story {
    /// The story on this tape, after its fsck.
    pub(super) fn of(kit: &Kit, path: &Path, outcome: Outcome) -> Self {
        let tape = Arc::new(checked(path));
        let run = folded(&tape);
        let (messages, parts) = (run.state().messages.clone(), run.state().children);
        let turns = run.config().budget.max_model_turns;
        Self { tape, outcome, messages, parts, turns, kit: kit.clone() }
    }

    fn results(&self) -> Vec<&ToolFinished> {
        let facts = self.tape.lines().iter().map(|line| &line.fact);
        facts
            .filter_map(|fact| if let Fact::ToolFinished(fact) = fact { Some(&**fact) } else { None })
            .collect()
    }

    /// Whether models were asked beside the run's own turns: for summaries, or by agents that are tools.
    pub(super) fn has_side_calls(&self) -> bool {
        let is_summary = |line: &Line| matches!(line.fact, Fact::SummaryAsked(_));
        !self.kit.agents.is_empty() || self.tape.lines().iter().any(is_summary)
    }

    /// Every promise that does not depend on how the run went.
    pub(super) async fn holds(&self, what: &str) {
        let ended = self.tape.ended().unwrap_or_else(|| panic!("{what}: the end is not on the tape"));
        assert_eq!(ended.outcome, self.outcome, "{what}");
        self.sums_are_exact(what);
        self.spans_are_closed_once(what);
        self.no_effect_comes_twice(what);
        self.parts_are_paid_for(what);
        assert_exact(&self.tape).await;
    }

    /// What the runs used up that were its calls, by their own tapes, is what this run knows of, whatever became of
    /// them; and those that ended keep the promises too.
    fn parts_are_paid_for(&self, what: &str) {
        let (mut usage, mut tool_calls) = (Usage::default(), 0);
        for path in Tape::list(self.tape.path().parent().unwrap()).unwrap() {
            let part = Tape::read(&path).unwrap();
            let own = |started: &RunStarted| {
                started.parent_run_id == self.tape.started().map(|started| started.run_id.clone())
            };
            if path == self.tape.path() || !part.started().is_some_and(own) || self.kit.agents.is_empty() {
                continue;
            }
            answers(&part).for_each(|fact| usage.add(&fact.usage()));
            tool_calls += part.lines().iter().filter(|line| line.fact.kind() == "tool_finished").count();
            if let Some(ended) = part.ended() {
                let story = Self::of(&self.kit, &path, ended.outcome.clone());
                story.sums_are_exact(what);
                story.spans_are_closed_once(what);
            }
        }
        assert_eq!(self.parts.usage, usage, "{what}: tokens of parts");
        assert_eq!(self.parts.tool_calls as usize, tool_calls, "{what}: tool calls of parts");
    }

    fn sums_are_exact(&self, what: &str) {
        let mut usage = Usage::default();
        answers(&self.tape).for_each(|fact| usage.add(&fact.usage()));
        assert_eq!(self.outcome.usage, usage, "{what}: tokens");
        assert_eq!(self.outcome.tool_calls as usize, self.results().len(), "{what}: tool calls");
        let turns = self.tape.lines().iter().filter_map(|line| match &line.fact {
            Fact::ModelAsked(fact) => Some(fact.turn),
            _ => None,
        });
        assert_eq!(self.outcome.turns, turns.max().unwrap_or(0), "{what}: turns");
        assert!(self.outcome.turns <= self.turns, "{what}: turns");
    }

    fn spans_are_closed_once(&self, what: &str) {
        let spans = from_tape(&self.tape);
        let mut ids: BTreeSet<_> = spans.iter().map(|span| span.span_id).collect();
        assert_eq!(ids.len(), spans.len(), "{what}: a span comes twice");
        ids.extend(self.tape.started().and_then(|started| started.parent_span_id));
        // The call that waits for somebody has no end yet.
        let is_open = |span: &Span| span.open && span.ended_at_ns.is_none();
        let waits =
            usize::from(self.outcome.status == RunStatus::Paused && waiting(self.tape.lines()).is_some());
        let open: Vec<&str> =
            spans.iter().filter(|span| is_open(span)).map(|span| span.name.as_str()).collect();
        assert_eq!(open.len(), waits, "{what}: still open: {open:?}");
        for span in &spans {
            let is_in_order = span.ended_at_ns >= span.started_at_ns;
            assert!(is_open(span) || is_in_order, "{what}: {} ends before it begins", span.name);
            let parent = span.parent_span_id;
            assert!(parent.is_none_or(|id| ids.contains(&id)), "{what}: {} hangs in the air", span.name);
        }
        let count = |kind: &str| {
            let of = |span: &&Span| {
                [name::OPERATION_NAME, name::SPAN_KIND].iter().any(|key| span.text(key) == Some(kind))
            };
            spans.iter().filter(of).count()
        };
        assert_eq!(count(operation::INVOKE_AGENT), 1, "{what}");
        let is_summary = |line: &&Line| matches!(line.fact, Fact::SummaryAsked(_));
        let asked = self.outcome.turns as usize + self.tape.lines().iter().filter(is_summary).count();
        assert_eq!(count(operation::CHAT), asked, "{what}: a model call a turn, and one a summary");
        assert_eq!(count(operation::EXECUTE_TOOL), self.results().len() + waits, "{what}: a span a call");
    }

    /// A tool that must not run twice has at most one intent a call, and one more for each answer to a question of its
    /// own; and no effect without one.
    fn no_effect_comes_twice(&self, what: &str) {
        let mut intents: BTreeMap<(String, CallKey), u32> = BTreeMap::new();
        let mut asked: BTreeMap<CallKey, u32> = BTreeMap::new();
        for line in self.tape.lines() {
            match &line.fact {
                Fact::ToolStarted(fact) => {
                    *intents.entry((fact.tool_name.clone(), fact.key)).or_default() += 1;
                }
                Fact::PersonAsked(fact) if fact.wants != Wants::Approval => {
                    *asked.entry(fact.key).or_default() += 1;
                }
                _ => {}
            }
        }
        for tool in self.kit.tools.iter().filter(|tool| !tool.spec().is_repeatable()) {
            let of_tool = || intents.iter().filter(|((name, _), _)| *name == tool.spec().name);
            let most = |key: &CallKey| 1 + asked.get(key).copied().unwrap_or(0);
            assert!(
                of_tool().all(|((_, key), times)| *times <= most(key)),
                "{what}: `{}` began twice",
                tool.spec().name
            );
            let begun = of_tool().map(|(_, times)| *times).sum::<u32>();
            assert!(tool.entered() <= begun, "{what}: `{}` without an intent", tool.spec().name);
        }
    }

    /// Whether the end of this run hangs on what one of these calls had to say: its question waits, or what it had used
    /// up was too much.
    fn hangs_on(&self, calls: &BTreeSet<CallKey>) -> bool {
        let is_of_part =
            self.outcome.stop_reason == StopReason::BudgetExceeded && !self.kit.agents.is_empty();
        match waiting(self.tape.lines()) {
            Some(asked) => calls.contains(&asked.key),
            None => is_of_part && !calls.is_empty(),
        }
    }

    /// How many messages were said before the results of the first of these calls.
    fn said_before(&self, calls: &BTreeSet<CallKey>) -> usize {
        let first = calls.first().map_or(0, |key| key.turn as usize);
        let answers = self.messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant);
        answers.map(|(at, _)| at + 1).nth(first.saturating_sub(1)).unwrap_or(0)
    }

    /// What people said about these calls.
    fn said_instead(&self, calls: &BTreeSet<CallKey>) -> Vec<&str> {
        let of = |fact: &Fact| matches!(fact, Fact::PersonAsked(fact) if calls.contains(&fact.key));
        let facts: Vec<&Fact> = self.tape.lines().iter().map(|line| &line.fact).collect();
        let answers = facts.windows(2).filter(|pair| of(pair[0])).filter_map(|pair| match pair[1] {
            Fact::PersonAnswered(fact) => fact.said.as_deref(),
            _ => None,
        });
        answers.collect()
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
        if self.hangs_on(&unknown) {
            // Without that call's word the other run goes further: as far as this one went, they agree.
            assert!(known(other).starts_with(&known(self)), "{what}: results");
            assert!(
                other.messages.starts_with(&self.messages[..self.said_before(&unknown)]),
                "{what}: what was said"
            );
            return;
        }
        assert_eq!(known(other), known(self), "{what}: results");
        // A call of unknown outcome asks nobody, so nobody says anything instead.
        let unasked: Vec<&str> = self.said_instead(&unknown);
        let spoken = |story: &Self| -> Vec<Message> {
            let is_spoken = |message: &&Message| {
                message.role != Role::Tool && !unasked.contains(&message.joined_text().as_str())
            };
            story.messages.iter().filter(is_spoken).cloned().collect()
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
