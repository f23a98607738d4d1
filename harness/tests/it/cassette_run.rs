//! Recorded conversations with tools, run again from their first request to their last recorded answer.
//!
//! Place in the flow: interactions of one file -> [`Conversation`] -> a real run: the loop over HTTP against a
//! loopback provider that sends the recorded answers, with tools that answer as recorded. The tool results that
//! the loop then sends must be the recorded ones, call by call.

use crate::recorded::{Interaction, cassettes, real_data};
use futures::future::BoxFuture;
use harness::agent::{Agent, Studio, Task};
use harness::config::AgentConfig;
use harness::driver::Unobserved;
use harness::model::scripted::ScriptTurn;
use harness::model::{NAMES, wire};
use harness::policy::Permit;
use harness::tool::{Effect, Risk, Tool, ToolSpec, Toolbox};
use loopback::{Loopback, RequestSeen};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;
use trace::canonical::canonical_text;
use trace::fact::Fault;
use trace::message::{Response, ToolCall, tool_calls};
use trace::outcome::FaultClass;
use trace::redact::Redactor;

/// A chain of requests of one file, each with the results of the calls that the answer before it made.
#[derive(Debug)]
struct Conversation {
    exchanges: Vec<(Interaction, Response)>,
}

/// Results by call id, in the order sent; `None` where a result is not text.
type Results = Vec<(String, Option<String>)>;

/// A result's text, where it is a string or blocks of text; the loop always sends a string.
fn text(content: &Value) -> Option<String> {
    let block = |one: &Value| one["text"].as_str().filter(|_| one["type"] == "text").map(str::to_owned);
    content.as_str().map(str::to_owned).or_else(|| content.as_array()?.iter().map(block).collect())
}

/// Results by tool and canonical arguments, in the order they were asked for.
type Answers = BTreeMap<(String, String), VecDeque<String>>;

/// Whether a message asks for tools; some recorders put words of an assistant between results and what follows.
fn asks(message: &Value) -> bool {
    let mut blocks = message["content"].as_array().into_iter().flatten();
    message["type"] == "function_call"
        || message["tool_calls"].is_array()
        || blocks.any(|block| block["type"] == "tool_use")
}

/// The results of the last calls in a request.
fn results(wire: &str, request: &Value) -> Results {
    let list = harness::model::wire(wire).map_or("messages", |wire| wire.list());
    let messages = request[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Results = Vec::new();
    for message in messages.iter().rev().take_while(|one| !asks(one)) {
        if wire == "chat" && message["role"] == "tool" {
            found.push((id(&message["tool_call_id"]), text(&message["content"])));
        }
        if message["type"] == "function_call_output" {
            found.push((id(&message["call_id"]), text(&message["output"])));
        }
        let blocks = message["content"].as_array().into_iter().flatten();
        let blocks: Vec<&Value> = blocks.filter(|block| block["type"] == "tool_result").collect();
        found.extend(blocks.iter().rev().map(|one| (id(&one["tool_use_id"]), text(&one["content"]))));
    }
    found.reverse();
    found
}

fn decoded(one: &Interaction) -> Option<Response> {
    let wire = wire(one.wire)?;
    if !one.is_stream() {
        return wire.decode(&one.body).ok();
    }
    let mut decoder = wire.stream();
    decoder.push(&one.body).ok()?;
    decoder.finish().ok()
}

fn ids<'a>(ids: impl Iterator<Item = &'a String>) -> BTreeSet<&'a String> {
    ids.collect()
}

/// Whether a request answers a tool call of a response.
fn answers(next: &Interaction, response: &Response) -> bool {
    let results = results(next.wire, &next.request);
    let calls = ids(tool_calls(&response.parts).map(|call| &call.call_id));
    !calls.is_disjoint(&ids(results.iter().map(|(id, _)| id)))
}

impl Conversation {
    /// The conversations of one file: an agent speaks one wire, and a few files hold several.
    fn of_each_wire(interactions: &[Interaction]) -> Vec<Self> {
        let own =
            |name: &&str| interactions.iter().filter(|one| one.wire == *name).cloned().collect::<Vec<_>>();
        NAMES.iter().filter_map(|name| Self::of_interactions(&own(name))).collect()
    }

