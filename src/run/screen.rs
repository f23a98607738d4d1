//! What people see on stderr while a run goes on: a live screen on a terminal, plain lines elsewhere.
//!
//! Place in the flow: watcher -> **screen**. On a terminal the bar is always the last line, the text being streamed
//! stands right above it, and whole lines scroll away above both; so none of them ever breaks another.

use super::flow::Flow;
use super::progress::Progress;
use crate::interrupt::Source;
use crate::say;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the bar is drawn, in times a second.
const DRAWS_PER_SECOND: u8 = 20;
/// How often the bar's clock moves.
const TICK: Duration = Duration::from_millis(200);

/// Where what happens is shown.
#[derive(Debug)]
pub(super) enum Screen {
    /// Nowhere.
    Silent,
    /// Line by line, for files and pipes.
    Lines,
    /// On a terminal.
    Live(Box<Live>),
}

/// A terminal with a bar at its foot.
#[derive(Debug)]
pub(super) struct Live {
    bar: ProgressBar,
    flow: Flow,
    progress: Arc<Mutex<Progress>>,
    streaming: bool,
}

impl Screen {
    /// The screen of this process; `before` is how long the run has been at work already.
    pub(super) fn of_process(before: Duration) -> Self {
        let term = Term::stderr();
        match term.features().is_attended() && std::env::var("TERM").as_deref() != Ok("dumb") {
            true => {
                let width = usize::from(term.size().1);
                let live = Live::new(ProgressDrawTarget::term(term, DRAWS_PER_SECOND), width, before);
                live.bar.enable_steady_tick(TICK);
                Self::Live(Box::new(live))
            }
            false => Self::Lines,
        }
    }

    /// A whole line.
    pub(super) fn line(&mut self, text: &str) {
        match self {
            Self::Silent => {}
            Self::Lines => say::talk(text),
            Self::Live(live) => live.line(text),
        }
    }

    /// A piece of streamed text; only a terminal shows it at once.
    pub(super) fn text(&mut self, piece: &str) {
        if let Self::Live(live) = self {
            live.text(piece);
        }
    }

    /// The streamed text is over.
    pub(super) fn end_text(&mut self) {
        if let Self::Live(live) = self {
            live.end_text();
        }
    }

    /// What is used up now.
    pub(super) fn progress(&mut self, progress: &Progress) {
        if let Self::Live(live) = self {
            live.progress(progress);
        }
    }

    /// Something that may tell of an interruption at any time.
    pub(super) fn teller(&self) -> impl Fn(&str, Source) + Send + use<> {
        let bar = match self {
            Self::Live(live) => Some(live.bar.clone()),
            Self::Silent | Self::Lines => None,
        };
        move |text: &str, source: Source| match &bar {
            Some(bar) => {
                if source == Source::Key && std::io::stdin().is_terminal() {
                    forget_the_key();
                }
                bar.println(text);
            }
            None => say::talk(text),
        }
    }

    /// Whether text is shown as it arrives.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Leaves the foot of the screen to somebody else: a question and what is typed.
    pub(super) fn rest(&mut self) {
        if let Self::Live(live) = self {
            live.end_text();
            live.bar.disable_steady_tick();
            if let Ok(nothing) = ProgressStyle::with_template("") {
                live.bar.set_style(nothing);
            }
            live.bar.tick();
        }
    }

    /// Takes the foot back.
    pub(super) fn go_on(&mut self) {
        if let Self::Live(live) = self {
            live.style("{budget}", live.width());
            live.bar.enable_steady_tick(TICK);
        }
    }

    /// Takes the bar away; what was shown above it stays.
    pub(super) fn close(&mut self) {
        if let Self::Live(live) = self {
            live.end_text();
            live.bar.finish_and_clear();
        }
    }
}

/// The terminal wrote `^C` on a line of its own below the bar; without this the bar would be looked for there.
fn forget_the_key() {
    let term = Term::stderr();
    // A terminal that cannot do it shows a line twice.
    let _ = term.clear_line().and_then(|()| term.move_cursor_up(1));
}

impl Live {
    fn new(target: ProgressDrawTarget, width: usize, before: Duration) -> Self {
        let progress = Arc::new(Mutex::new(Progress::default()));
        // The last column stays free: terminals differ in what they do when it is written.
        let width = width.saturating_sub(1).max(20);
        let bar = ProgressBar::with_draw_target(None, target).with_elapsed(before);
        let live = Self { bar, flow: Flow::new(width), progress, streaming: false };
        live.style("{budget}", width);
        live
    }

    /// The bar's line is made anew each time it is drawn, so that its clock moves.
    fn style(&self, template: &str, width: usize) {
        let progress = self.progress.clone();
        let budget = move |state: &ProgressState, out: &mut dyn Write| {
            let line = progress.lock().unwrap_or_else(PoisonError::into_inner).line(state.elapsed());
            // A line that cannot be written is not drawn.
            let _ = out.write_str(&console::truncate_str(&line, width, "…"));
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.with_key("budget", budget));
        }
    }

    fn width(&self) -> usize {
        self.flow.width()
    }

    fn line(&mut self, text: &str) {
        self.end_text();
        self.bar.println(text);
    }

    fn text(&mut self, piece: &str) {
        for line in self.flow.push(piece) {
            self.bar.println(line);
        }
        // A line of its own above the bar, and none where there is no text.
        let streaming = !self.flow.partial().is_empty();
        if streaming != self.streaming {
            self.streaming = streaming;
            self.style(if streaming { "{prefix}\n{budget}" } else { "{budget}" }, self.width());
        }
        self.bar.set_prefix(self.flow.partial().to_owned());
    }

    fn end_text(&mut self) {
        let rest = self.flow.end();
        if self.streaming {
            self.streaming = false;
            self.style("{budget}", self.width());
            self.bar.set_prefix("");
        }
        if let Some(rest) = rest {
            self.bar.println(rest);
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone_from(progress);
        self.bar.tick();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    /// A screen whose terminal can be looked at.
    pub(crate) fn looked_at(columns: u16) -> (Screen, InMemoryTerm) {
        let term = InMemoryTerm::new(12, columns);
        // Without a rate: every change is drawn.
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        (Screen::Live(Box::new(Live::new(target, usize::from(columns), Duration::ZERO))), term)
    }
}
