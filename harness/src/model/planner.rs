//! A wire for models that cannot call tools: each answer is one JSON object that names the next tool.
//!
//! Place in the flow: over any other [`Wire`], where `[loop] planner` is on. Tools are told in the system prompt, a
//! plan becomes the one tool call that it stands for, results go back as plain messages. What is no plan stays the
//! text it is: the machine counts it as an error and asks again, so prose never makes anything run.

use super::{CallSpec, DecodeError, Delta, Frame, StreamDecoder, ToolOffer, Wire};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace::fact::Fault;
use trace::message::{Finish, Message, Part, Response, Role, ToolCall, joined_text, tool_calls};

/// What the model is told; the list of tools follows it.
pub(crate) const PROMPT: &str = include_str!("../../prompt/planner.txt");

/// The id of the one call of an answer.
const CALL_ID: &str = "plan";

/// A wire under which plans are read.
#[derive(Debug, Clone)]
pub struct Planner {
    inner: Arc<dyn Wire>,
    tools: Arc<Vec<ToolOffer>>,
}

impl Planner {
    /// Plans over this wire, for these tools.
    #[must_use]
    pub fn over(inner: Arc<dyn Wire>, tools: Vec<ToolOffer>) -> Self {
        Self { inner, tools: Arc::new(tools) }
    }

    /// A system prompt with the list of tools after the words about plans.
    fn listed(&self, system: &str) -> String {
        let Some(at) = system.find(PROMPT.trim()).map(|at| at + PROMPT.trim().len()) else {
            return system.to_owned();
        };
        let tools = self.tools.iter().map(|tool| {
            let line = json!({
                "tool": tool.name, "description": tool.description, "arguments": tool.input_schema
            });
            format!("\n{line}")
        });
        let (before, after) = system.split_at(at);
        format!("{before}{}{after}", tools.collect::<String>())
    }

    /// The answer with the call that its plan stands for; as it is where it is no plan.
    fn read(&self, mut response: Response) -> Response {
        if tool_calls(&response.parts).next().is_some() {
            return response;
        }
        if let Some(call) = self.plan(&joined_text(&response.parts)) {
            response.parts.retain(|part| !matches!(part, Part::Text { .. }));
            response.parts.push(Part::ToolCall(call));
            if matches!(response.finish, Finish::EndTurn | Finish::StopSequence | Finish::Other(_)) {
                response.finish = Finish::ToolUse;
            }
        }
        response
    }

    fn plan(&self, text: &str) -> Option<ToolCall> {
        let mut plan: Map<String, Value> = serde_json::from_str(unfenced(text)).ok()?;
        let Some(Value::String(tool_name)) = plan.remove("tool") else { return None };
        let arguments = match plan.remove("arguments").or_else(|| plan.remove("prompt")) {
            None => json!({}),
            Some(Value::Object(arguments)) => Value::Object(arguments),
            Some(Value::String(prompt)) => {
                Value::Object(Map::from_iter([(self.parameter(&tool_name), prompt.into())]))
            }
            Some(_) => return None,
        };
        Some(ToolCall { call_id: CALL_ID.to_owned(), tool_name, arguments: arguments.to_string() })
    }

    /// The parameter that a bare prompt is for: the one that the tool requires.
    fn parameter(&self, tool_name: &str) -> String {
        let tool = self.tools.iter().find(|tool| tool.name == tool_name);
        let required = tool.and_then(|tool| tool.input_schema.get("required")?.as_array());
        match required.map(Vec::as_slice) {
            Some([Value::String(only)]) => only.clone(),
            _ => "prompt".to_owned(),
        }
    }
}

/// The text without the fence that many models put around JSON. A fence within prose is no plan.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

/// The text that a part was, or stands for.
fn plain(part: &Part) -> Part {
    match part {
        Part::ToolCall(call) => {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            Part::Text { text: json!({ "tool": call.tool_name, "arguments": arguments }).to_string() }
        }
        Part::ToolResult(result) => {
            let word = if result.is_error { "failed" } else { "answers" };
            Part::Text { text: format!("{} {word}: {}", result.tool_name, result.content) }
        }
        other => other.clone(),
    }
}

impl Wire for Planner {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn endpoint(&self, model: &str, stream: bool) -> String {
        self.inner.endpoint(model, stream)
    }

    fn list(&self) -> &'static str {
        self.inner.list()
    }

    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        self.inner.headers(key)
    }

    fn frame(&self, spec: &CallSpec) -> Frame {
        self.inner.frame(&CallSpec { tools: Vec::new(), system: self.listed(&spec.system), ..spec.clone() })
    }

    fn fragments(&self, message: &Message) -> Vec<String> {
        let role = match message.role {
            Role::Tool => Role::User,
            role => role,
        };
        let parts = match message.role {
            Role::System => vec![Part::Text { text: self.listed(&message.joined_text()) }],
            _ => message.parts.iter().map(plain).collect(),
        };
        self.inner.fragments(&Message { role, parts })
    }

    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError> {
        self.inner.decode(body).map(|response| self.read(response))
    }

    fn stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(PlannerStream { inner: self.inner.stream(), planner: self.clone() })
    }

    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        self.inner.fault(status, headers, body)
    }
}

struct PlannerStream {
    inner: Box<dyn StreamDecoder>,
    planner: Planner,
}

impl StreamDecoder for PlannerStream {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, DecodeError> {
        self.inner.push(bytes)
    }

    fn finish(self: Box<Self>) -> Result<Response, DecodeError> {
        self.inner.finish().map(|response| self.planner.read(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner() -> Planner {
        let offer = |name: &str, schema| ToolOffer {
            name: name.to_owned(),
            description: String::new(),
            input_schema: schema,
        };
        let tools = vec![offer("look", json!({"required": ["what"]})), offer("list", json!({}))];
        Planner::over(super::super::wire("chat").unwrap(), tools)
    }

    #[test]
    fn only_a_whole_json_object_that_names_a_tool_is_a_plan() {
        for (text, plan) in [
            (r#"{"tool":"look","arguments":{"what":"x"}}"#, Some(("look", json!({"what": "x"})))),
            (r#" {"tool":"look","prompt":"x","why":"because"} "#, Some(("look", json!({"what": "x"})))),
            (r#"{"tool":"list","prompt":"x"}"#, Some(("list", json!({"prompt": "x"})))),
            (r#"{"tool":"list"}"#, Some(("list", json!({})))),
            ("```json\n{\"tool\":\"list\"}\n```", Some(("list", json!({})))),
            (r#"I will call {"tool":"list"}"#, None),
            ("Let me see:\n```json\n{\"tool\":\"list\"}\n```", None),
            (r#"{"tool":"list"} {"tool":"list"}"#, None),
            (r#"[{"tool":"list"}]"#, None),
            (r#"{"tool":["list"]}"#, None),
            (r#"{"tool":"list","arguments":[1]}"#, None),
            (r#"{"name":"list"}"#, None),
            (r#"{"tool":"list""#, None),
            ("", None),
        ] {
            let found = planner().plan(text);
            let found =
                found.map(|call| (call.tool_name, serde_json::from_str::<Value>(&call.arguments).unwrap()));
            assert_eq!(found, plan.map(|(name, value)| (name.to_owned(), value)), "{text}");
        }
    }
}
