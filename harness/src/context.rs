//! What the model is shown of a conversation: the whole, or a smaller view of it.
//!
//! Place in the flow: messages -> **context** -> request. The conversation itself stays whole; a strategy only says
//! which of its messages are shown and what stands in place of the others. All of it is pure: the machine asks, the
//! driver records the new view as a fact, and a replay draws the same one.
//!
//! A call and its result are never parted: strategies work on whole [`turn`]s, and [`unpaired`] is asked before
//! every request all the same.
//!
//! Parts: [`prune`], [`selective`] and [`summarise`] are the strategies, [`turn`] cuts a conversation into turns.

pub mod prune;
pub mod selective;
pub mod summarise;
pub mod turn;

use trace::fact::Shown;
use trace::message::{Message, Part, Role};

/// Bytes of text for one token, roughly: good enough to compare a conversation with a limit and with itself.
const BYTES_PER_TOKEN: u64 = 4;

const MEMORY: &str = include_str!("../prompt/memory.txt");

/// What the model is told of what the agent knows from before.
#[must_use]
pub fn remembered(memory: &str) -> String {
    MEMORY.trim().replace("{memory}", memory.trim())
}

/// What a model is shown of a conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// What is shown of the first `messages` messages.
    pub shown: Vec<Shown>,
    /// How many messages that covers; later ones are all shown.
    pub messages: usize,
}

/// A message that is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Item<'a> {
    /// Its index in the conversation; `None` for words of the loop that stand in place of others.
    pub place: Option<usize>,
    /// The message.
    pub message: &'a Message,
}

impl View {
    /// The messages that are shown, in order.
    #[must_use]
    pub fn items<'a>(&'a self, conversation: &'a [Message]) -> Vec<Item<'a>> {
        let mut items = Vec::with_capacity(conversation.len());
        let stay = |from: usize, to: usize| -> Vec<Item<'a>> {
            (from..to.min(conversation.len()))
                .map(|place| Item { place: Some(place), message: &conversation[place] })
                .collect()
        };
        for shown in &self.shown {
            match shown {
                Shown::Stay(from, to) => items.append(&mut stay(*from as usize, *to as usize)),
                Shown::Said(message) => items.push(Item { place: None, message }),
            }
        }
        items.append(&mut stay(self.messages, conversation.len()));
        items
    }
}

/// The view that shows these items of a conversation, and one note before the first that follows what is left out.
#[must_use]
pub fn view_of(items: &[Item<'_>], stays: &[bool], note: Message, messages: usize) -> View {
    let mut shown: Vec<Shown> = Vec::new();
    let mut note = Some(note);
    let mut left_out = false;
    for (item, stays) in items.iter().zip(stays) {
        let Some(place) = item.place.filter(|_| *stays) else {
            left_out = true;
            continue;
        };
        if let Some(note) = note.take_if(|_| left_out && item.message.role == Role::Assistant) {
            shown.push(Shown::Said(note));
        }
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        match shown.last_mut() {
            Some(Shown::Stay(_, to)) if *to == place => *to += 1,
            _ => shown.push(Shown::Stay(place, place + 1)),
        }
    }
    shown.extend(note.filter(|_| left_out).map(Shown::Said));
    View { shown, messages }
}

/// Tokens of these messages, estimated from their text.
pub fn tokens<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    messages.into_iter().map(bytes).sum::<u64>().div_ceil(BYTES_PER_TOKEN)
}

fn bytes(message: &Message) -> u64 {
    let part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Reasoning { text, raw } => raw.as_ref().map_or(text.len(), |raw| raw.to_string().len()),
        Part::ToolCall(call) => call.call_id.len() + call.tool_name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.call_id.len() + result.content.len(),
        Part::Opaque { raw, .. } => raw.to_string().len(),
    };
    message.parts.iter().map(part).sum::<usize>() as u64
}

/// What is wrong with the pairing of calls and results: every answer with calls must be followed by their results,
/// in their order and under their ids, and no result stands anywhere else.
#[must_use]
pub fn unpaired(items: &[Item<'_>]) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let results: Vec<&str> = item.message.parts.iter().filter_map(result_id).collect();
        if results != open {
            return Some(format!(
                "message {index} of the request answers the calls {results:?}, open are {open:?}"
            ));
        }
        open = item.message.tool_calls().map(|call| call.call_id.as_str()).collect();
    }
    (!open.is_empty()).then(|| format!("the request ends with the calls {open:?} unanswered"))
}

fn result_id(part: &Part) -> Option<&str> {
    if let Part::ToolResult(result) = part { Some(&result.call_id) } else { None }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
