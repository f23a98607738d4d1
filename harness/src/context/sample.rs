//! Conversations for the tests of strategies.

use super::{Item, View};
use trace::message::{Message, Part, Role, ToolCall, ToolResult};

/// A conversation with these tool turns: each the calls as name, arguments and result.
pub(crate) fn conversation(turns: &[&[(&str, &str, &str)]]) -> Vec<Message> {
    let mut messages =
        vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "Find the red fox.")];
    for (turn, calls) in turns.iter().enumerate() {
        let id = |index: usize| format!("c{turn}.{index}");
        let call = |(index, (name, arguments, _)): (usize, &(&str, &str, &str))| {
            let (tool_name, arguments) = ((*name).to_owned(), (*arguments).to_owned());
            Part::ToolCall(ToolCall { call_id: id(index), tool_name, arguments })
        };
        let result = |(index, (name, _, result)): (usize, &(&str, &str, &str))| {
            let (tool_name, content) = ((*name).to_owned(), (*result).to_owned());
            Part::ToolResult(ToolResult { call_id: id(index), tool_name, content, is_error: false })
        };
        messages.push(Message { role: Role::Assistant, parts: calls.iter().enumerate().map(call).collect() });
        messages.push(Message { role: Role::Tool, parts: calls.iter().enumerate().map(result).collect() });
    }
    messages
}

/// All of a conversation.
pub(crate) fn items(messages: &[Message]) -> Vec<Item<'_>> {
    let whole: &'static View = Box::leak(Box::default());
    whole.items(messages)
}

/// What a view shows, a line a part.
pub(crate) fn told(view: &View, messages: &[Message]) -> String {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{} {}", call.tool_name, call.arguments),
        Part::ToolResult(result) => format!("-> {}", result.content),
        other => format!("{other:?}"),
    };
    let lines = view.items(messages).into_iter().map(|item| {
        let parts: Vec<String> = item.message.parts.iter().map(part).collect();
        format!("{}: {}", item.message.role.as_str(), parts.join(" | "))
    });
    lines.collect::<Vec<_>>().join("\n")
}
