//! The newest tool turns stay, older ones go, calls together with their results.

use super::turn::{is_pinned, recent, turns};
use super::{Item, View, view_of};
use trace::message::{Message, Role};

const NOTE: &str = include_str!("../../prompt/pruned.txt");

/// The view that shows the pinned messages and the newest `keep` tool turns.
#[must_use]
pub fn prune(items: &[Item<'_>], keep: u32, pinned: &[usize], messages: usize) -> View {
    let stays = stays(items, keep, pinned);
    view_of(items, &stays, note(NOTE, &stays, items, messages, &[]), messages)
}

/// Which items are recent or pinned.
pub(super) fn stays(items: &[Item<'_>], keep: u32, pinned: &[usize]) -> Vec<bool> {
    let cut = recent(&turns(items), keep, items.len());
    (0..items.len()).map(|index| index >= cut || is_pinned(items, index, pinned)).collect()
}

/// The words in place of what is left out of the whole conversation.
pub(super) fn note(
    template: &str,
    stays: &[bool],
    items: &[Item<'_>],
    messages: usize,
    values: &[(&str, &str)],
) -> Message {
    let shown = items.iter().zip(stays).filter(|(item, stays)| **stays && item.place.is_some()).count();
    let mut text = template.trim().replace("{count}", &messages.saturating_sub(shown).to_string());
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    Message::text(Role::User, text)
}
