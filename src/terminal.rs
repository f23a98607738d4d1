//! The person at the terminal: questions of a run go to stderr, answers are typed.
//!
//! Place in the flow: `run` and `resume` ask here where stdin and stderr are a terminal. Without one nobody is asked,
//! and the run pauses.

use crate::say;
use futures::future::BoxFuture;
use harness::person::Person;
use std::io::{BufRead, IsTerminal as _};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Wants, Way};

/// Who sits at the terminal, if anybody does.
pub(crate) fn person() -> Option<Arc<dyn Person>> {
    let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    is_there.then(|| Arc::new(Terminal::default()) as Arc<dyn Person>)
}

/// The name of who decides: `--by`, or the user of the system.
pub(crate) fn name(by: Option<&str>) -> String {
    by.map(str::to_owned)
        .filter(|name| !name.is_empty())
        .or_else(user)
        .unwrap_or_else(|| "somebody".to_owned())
}

/// The user of the system, where it tells.
pub(crate) fn user() -> Option<String> {
    let told = |name: &&str| std::env::var(name).ok().filter(|name| !name.is_empty());
    ["USER", "LOGNAME"].iter().find_map(told)
}

/// The question as people read it.
pub(crate) fn question(asked: &PersonAsked) -> String {
    let plain =
        |text: &str| text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect::<String>();
    // Whole, whatever its length: nobody is to allow what was not shown.
    let call = format!("{} {}", asked.tool_name, plain(&asked.arguments));
    match asked.wants {
        Wants::Approval => format!("{call}\n{} ({})", plain(&asked.prompt), asked.rule),
        Wants::Confirmation | Wants::Input => format!("{call}\n{}", plain(&asked.prompt)),
    }
}

/// Lines typed at the terminal, read by one thread that nobody waits for.
#[derive(Debug, Default)]
struct Terminal {
    lines: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl Terminal {
    async fn ask(&self, asked: &PersonAsked) -> Option<PersonAnswered> {
        let mut lines = self.lines.lock().await;
        let lines = lines.get_or_insert_with(|| read(std::io::BufReader::new(std::io::stdin())));
        converse(asked, lines).await
    }
}

impl Person for Terminal {
    fn answer<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        Box::pin(self.ask(asked))
    }
}

/// A blocking read cannot be cancelled, so it has a thread of its own that ends with the process.
fn read(from: impl BufRead + Send + 'static) -> mpsc::UnboundedReceiver<String> {
    let (send, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in from.lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

async fn converse(
    asked: &PersonAsked,
    lines: &mut mpsc::UnboundedReceiver<String>,
) -> Option<PersonAnswered> {
    // What was typed before the question is no answer to it.
    while lines.try_recv().is_ok() {}
    loop {
        say::talk(&format!("{} {}", say::accent("asked:", "33"), question(asked)));
        say::talk(match asked.wants {
            Wants::Approval => "allow it? y, or n and why (Ctrl-C ends the run)",
            Wants::Confirmation => "yes, no, or what to change",
            Wants::Input => "your answer",
        });
        let line = lines.recv().await?;
        let answer = asked.answered(&name(None), Way::Terminal, harness::port::wall_clock_ns());
        match asked.wants {
            Wants::Confirmation | Wants::Input => return Some(PersonAnswered { said: Some(line), ..answer }),
            Wants::Approval => {
                if let Some((ruling, reason)) = ruling(&line) {
                    return Some(PersonAnswered { ruling: Some(ruling), reason, ..answer });
                }
            }
        }
    }
}

/// A yes or a no with its reason; anything else is neither, and the question is put again.
fn ruling(line: &str) -> Option<(Ruling, Option<String>)> {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let reason = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    match word.to_lowercase().trim_end_matches([',', '.', ':']) {
        "y" | "yes" => Some((Ruling::Allow, reason)),
        "n" | "no" => Some((Ruling::Deny, reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_allows_and_a_no_may_say_why() {
        let why = |text: &str| Some(text.to_owned());
        for (line, wanted) in [
            ("y", Some((Ruling::Allow, None))),
            (" YES ", Some((Ruling::Allow, None))),
            ("n", Some((Ruling::Deny, None))),
            ("no, too much", Some((Ruling::Deny, why("too much")))),
            ("", None),
            ("maybe", None),
            ("yesterday", None),
            ("allow", None),
        ] {
            assert_eq!(ruling(line), wanted, "{line}");
        }
    }
}
