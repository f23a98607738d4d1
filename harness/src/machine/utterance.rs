//! What a person means who was asked something: yes, no, yes with a change, or something else altogether.
//!
//! Place in the flow: a tool's question waits, a person says something, and the machine decides without a model where it
//! goes. Yes and changes go back to the tool; a no ends the call; a fresh instruction ends the call and is the next
//! thing the model hears. English words; whatever is in doubt goes to the tool, which asked.

use trace::fact::Wants;

/// Where an utterance goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Go on as asked.
    Accept,
    /// Do not.
    Cancel,
    /// Go on with what the words say: a correction, or the input that was asked for.
    Update,
    /// Something else is wanted.
    Fresh,
}

const YES: &[&str] = &[
    "y",
    "yes",
    "yep",
    "yeah",
    "yup",
    "ok",
    "okay",
    "sure",
    "fine",
    "go",
    "go ahead",
    "go on",
    "go for it",
    "do it",
    "please do",
    "yes please",
    "confirm",
    "confirmed",
    "i confirm",
    "proceed",
    "continue",
    "approve",
    "approved",
    "agreed",
    "correct",
    "right",
    "that is right",
    "thats right",
    "sounds good",
    "looks good",
    "lgtm",
    "of course",
    "absolutely",
    "by all means",
    "make it so",
    "yes do it",
    "yes go ahead",
    "ok do it",
    "ok go ahead",
    "sure go ahead",
];

const NO: &[&str] = &[
    "n",
    "no",
    "nope",
    "nah",
    "no thanks",
    "no thank you",
    "cancel",
    "cancel it",
    "cancel that",
    "stop",
    "stop it",
    "abort",
    "never mind",
    "nevermind",
    "forget it",
    "forget that",
    "forget about it",
    "leave it",
    "skip it",
    "skip",
    "dont",
    "dont do it",
    "dont do that",
    "do not",
    "do not do it",
    "not now",
    "better not",
    "rather not",
    "i refuse",
    "deny",
    "denied",
    "reject",
    "please dont",
    "hold off",
    "drop it",
];

/// Words that begin a change of what was asked about.
const CHANGES: &[&str] = &[
    "but",
    "make it",
    "make that",
    "use",
    "change",
    "set",
    "with",
    "without",
    "only",
    "add",
    "remove",
    "replace",
    "rather",
    "actually",
    "instead",
    "except",
    "just",
    "it should",
    "it is",
    "its",
    "should be",
    "not",
    "as",
    "for",
    "to",
    "at",
    "on",
];

/// Words that begin something new.
const BEGINNINGS: &[&str] = &[
    "what",
    "whats",
    "who",
    "whos",
    "where",
    "when",
    "why",
    "how",
    "which",
    "can you",
    "could you",
    "would you",
    "will you",
    "is there",
    "are there",
    "do you",
    "does",
    "did",
    "tell me",
    "show",
    "list",
    "find",
    "search",
    "look up",
    "write",
    "explain",
    "summarize",
    "summarise",
    "translate",
    "create",
    "book",
    "order",
    "send",
    "give me",
    "help me",
    "i want",
    "i need",
    "i would like",
    "id like",
    "let us",
    "lets",
    "please",
    "open",
    "read",
    "check",
    "calculate",
    "draft",
    "new task",
    "new question",
    "another question",
    "different question",
    "start over",
];

/// Decides where what a person said goes.
#[must_use]
pub fn classify(wants: Wants, said: &str) -> Intent {
    let plain = plain(said);
    let is_question = said.trim_end().ends_with('?');
    if plain.is_empty() {
        // Silence is no leave.
        return Intent::Cancel;
    }
    if let Some(rest) = after(&plain, YES) {
        return match rest {
            "" => Intent::Accept,
            rest if after(rest, YES) == Some("") => Intent::Accept,
            rest if begins(rest, NO) => Intent::Cancel,
            rest if is_change(rest) => Intent::Update,
            rest if is_new(rest, is_question) => Intent::Fresh,
            _ => Intent::Update,
        };
    }
    if let Some(rest) = after(&plain, NO) {
        let rest = rest.strip_prefix("and ").unwrap_or(rest);
        return match rest {
            rest if is_change(rest) => Intent::Update,
            rest if is_new(rest, is_question) => Intent::Fresh,
            // "No, that is too much": a no with its reason.
            _ => Intent::Cancel,
        };
    }
    let is_asked_for = wants == Wants::Input;
    match () {
        () if !is_asked_for && is_change(&plain) => Intent::Update,
        () if is_new(&plain, is_question) => Intent::Fresh,
        () if is_asked_for || plain.split(' ').count() <= 4 => Intent::Update,
        () => Intent::Fresh,
    }
}

