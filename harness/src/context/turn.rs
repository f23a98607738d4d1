//! A conversation cut into turns, so that a call and its result stay or go together.
//!
//! Place in the flow: every strategy begins here. A turn starts with an answer of the model and holds everything up
//! to the next one; what stands before the first answer belongs to no turn.

use super::Item;
use std::ops::Range;
use trace::message::Role;

/// A turn: a range of the items, and whether the model called tools in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which items.
    pub items: Range<usize>,
    /// Whether it has calls.
    pub calls: bool,
}

/// The turns of a conversation.
#[must_use]
pub fn turns(items: &[Item<'_>]) -> Vec<Turn> {
    let is_answer = |index: &usize| items[*index].message.role == Role::Assistant;
    let starts: Vec<usize> = (0..items.len()).filter(is_answer).collect();
    let ends = starts.iter().skip(1).copied().chain([items.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| Turn {
            items: *start..end,
            calls: items[*start].message.tool_calls().next().is_some(),
        })
        .collect()
}

/// Where the part begins that stays word for word: at the `keep`-th tool turn from the end. Where there are fewer,
/// all of them stay, and so many of the newest turns of any kind.
#[must_use]
pub fn recent(turns: &[Turn], keep: u32, items: usize) -> usize {
    let nth =
        |turns: Vec<&Turn>| turns.get(turns.len().saturating_sub(keep as usize)).map(|turn| turn.items.start);
    let tool_turns: Vec<&Turn> = turns.iter().filter(|turn| turn.calls).collect();
    let enough = tool_turns.len() >= keep as usize;
    let by_tools = nth(tool_turns).unwrap_or(items);
    match enough {
        true => by_tools,
        false => nth(turns.iter().collect()).unwrap_or(items).min(by_tools),
    }
}

/// Which items never go: instructions, the first thing a person said, and the places in `pinned`: what this run was
/// asked and told at its start, and where its goal stands.
#[must_use]
pub fn is_pinned(items: &[Item<'_>], index: usize, pinned: &[usize]) -> bool {
    let item = &items[index];
    let Some(place) = item.place else { return false };
    let first_user = items.iter().find(|item| item.place.is_some() && item.message.role == Role::User);
    item.message.role == Role::System
        || pinned.contains(&place)
        || first_user.is_some_and(|first| first.place == item.place)
}
