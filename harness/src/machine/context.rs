//! Whether the conversation must be made smaller before the next request, and how.
//!
//! Place in the flow: build what is shown -> budget -> **compact if needed** -> reserve -> ask. A compaction must
//! shrink what is shown to a set share, and at most two follow each other without an answer in between; else the
//! run stops. Nothing is asked while a call stands without its result.

use super::state::{State, Stop};
use super::{Run, Step};
use crate::config::Strategy;
use crate::context::{Item, View, prune, selective, summarise, tokens, turn, unpaired};
use trace::fact::{Compacted, ModelAnswered};
use trace::message::{Finish, Message, Part};
use trace::outcome::{FaultClass, StopReason};
use trace::redact::Redactor;

/// Compactions without an answer in between.
const MOST_IN_A_ROW: u32 = 2;

/// What became of a summary that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Summary {
    Told(String),
    Failed,
}

impl Run {
    /// Takes in how the messages are kept. What is decided here must not hang on a secret that a replay never sees.
    pub fn keep(&mut self, redactor: &Redactor) {
        if self.config.context.strategy == Strategy::None && !super::limit::reserves(&self.config) {
            return;
        }
        for message in &self.state.messages[self.kept.len().min(self.state.messages.len())..] {
            self.kept.push(kept(message, redactor));
        }
        self.kept_summary = match &self.state.summary {
            Some(Summary::Told(text)) => Some(redactor.text(text).into_owned()),
            _ => None,
        };
    }

    /// The conversation as it is kept.
    fn as_kept(&self) -> &[Message] {
        if self.kept.len() < self.state.messages.len() { &self.state.messages } else { &self.kept }
    }

    /// Tokens of the next request's messages, estimated: what the provider counted last, and what was said since.
    pub(super) fn next_tokens(&self) -> u64 {
        let messages = self.as_kept();
        match self.state.counted {
            Some((counted, at)) => counted + tokens(messages.get(at..).unwrap_or_default()),
            None => tokens(self.state.view.items(messages).iter().map(|item| item.message)),
        }
    }

    /// What comes before asking: a smaller view, a request for a summary, or a stop; `None` where nothing does.
    pub(super) fn before_asking(&self, turn: u32) -> Option<Step> {
        let step = match self.config.context.strategy {
            Strategy::None => None,
            _ => self.compaction(turn),
        };
        step.or_else(|| {
            let wrong = unpaired(&self.state.view.items(&self.state.messages))?;
            let stop = Stop {
                detail: Some(format!("turn {turn} was not asked: {wrong}")),
                next_safe_action: Some("this is a fault of loopdeck: report it with the tape".to_owned()),
                ..Stop::new(StopReason::ModelError, "unpaired_calls")
            };
            Some(self.done(&stop))
        })
    }

