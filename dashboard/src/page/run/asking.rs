//! The question of a paused run as its page shows it, with a form for the owner.
//!
//! Place in the flow: part of the run's page; the form goes to [`crate::decide`]. Who decides sees everything that the
//! token of the question covers: what cannot be shown whole is not decided here.

use super::super::spell::{self, path_segment};
use super::Viewer;
use crate::asked::Asked;
use crate::clock;
use std::fmt::Write as _;
use trace::fact::{PersonAnswered, Ruling, Wants};

/// Longest arguments that are decided about on a page, in bytes.
const ARGUMENTS_BYTES: usize = 20_000;

/// What the template shows.
#[derive(Debug)]
pub(super) struct QuestionView {
    pub(super) heading: String,
    pub(super) prompt: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) arguments: String,
    pub(super) decided: Option<DecidedView>,
    pub(super) form: Option<Form>,
    /// Why there is no form, or what else can be done.
    pub(super) instead: String,
    /// A command that decides, or goes on.
    pub(super) command: String,
}

/// What was decided and waits to be taken up.
#[derive(Debug)]
pub(super) struct DecidedView {
    pub(super) sign: &'static str,
    pub(super) what: String,
    pub(super) by: String,
    pub(super) words: String,
}

/// The fields of the form.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) action: String,
    pub(super) token: String,
    pub(super) by: String,
    /// Whether the question takes a yes or a no, and with which words on the buttons.
    pub(super) buttons: Option<(&'static str, &'static str)>,
    /// Whether a reason goes along.
    pub(super) has_reason: bool,
    /// Whether the question takes words, and what their field is called.
    pub(super) words: Option<&'static str>,
}

/// The question of this run, at this time.
pub(super) fn view(run_id: &str, asked: &Asked, viewer: Viewer<'_>, now_ns: i64) -> QuestionView {
    let question = &asked.question;
    let is_whole = question.arguments.len() <= ARGUMENTS_BYTES;
    let is_over = asked.is_over(now_ns);
    let (instead, command) = match () {
        () if is_over => (
            "The question can no longer be answered. This asks it again:",
            format!("loopdeck resume {run_id}"),
        ),
        () if !is_whole => (
            "The arguments are too long to be shown here whole. To read and decide:",
            by_command(run_id, question.wants),
        ),
        () if !viewer.is_owner => (
            "To decide here, open the address that loopdeck serve printed at its start (http://…/enter?key=…). Or in a terminal:",
            by_command(run_id, question.wants),
        ),
        () if asked.decided.is_some() => ("Go on:", format!("loopdeck resume {run_id}")),
        () => ("", String::new()),
    };
    QuestionView {
        heading: match question.wants {
            Wants::Approval => format!("May {} run?", question.tool_name),
            Wants::Confirmation | Wants::Input => format!("{} asks", question.tool_name),
        },
        prompt: visible(&question.prompt),
        facts: facts(asked, is_over, now_ns),
        arguments: spell::cut(&visible(&question.arguments), ARGUMENTS_BYTES),
        decided: asked.decided.as_ref().map(decided),
        form: (viewer.is_owner && is_whole && !is_over).then(|| form(run_id, asked, viewer)),
        instead: instead.to_owned(),
        command,
    }
}

fn facts(asked: &Asked, is_over: bool, now_ns: i64) -> Vec<(&'static str, String)> {
    let question = &asked.question;
    let until = clock::spelled(question.expires_at_ns);
    let until = match is_over {
        true => format!("{until}, which is over"),
        false => format!("{until}, {} from now", spell::ago(now_ns, question.expires_at_ns)),
    };
    vec![
        ("tool", question.tool_name.clone()),
        ("risk", spell::text(asked.risk.as_deref())),
        ("asked by", question.rule.clone()),
        ("can be answered until", until),
    ]
}

fn form(run_id: &str, asked: &Asked, viewer: Viewer<'_>) -> Form {
    let wants = asked.question.wants;
    Form {
        action: format!("/runs/{}/decision", path_segment(run_id)),
        token: asked.question.token.to_string(),
        by: viewer.user.unwrap_or_default().to_owned(),
        buttons: match wants {
            Wants::Approval => Some(("✗ Deny", "✓ Allow, once")),
            Wants::Confirmation => Some(("✗ No", "✓ Yes")),
            Wants::Input => None,
        },
        has_reason: wants == Wants::Approval,
        words: match wants {
            Wants::Approval => None,
            Wants::Confirmation => Some("What to change, if anything"),
            Wants::Input => Some("Your answer"),
        },
    }
}

fn decided(answer: &PersonAnswered) -> DecidedView {
    let (sign, what) = match (&answer.said, answer.ruling) {
        (Some(_), _) => ("✓", "answered"),
        (None, Some(Ruling::Allow)) => ("✓", "allowed"),
        (None, Some(Ruling::Deny)) => ("✗", "denied"),
        (None, None) => ("?", "not decided"),
    };
    let words = answer.said.as_deref().or(answer.reason.as_deref()).unwrap_or_default();
    DecidedView {
        sign,
        what: what.to_owned(),
        by: format!("{} ({}) at {}", answer.by, answer.way, clock::spelled(answer.decided_at_ns)),
        words: visible(words),
    }
}

fn by_command(run_id: &str, wants: Wants) -> String {
    match wants {
        Wants::Approval => format!("loopdeck approve {run_id}"),
        Wants::Confirmation | Wants::Input => format!("loopdeck resume {run_id} --say ANSWER"),
    }
}

/// The text with characters that hide or turn others round spelled out, as JSON would: what is decided about must
/// read as what it is.
fn visible(text: &str) -> String {
    let hides = |one: char| {
        matches!(one, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            || (one.is_control() && one != '\n')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut out, one| {
        match hides(one) {
            true => {
                let _ = write!(out, "\\u{:04x}", u32::from(one));
            }
            false => out.push(one),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_hide_or_turn_text_round_is_spelled_out() {
        assert_eq!(visible("{\"to\":\"a\u{202e}gpj.exe\"}\n"), "{\"to\":\"a\\u202egpj.exe\"}\n");
        assert_eq!(visible("plain – größe 日本 🦀"), "plain – größe 日本 🦀");
        assert_eq!(visible("a\rb\u{200b}c"), "a\\u000db\\u200bc");
    }
}