/// Lower case, without the marks that only sound; one space between words.
fn plain(said: &str) -> String {
    let kept = said.trim().chars().filter_map(|one| match one {
        '\'' | '’' | '"' => None,
        ',' | '.' | '!' | '?' | ';' | ':' | '-' | '–' | '—' => Some(' '),
        other => Some(other),
    });
    kept.collect::<String>().to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What follows the longest of these phrases that the text begins with.
fn after<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    let rests = phrases.iter().filter_map(|phrase| {
        let rest = text.strip_prefix(phrase)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
    });
    rests.min_by_key(|rest| rest.len())
}

fn begins(text: &str, phrases: &[&str]) -> bool {
    after(text, phrases).is_some()
}

fn is_change(text: &str) -> bool {
    begins(text, CHANGES) || text.ends_with(" instead")
}

/// A question, or a beginning of one with more than a word or two behind it.
fn is_new(text: &str, is_question: bool) -> bool {
    begins(text, BEGINNINGS) && (is_question || text.split(' ').count() >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_say_to_a_question_goes_where_they_mean() {
        use Intent::{Accept, Cancel, Fresh, Update};
        let confirmation = [
            ("yes", Accept),
            ("Yes.", Accept),
            ("y", Accept),
            ("OK", Accept),
            ("okay!", Accept),
            ("sure", Accept),
            ("go ahead", Accept),
            ("Go ahead, please do", Accept),
            ("do it", Accept),
            ("Yes, go ahead.", Accept),
            ("sounds good", Accept),
            ("LGTM", Accept),
            ("that's right", Accept),
            ("confirmed", Accept),
            ("make it so", Accept),
            ("no", Cancel),
            ("No!", Cancel),
            ("nope", Cancel),
            ("cancel that", Cancel),
            ("never mind", Cancel),
            ("don't", Cancel),
            ("Please don't.", Cancel),
            ("forget it", Cancel),
            ("no thanks", Cancel),
            ("no, that is too much money", Cancel),
            ("stop", Cancel),
            ("   ", Cancel),
            ("ok no", Cancel),
            ("yes, but make it three", Update),
            ("yes but only the blue ones", Update),
            ("no, use the other account", Update),
            ("No, make it 5", Update),
            ("make it 7 instead", Update),
            ("actually two", Update),
            ("with express shipping", Update),
            ("yes, the blue one", Update),
            ("ok, show me the red ones instead", Update),
            ("blue", Update),
            ("tomorrow at five", Update),
            ("change the amount to 20", Update),
            ("What is the weather in Rome?", Fresh),
            ("yes. What is the weather in Rome?", Fresh),
            ("show me all open orders", Fresh),
            ("no, tell me the price of the mug", Fresh),
            ("cancel that and book a hotel in Oslo", Fresh),
            ("forget it, what time is it?", Fresh),
            ("can you translate this letter into French?", Fresh),
            ("new task: clean up the inbox", Fresh),
            ("I want to speak about something different now", Fresh),
            ("the quarterly report is due and nobody has begun it", Fresh),
        ];
        let input = [
            ("Paris", Update),
            ("the one on Main Street, second floor", Update),
            ("ada@example.org", Update),
            ("not the blue one", Update),
            ("42", Update),
            ("yes", Accept),
            ("cancel", Cancel),
            ("never mind", Cancel),
            ("where is my order 1001?", Fresh),
            ("forget that, list my invoices of May", Fresh),
            ("the quarterly report is due and nobody has begun it", Update),
        ];
        assert!(confirmation.len() + input.len() >= 40);
        for (said, wanted) in confirmation {
            assert_eq!(classify(Wants::Confirmation, said), wanted, "{said}");
        }
        for (said, wanted) in input {
            assert_eq!(classify(Wants::Input, said), wanted, "{said}");
        }
    }
}