    /// The first chain of interactions in which a later request answers a tool call.
    fn of_interactions(interactions: &[Interaction]) -> Option<Self> {
        let all: Vec<(Interaction, Response)> =
            interactions.iter().filter_map(|one| Some((one.clone(), decoded(one)?))).collect();
        let follower = |at: usize| (at + 1..all.len()).find(|next| answers(&all[*next].0, &all[at].1));
        let start = (0..all.len()).find(|at| follower(*at).is_some())?;
        let chain = std::iter::successors(Some(start), |at| follower(*at));
        Some(Self { exchanges: chain.map(|at| all[at].clone()).collect() })
    }

    fn first(&self) -> &Interaction {
        &self.exchanges[0].0
    }

    /// Why the loop cannot run it as recorded; `None` where it can.
    fn obstacle(&self) -> Option<&'static str> {
        let streams = self.exchanges.iter().filter(|(one, _)| one.is_stream()).count();
        if streams != 0 && streams != self.exchanges.len() {
            return Some("some answers are streamed and some are not; an agent asks for one or the other");
        }
        let later = self.exchanges[1..].iter().flat_map(|(one, _)| results(one.wire, &one.request));
        if later.into_iter().any(|(_, content)| content.is_none()) {
            return Some("a recorded tool result is not text");
        }
        None
    }

    /// What its tools answered.
    fn answers(&self) -> Answers {
        let mut answers = Answers::new();
        for pair in self.exchanges.windows(2) {
            let mut left = results(pair[1].0.wire, &pair[1].0.request);
            for call in tool_calls(&pair[0].1.parts) {
                let Some(at) = left.iter().position(|(id, _)| *id == call.call_id) else { continue };
                answers.entry(asked(call)).or_default().extend(left.remove(at).1);
            }
        }
        answers
    }

    /// The names of all tools offered or called.
    fn tool_names(&self) -> BTreeSet<String> {
        let offered = self.first().request["tools"].as_array().into_iter().flatten();
        let offered = offered.filter_map(|tool| tool["function"]["name"].as_str().or(tool["name"].as_str()));
        let called = self.exchanges.iter().flat_map(|(_, response)| tool_calls(&response.parts));
        offered.map(str::to_owned).chain(called.map(|call| call.tool_name.clone())).collect()
    }

    fn config(&self, base_url: &str) -> AgentConfig {
        let limit = 1_000_000;
        let config = json!({
            "model": {
                "name": "recorded", "wire": self.first().wire, "base_url": base_url, "key_env": "",
                "stream": self.first().is_stream(),
            },
            "budget": {
                "max_model_turns": self.exchanges.len(), "max_total_tokens": limit,
                "max_tool_result_chars": limit, "max_errors": limit, "max_retries_per_model_call": 0,
                "max_calls_per_tool": limit, "max_tool_calls": limit,
            },
            "loop": {"max_identical_calls": 0, "max_nudges": 0},
        });
        serde_json::from_value(config).expect("a configuration")
    }
}

fn asked(call: &ToolCall) -> (String, String) {
    (call.tool_name.clone(), canonical_text(&call.arguments))
}

/// A tool that answers as it did when it was recorded.
#[derive(Debug)]
struct Recorded {
    spec: ToolSpec,
    answers: Arc<Mutex<Answers>>,
}

impl Tool for Recorded {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        let key = (permit.tool_name().to_owned(), canonical_text(permit.arguments()));
        let answer = self.answers.lock().expect("no panic").get_mut(&key).and_then(VecDeque::pop_front);
        Box::pin(async move { answer.ok_or_else(|| Fault::new(FaultClass::Permanent, "no recorded answer")) })
    }
}

