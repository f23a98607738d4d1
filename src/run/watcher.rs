//! Watches a run from inside and tells it twice: to people on stderr, to programs on stdout where they asked for it.
//!
//! Place in the flow: driver -> **watcher** -> screen and events. It changes nothing in the run.

use super::event;
use super::progress::Progress;
use super::screen::Screen;
use crate::interrupt::Source;
use crate::say;
use harness::driver::Observer;
use harness::machine::Event;
use harness::model::Delta;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use trace::fact::{Fact, ModelAnswered, ToolFinished, waiting};
use trace::message::{joined_text, tool_calls};
use trace::outcome::ToolStatus;
use trace::redact::Redactor;
use trace::tape::Tape;

/// Characters of a call's arguments that people are shown.
const ARGUMENTS_CHARS: usize = 72;

/// How a run is told while it goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Events on stdout.
    pub(crate) json: bool,
    /// Nothing for people until the end.
    pub(crate) quiet: bool,
}

/// Tells what a run does.
#[derive(Debug)]
pub(crate) struct Watcher {
    screen: Screen,
    events: bool,
    redactor: Arc<Redactor>,
    progress: Progress,
    turn: u32,
    /// The text of the current answer as far as it is on the screen.
    shown: String,
}

impl Watcher {
    /// Watches on this process's own screen.
    pub(crate) fn new(manner: Manner, redactor: Arc<Redactor>) -> Self {
        Self::from(manner, redactor, Progress::default(), Duration::ZERO)
    }

    /// The same for a run that has been at work before.
    pub(crate) fn of_tape(manner: Manner, redactor: Arc<Redactor>, tape: &Tape) -> Self {
        let mut progress = Progress::default();
        tape.lines().iter().for_each(|line| progress.take(&line.fact));
        let mut watcher = Self::from(manner, redactor, progress, harness::agent::ran_for(tape));
        if waiting(tape.lines()).is_some() {
            watcher.screen.rest();
        }
        watcher
    }

    fn from(manner: Manner, redactor: Arc<Redactor>, progress: Progress, before: Duration) -> Self {
        // Events and a bar on one terminal would be mixed.
        let hidden = manner.quiet || (manner.json && say::stdout_is_terminal());
        let mut screen = if hidden { Screen::Silent } else { Screen::of_process(before) };
        screen.progress(&progress);
        Self { screen, events: manner.json, redactor, progress, turn: 0, shown: String::new() }
    }

    /// Something that may tell people of an interruption at any time, without breaking the screen.
    pub(crate) fn teller(&self) -> impl Fn(&str, Source) + Send + use<> {
        self.screen.teller()
    }

    /// The run is over. Gives the text that is the last on the screen.
    pub(crate) fn close(mut self) -> String {
        self.screen.close();
        self.shown
    }

    fn tell(&self, event: &Value) {
        if self.events {
            say::event(event);
        }
    }

    fn answered(&mut self, fact: &ModelAnswered) {
        let Some(response) = &fact.response else { return self.screen.end_text() };
        let text = joined_text(&response.parts);
        if !text.is_empty() && self.shown.is_empty() {
            // It did not come in pieces that could be shown.
            self.tell(&event::of_delta(fact.turn, &Delta::Text(text.clone())));
            self.screen.text(&text);
        }
        self.screen.end_text();
        let calls = tool_calls(&response.parts).next().is_some();
        if !self.screen.is_live() && calls && !text.trim().is_empty() {
            self.screen.line(&format!("turn {}: {}", fact.turn, say::clip(&text)));
        }
        self.shown = text;
    }

    fn finished(&mut self, fact: &ToolFinished) {
        let ok = fact.status == ToolStatus::Ok;
        let arguments = self.redactor.text(&fact.arguments);
        let why = match ok {
            true => String::new(),
            false => format!(": {}", say::clip(&self.redactor.text(&fact.content))),
        };
        self.screen.line(&format!(
            "turn {}: {} {} {} {} ms{why}",
            fact.key.turn,
            say::clip(&fact.tool_name),
            say::clip_to(&arguments, ARGUMENTS_CHARS),
            say::accent(fact.status.as_str(), if ok { "32" } else { "31" }),
            fact.latency_ns / 1_000_000
        ));
    }
}

impl Observer for Watcher {
    fn recorded(&mut self, _seq: u64, at_ns: i64, fact: &Fact) {
        if let Fact::ModelAsked(fact) = fact {
            self.turn = fact.turn;
            self.shown.clear();
        }
        self.progress.take(fact);
        match fact {
            Fact::RunStarted(fact) => {
                self.screen.line(&format!("run {} of {} on {}", fact.run_id, fact.agent, fact.model));
            }
            Fact::ModelAnswered(fact) => self.answered(fact),
            Fact::ToolFinished(fact) => self.finished(fact),
            Fact::Compacted(fact) => self.screen.line(&format!(
                "turn {}: the model is shown about {} tokens instead of {}",
                fact.turn, fact.after_tokens, fact.before_tokens
            )),
            Fact::PersonAnswered(_) => self.screen.go_on(),
            _ => {}
        }
        if let Some(event) = event::of_fact(at_ns, fact, &self.redactor).filter(|_| self.events) {
            self.tell(&event);
        }
        self.screen.progress(&self.progress);
        if matches!(fact, Fact::PersonAsked(_)) {
            self.screen.rest();
        }
    }

    fn delta(&mut self, delta: &Delta) {
        self.tell(&event::of_delta(self.turn, delta));
        match delta {
            Delta::Text(text) => {
                self.shown.push_str(text);
                self.progress.does("writes");
                self.screen.text(text);
            }
            Delta::Reasoning(_) => self.progress.does("thinks"),
            Delta::ToolCall { name } => self.progress.does(&format!("calls {}", say::clip(name))),
        }
        self.screen.progress(&self.progress);
    }

    fn event(&mut self, event: &Event) {
        if let Event::Retrying { turn, ms, why } = event {
            self.tell(&event::retry(*turn, *ms, why));
            self.screen.line(&format!("turn {turn}: trying again in {ms} ms: {}", say::clip(why)));
        }
    }
}

#[cfg(test)]
mod tests;
