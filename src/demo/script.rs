//! The demo's model: what the loopback provider says, from `datasets/demo/script.json`.

use loopback::{Play, RequestSeen};
use serde::Deserialize;
use serde_json::Value;
use trace::message::{Finish, Part, Response, ToolCall, Usage};

/// The shipped script.
const SCRIPT: &str = include_str!("../../datasets/demo/script.json");

/// What is said to one task. Exactly one of `turns` and `forever` is given.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    /// How the task begins.
    task: String,
    /// What the system prompt must hold for this scene; the first that fits is played.
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    turns: Vec<Turn>,
    #[serde(default)]
    forever: Vec<Turn>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<(String, Value)>,
    #[serde(default)]
    input_tokens: Option<u64>,
}

/// Plays the script: the turn is the number of answers the conversation has so far.
pub(crate) fn player() -> Result<impl Fn(&RequestSeen) -> Play + Send + Sync + 'static, serde_json::Error> {
    let scenes: Vec<Scene> = serde_json::from_str(SCRIPT)?;
    Ok(move |seen: &RequestSeen| {
        // The whole request as text: task and prompt stand at different places on the two wires.
        let said = String::from_utf8_lossy(&seen.body);
        let fits = |scene: &&Scene| {
            said.contains(&scene.task) && scene.prompt.as_ref().is_none_or(|prompt| said.contains(prompt))
        };
        let number = seen.answers();
        let turn = scenes.iter().find(fits).and_then(|scene| match scene.forever.is_empty() {
            true => scene.turns.get(number),
            false => scene.forever.get(number % scene.forever.len()),
        });
        match turn {
            Some(turn) => Play::answer(response(turn, number, said.len())),
            None => Play::status(
                404,
                "{\"error\":{\"message\":\"the demo's script does not know this task\"}}",
                None,
            ),
        }
    })
}

fn response(turn: &Turn, number: usize, request_bytes: usize) -> Response {
    let mut parts = Vec::new();
    if !turn.text.is_empty() {
        parts.push(Part::Text { text: turn.text.clone() });
    }
    for (index, (tool_name, arguments)) in turn.calls.iter().enumerate() {
        parts.push(Part::ToolCall(ToolCall {
            call_id: format!("call_{number}_{index}"),
            tool_name: tool_name.clone(),
            arguments: arguments.to_string(),
        }));
    }
    // Four bytes a token is the usual rule of thumb; the figures only have to be plausible.
    let tokens = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX);
    let finish = if turn.calls.is_empty() { Finish::EndTurn } else { Finish::ToolUse };
    Response {
        response_id: Some(format!("demo-{number}")),
        response_model: Some("desk-mini-1".to_owned()),
        usage: Usage {
            input_tokens: Some(turn.input_tokens.unwrap_or_else(|| tokens(request_bytes) / 8)),
            output_tokens: Some(tokens(turn.text.len()) + 12),
            ..Usage::default()
        },
        parts,
        finish,
        finish_raw: None,
    }
}
