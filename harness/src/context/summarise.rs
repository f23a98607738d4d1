//! Older turns are put into few words by a model; the newest stay word for word.
//!
//! The older part is told to the model as one text and not as a conversation: so no call can be parted from its
//! result, and a model of another provider can be asked.

use super::prune::{note, stays};
use super::{Item, View, view_of};
use std::fmt::Write as _;
use trace::message::{Message, Part, Role};

/// What the model is asked to do.
pub const INSTRUCTION: &str = include_str!("../../prompt/summarise.txt");
const NOTE: &str = include_str!("../../prompt/summary.txt");
/// Characters of one part in the text to be summarised.
const MOST_CHARS: usize = 4000;

/// The request for a summary; `None` where nothing is old.
#[must_use]
pub fn request(items: &[Item<'_>], keep: u32, pinned: &[usize]) -> Option<Vec<Message>> {
    let stays = stays(items, keep, pinned);
    let old: Vec<&Message> =
        items.iter().zip(&stays).filter(|(_, stays)| !**stays).map(|(item, _)| item.message).collect();
    (!old.is_empty())
        .then(|| vec![Message::text(Role::System, INSTRUCTION.trim()), Message::text(Role::User, told(&old))])
}

/// The view that shows the pinned messages, the summary and the newest `keep` tool turns.
#[must_use]
pub fn summarised(items: &[Item<'_>], keep: u32, summary: &str, pinned: &[usize], messages: usize) -> View {
    let stays = stays(items, keep, pinned);
    let note = note(NOTE, &stays, items, messages, &[("summary", summary.trim())]);
    view_of(items, &stays, note, messages)
}

/// Messages as one text.
fn told(messages: &[&Message]) -> String {
    let clip = |text: &str| crate::machine::finish::clip(text, MOST_CHARS);
    let mut text = String::new();
    for message in messages {
        for part in &message.parts {
            let _ = match part {
                Part::Text { text: said } => writeln!(text, "{}: {}", message.role.as_str(), clip(said)),
                Part::ToolCall(call) => {
                    writeln!(text, "assistant calls {} with {}", call.tool_name, clip(&call.arguments))
                }
                Part::ToolResult(result) => {
                    let how = if result.is_error { "fails" } else { "answers" };
                    writeln!(text, "{} {how}: {}", result.tool_name, clip(&result.content))
                }
                Part::Reasoning { .. } | Part::Opaque { .. } => Ok(()),
            };
        }
    }
    text
}