    fn compaction(&self, turn: u32) -> Option<Step> {
        let table = &self.config.context;
        let messages = self.as_kept();
        let items = self.state.view.items(messages);
        let before = size(&items);
        let trigger = self.trigger(&items, before)?;
        let most = share(before, table.max_share);
        if self.state.compactions >= MOST_IN_A_ROW {
            let stop = Stop::limit(
                StopReason::ContextExhausted,
                "compactions_in_a_row",
                figure(table.max_tokens),
                figure(before),
            );
            let detail = format!(
                "after {MOST_IN_A_ROW} compactions in a row the context still has about {before} tokens"
            );
            return Some(self.done(&Stop { detail: Some(detail), ..stop }));
        }
        let pinned = &self.state.places_kept();
        let pruned = |keep| prune::prune(&items, keep, pinned, messages.len());
        let shrinks = |view: &View| size(&view.items(messages)) <= most;
        // As much as was asked for; if that leaves too little out, the newest turn alone.
        let Some(keep) =
            [table.keep_turns, table.keep_turns.min(1)].into_iter().find(|keep| shrinks(&pruned(*keep)))
        else {
            let after = size(&pruned(table.keep_turns.min(1)).items(messages));
            return (trigger != "every_turns").then(|| self.done(&not_smaller(before, after, most)));
        };
        let view = match table.strategy {
            Strategy::Summarise if self.state.compactions == 0 => match &self.state.summary {
                None => match summarise::request(&items, keep, pinned).filter(|words| self.affords(words)) {
                    Some(messages) => return Some(Step::Summarise { turn, messages }),
                    None => pruned(keep),
                },
                Some(Summary::Told(text)) => {
                    let text = self.kept_summary.as_ref().unwrap_or(text);
                    summarise::summarised(&items, keep, text, pinned, messages.len())
                }
                Some(Summary::Failed) => pruned(keep),
            },
            Strategy::Selective if self.state.compactions == 0 => {
                let room = most.min(table.max_tokens / 2).saturating_sub(size(&pruned(keep).items(messages)));
                let task = self.task();
                let score = |turn: &[Item<'_>]| selective::relevance(&task, turn);
                selective::select(&items, keep, room, pinned, messages.len(), score)
            }
            _ => pruned(keep),
        };
        let (view, strategy) = match view {
            view if !shrinks(&view) || view == pruned(keep) => (pruned(keep), Strategy::Prune),
            view => (view, table.strategy),
        };
        let after = size(&view.items(messages));
        Some(Step::Compact(Box::new(compacted(turn, strategy, trigger, (before, after), view))))
    }

    /// Why the conversation has to be smaller, if it has to.
    fn trigger(&self, items: &[Item<'_>], before: u64) -> Option<&'static str> {
        let table = &self.config.context;
        let is_new = |turn: &turn::Turn| {
            items[turn.items.start].place.is_some_and(|at| at >= self.state.view.messages)
        };
        let new = turn::turns(items).iter().filter(|turn| turn.calls && is_new(turn)).count();
        match () {
            () if self.state.overfull => Some("context_full"),
            () if before > table.max_tokens => Some("max_tokens"),
            () if table.every_turns.is_some_and(|every| new >= every as usize) => Some("every_turns"),
            () => None,
        }
    }

    /// Whether a summary of these messages has room in every budget.
    fn affords(&self, words: &[Message]) -> bool {
        let model = self.config.context_model();
        super::limit::unreserved(&self.config, &model, &self.state, || tokens(words)).is_none()
    }

    /// What the run is asked to do, and what the model said last.
    fn task(&self) -> String {
        let messages = self.as_kept();
        let pinned = messages.get(self.state.pinned.clone()).unwrap_or_default();
        pinned
            .iter()
            .chain(messages.iter().rev().find(|one| one.tool_calls().next().is_some()))
            .map(Message::joined_text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Whether a full context can be answered by showing less: once.
    fn may_compact(&self) -> bool {
        self.config.context.strategy != Strategy::None && !self.state.forced
    }

    /// Takes a full context in; false where nothing can be done about it.
    pub(super) fn overfull(&mut self) -> bool {
        let may = self.may_compact();
        if may {
            (self.state.overfull, self.state.forced) = (true, true);
        }
        may
    }
}

impl State {
    /// The messages that no strategy leaves out: what the run is to do, what it knows from before, and where its goal
    /// stands. The goal itself is in the instructions.
    fn places_kept(&self) -> Vec<usize> {
        self.pinned.clone().chain(self.checked).collect()
    }

    /// What the model is shown next.
    #[must_use]
    pub fn prompt(&self) -> Vec<&Message> {
        self.view.items(&self.messages).into_iter().map(|item| item.message).collect()
    }

    /// What the model was shown last, as far as messages that are still there tell.
    #[must_use]
    pub fn prompt_sent(&self) -> Vec<&Message> {
        let sent = self.messages.get(..self.sent).unwrap_or_default();
        self.view_sent.items(sent).into_iter().map(|item| item.message).collect()
    }

    /// Whether what the model was shown last is not what it is shown next, but for what is new.
    #[must_use]
    pub fn is_shown_anew(&self) -> bool {
        self.view != self.view_sent
    }

    pub(super) fn compacted(&mut self, fact: &Compacted) {
        self.view = View { shown: fact.view.clone(), messages: fact.messages as usize };
        self.compactions += 1;
        self.summary = None;
        self.overfull = false;
        self.counted = None;
    }

    pub(super) fn summarised(&mut self, fact: &ModelAnswered) {
        if fact.fault.as_ref().is_some_and(|fault| fault.class == FaultClass::Cancelled) {
            // Nothing came of it because the run was ended: it is asked again when the run goes on.
            return;
        }
        let last_tokens = self.last_tokens;
        let text = fact.response.as_ref().map(|response| {
            self.spend(&response.usage, fact.cost_usd);
            response.message().joined_text()
        });
        self.last_tokens = last_tokens;
        self.summary = Some(match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => Summary::Told(text),
            None => Summary::Failed,
        });
    }

    /// Takes an answer in, as far as the context goes.
    pub(super) fn heard_answer(&mut self, fact: &ModelAnswered) {
        let Some(response) = &fact.response else { return };
        self.compactions = 0;
        self.forced &= response.finish == Finish::ContextFull;
        let counted = response.usage.input_tokens.zip(response.usage.output_tokens);
        self.counted = counted.map(|(input, output)| (input.saturating_add(output), self.messages.len()));
    }
}

fn compacted(turn: u32, strategy: Strategy, trigger: &str, sizes: (u64, u64), view: View) -> Compacted {
    Compacted {
        turn,
        strategy: strategy.as_str().to_owned(),
        trigger: trigger.to_owned(),
        before_tokens: sizes.0,
        after_tokens: sizes.1,
        messages: u32::try_from(view.messages).unwrap_or(u32::MAX),
        view: view.shown,
    }
}

fn not_smaller(before: u64, after: u64, most: u64) -> Stop {
    let detail = format!(
        "the context has about {before} tokens and could only be brought to {after}, where at most {most} would be \
         a gain"
    );
    let stop = Stop::limit(StopReason::ContextExhausted, "context_not_smaller", figure(most), figure(after));
    Stop { detail: Some(detail), ..stop }
}

fn size(items: &[Item<'_>]) -> u64 {
    tokens(items.iter().map(|item| item.message))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 of a count far below 2^53"
)]
fn share(count: u64, share: f64) -> u64 {
    (count as f64 * share) as u64
}

#[expect(clippy::cast_precision_loss, reason = "evidence is read by people; counts stay far below 2^53")]
fn figure(count: u64) -> f64 {
    count as f64
}

/// A message without secrets.
fn kept(message: &Message, redactor: &Redactor) -> Message {
    let clean = |text: &str| redactor.text(text).into_owned();
    let mut message = message.clone();
    for part in &mut message.parts {
        match part {
            Part::Text { text } => *text = clean(text),
            Part::ToolCall(call) => call.arguments = clean(&call.arguments),
            Part::ToolResult(result) => result.content = clean(&result.content),
            Part::Reasoning { raw, text } => {
                *text = clean(text);
                *raw = raw.as_ref().map(|raw| clean_json(raw, redactor));
            }
            Part::Opaque { raw, .. } => *raw = clean_json(raw, redactor),
        }
    }
    message
}

fn clean_json(raw: &serde_json::Value, redactor: &Redactor) -> serde_json::Value {
    match redactor.text(&raw.to_string()) {
        std::borrow::Cow::Borrowed(_) => raw.clone(),
        std::borrow::Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or(serde_json::Value::Null),
    }
}