/// Tools of these names; they take any object, since what was recorded had passed the real schema or had not.
fn toolbox(conversation: &Conversation) -> Result<Toolbox, String> {
    let answers = Arc::new(Mutex::new(conversation.answers()));
    let mut toolbox = Toolbox::default();
    for name in conversation.tool_names() {
        let spec = ToolSpec {
            name,
            description: "As recorded.".to_owned(),
            input_schema: json!({"type": "object"}),
            risk: Risk::Execute,
            effect: Effect::AtMostOnce,
            timeout_ms: 5000,
            output_schema: None,
        };
        let tool = Recorded { spec, answers: answers.clone() };
        toolbox.add(Arc::new(tool)).map_err(|why| why.to_string())?;
    }
    Ok(toolbox)
}

/// Runs a conversation; says what came out otherwise than recorded.
async fn run(conversation: &Conversation, tapes: &Path) -> Result<(), String> {
    let bodies: Vec<String> = conversation
        .exchanges
        .iter()
        .map(|(one, _)| String::from_utf8(one.body.clone()).map_err(|_| "a body is not text".to_owned()))
        .collect::<Result<_, _>>()?;
    let kind = if conversation.first().is_stream() { "text/event-stream" } else { "application/json" };
    let server = Loopback::start(move |seen: &RequestSeen| ScriptTurn::Raw {
        status: 200,
        headers: BTreeMap::from([("content-type".to_owned(), kind.to_owned())]),
        body: bodies.get(seen.nth).cloned().unwrap_or_default(),
    })
    .await
    .map_err(|why| why.to_string())?;
    let config = conversation.config(&server.base_url());
    let mut agent = Agent::of_config(config, Path::new("agent.toml"), Path::new("."), &|_| None)
        .map_err(|why| why.to_string())?;
    agent.toolbox = Arc::new(toolbox(conversation)?);
    let studio =
        Studio { tapes: tapes.to_owned(), redactor: Arc::new(Redactor::new([7; 32]).expect("patterns")) };
    let task = Task { text: "As recorded.".to_owned(), ..Task::default() };
    let finished = agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await;
    let outcome = finished.map_err(|why| why.to_string())?.outcome;
    if !server.violations().is_empty() {
        return Err(format!("the provider refused: {:?}", server.violations()));
    }
    let (asked, turns) = (server.requests(), conversation.exchanges.len());
    if asked.len() != turns {
        return Err(format!("{} of {turns} answers were asked for: {:?}", asked.len(), outcome.evidence));
    }
    for (seen, (recorded, _)) in asked.iter().zip(&conversation.exchanges).skip(1) {
        let (sent, expected) =
            (sorted(results(seen.wire, &seen.json)), sorted(results(seen.wire, &recorded.request)));
        if sent != expected {
            return Err(format!("{}: sent {sent:?}, recorded {expected:?}", recorded.key));
        }
    }
    server.stop().await;
    Ok(())
}

fn sorted(mut results: Results) -> Results {
    results.sort();
    results
}

#[tokio::test]
async fn recorded_tool_conversations_run_again_to_their_last_answer() {
    let Some(data) = real_data() else { return };
    let all = cassettes(&data.join("cassettes"));
    let conversations: Vec<Conversation> =
        all.chunk_by(|a, b| a.file() == b.file()).flat_map(Conversation::of_each_wire).collect();
    let tapes = tempfile::tempdir().expect("a folder");
    let (mut ran, mut listed, mut failed, mut turns) = (0, Vec::new(), Vec::new(), 0);
    for conversation in &conversations {
        if let Some(reason) = conversation.obstacle() {
            listed.push(format!("{}: {reason}", conversation.first().file()));
            continue;
        }
        match run(conversation, tapes.path()).await {
            Ok(()) => (ran, turns) = (ran + 1, turns + conversation.exchanges.len()),
            Err(why) => failed.push(format!("{}: {why}", conversation.first().file())),
        }
    }
    let with_bytes = conversations.iter().filter(|one| one.first().has_bytes).count();
    println!("{} conversations, {with_bytes} with bytes: {ran} ran over {turns} turns", conversations.len());
    println!("not run, with the reason:\n{}", listed.join("\n"));
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
    let of_responses = conversations.iter().filter(|one| one.first().wire == "responses").count();
    assert_eq!((conversations.len() - of_responses, of_responses), (53, 30));
    assert_eq!(ran + listed.len(), conversations.len());
    assert!(ran >= 81, "only {ran} ran");
}
