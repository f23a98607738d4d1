//! What the stories share: words of a scripted model, tools of this process, agents, their tapes, the program.
//!
//! Every run made here is checked on the spot: its tape verifies, each call has its one result, and the tape
//! replays exactly. A story adds only what it is about.

pub(crate) mod person;
pub(crate) mod program;
pub(crate) mod tool;

use harness::agent::{Agent, Finished, Studio, Task};
use harness::config::{AgentConfig, Budget, ToolTable};
use harness::driver::{ResumeError, Setup, Tiers, Unobserved};
use harness::hands::LiveHands;
use harness::model::http::{Endpoint, Http};
use harness::model::scripted::{ScriptTurn, Scripted};
use harness::model::{Frame, Model, NAMES, Transport, wire};
use harness::person::Person;
use harness::port::{Live, Ports};
use harness::tool::{Tool, Toolbox};
use loopback::{Loopback, Play, RequestSeen};
use replay::exact::exact;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use trace::fact::{Fact, Fault, ToolFinished};
use trace::id::{CallKey, Hash};
use trace::message::{Finish, Part, Response, ToolCall, Usage, tool_calls};
use trace::outcome::{FaultClass, Outcome, RunStatus};
use trace::redact::Redactor;
use trace::tape::{Tape, verify};

pub(crate) use tool::{Deed, InProcess};

/// A call that a scripted model makes: id, tool, arguments.
pub(crate) type Call<'a> = (&'a str, &'a str, &'a str);

/// The model answers with text and is done.
pub(crate) fn said(text: &str) -> ScriptTurn {
    ScriptTurn::Answer(response(text, &[], Finish::EndTurn))
}

/// The model asks for tools.
pub(crate) fn asks(calls: &[Call<'_>]) -> ScriptTurn {
    ScriptTurn::Answer(response("let me see", calls, Finish::ToolUse))
}

/// The request gets no answer.
pub(crate) fn fault(class: FaultClass) -> ScriptTurn {
    ScriptTurn::Fault(Fault::new(class, "the line is bad"))
}

/// The provider answers with a status, and with `retry-after` in seconds where one is given.
pub(crate) fn status(status: u16, retry_after_s: Option<u64>) -> ScriptTurn {
    let headers = retry_after_s.map(|seconds| ("retry-after".to_owned(), seconds.to_string()));
    let body = r#"{"error":{"type":"some_error","message":"the provider says no"}}"#.to_owned();
    ScriptTurn::Raw { status, headers: headers.into_iter().collect(), body }
}

/// Any answer.
pub(crate) fn response(text: &str, calls: &[Call<'_>], finish: Finish) -> Response {
    let mut parts = vec![Part::Text { text: text.to_owned() }];
    parts.retain(|_| !text.is_empty());
    parts.extend(calls.iter().map(|(call_id, tool_name, arguments)| {
        Part::ToolCall(ToolCall {
            call_id: (*call_id).to_owned(),
            tool_name: (*tool_name).to_owned(),
            arguments: (*arguments).to_owned(),
        })
    }));
    Response {
        response_id: Some("answer-1".to_owned()),
        response_model: Some("scripted-1".to_owned()),
        parts,
        finish,
        finish_raw: None,
        usage: Usage { input_tokens: Some(100), output_tokens: Some(20), ..Usage::default() },
    }
}

/// An agent of this process and what its model will say.
#[derive(Debug, Clone)]
pub(crate) struct Kit {
    pub(crate) config: AgentConfig,
    pub(crate) tools: Vec<Arc<InProcess>>,
    pub(crate) turns: Vec<ScriptTurn>,
    /// Agents that are tools: the table, and what the agent is.
    pub(crate) agents: Vec<(ToolTable, Self)>,
    pub(crate) task: Task,
    pub(crate) cancel: CancellationToken,
    pub(crate) person: Option<Arc<dyn Person>>,
}

/// A run that has ended, and its tape.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) outcome: Outcome,
    pub(crate) tape: Arc<Tape>,
    pub(crate) path: PathBuf,
    /// Requests that reached the model.
    pub(crate) requests: usize,
    /// Where it is, and the tapes of its parts.
    pub(crate) folder: TempDir,
}

impl Kit {
    /// An agent whose model says these things, one a request.
    pub(crate) fn new(turns: impl IntoIterator<Item = ScriptTurn>) -> Self {
        let text = "[agent]\nname = \"story\"\nprompt = \"You tell stories.\"\n[model]\nname = \"scripted\"\nkey_env = \"\"\n";
        Self {
            config: AgentConfig::parse(text, Path::new("agent.toml")).unwrap(),
            tools: Vec::new(),
            turns: turns.into_iter().collect(),
            agents: Vec::new(),
            task: Task { text: "Tell me one.".to_owned(), ..Task::default() },
            cancel: CancellationToken::new(),
            person: None,
        }
    }

    /// The same with another configuration.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut AgentConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// The same with another script.
    pub(crate) fn say(mut self, turns: impl IntoIterator<Item = ScriptTurn>) -> Self {
        self.turns = turns.into_iter().collect();
        self
    }

    /// The same with somebody who answers.
    pub(crate) fn asking(mut self, person: Option<Arc<dyn Person>>) -> Self {
        self.person = person;
        self
    }

    /// The same with one more tool.
    pub(crate) fn tool(mut self, tool: &Arc<InProcess>) -> Self {
        self.tools.push(tool.clone());
        self
    }

    /// The same with an agent as a tool.
    pub(crate) fn agent(mut self, table: ToolTable, agent: Self) -> Self {
        self.config.tools.push(table.clone());
        self.agents.push((table, agent));
        self
    }

    /// The model as scripted.
    pub(crate) fn scripted(&self) -> Arc<Scripted> {
        Arc::new(Scripted::new(wire(&self.config.model.wire).unwrap(), self.turns.clone()))
    }

    pub(crate) fn model(&self, transport: Arc<dyn Transport>) -> Model {
        Model { provider: "scripted".to_owned(), wire: wire(&self.config.model.wire).unwrap(), transport }
    }

    fn toolbox(&self) -> Toolbox {
        let mut toolbox = Toolbox::default();
        self.tools.iter().for_each(|tool| toolbox.add(tool.clone() as Arc<dyn Tool>).unwrap());
        for (table, kit) in &self.agents {
            toolbox.employ(table, Arc::new(kit.ready(kit.model(kit.scripted())))).unwrap();
        }
        toolbox
    }

    /// What the driver takes, for stories that bring a recorder of their own.
    pub(crate) fn setup(&self) -> Setup {
        let wall_time = Duration::from_secs(self.config.budget.max_wall_time_seconds);
        let live = Live::new(self.cancel.clone(), wall_time).with_person(self.person.clone());
        self.setup_with(self.toolbox(), Arc::new(live), self.scripted())
    }

    /// The same with these tools, in another world and over another transport.
    pub(crate) fn setup_with(
        &self,
        toolbox: Toolbox,
        ports: Arc<dyn Ports>,
        transport: Arc<dyn Transport>,
    ) -> Setup {
        let toolbox = Arc::new(toolbox);
        let retries = self.config.budget.max_retries_per_tool_call;
        Setup {
            config: Arc::new(self.config.clone()),
            hands: Arc::new(LiveHands::new(toolbox.clone(), ports.clone(), retries)),
            model: self.model(transport),
            tiers: Tiers::new(),
            toolbox,
            ports,
        }
    }

    /// Runs with the script in this process.
    pub(crate) async fn run(&self) -> Recorded {
        let scripted = self.scripted();
        let mut recorded = self.record(self.model(scripted.clone())).await;
        recorded.requests = scripted.requests();
        recorded
    }

    /// Runs against a provider on loopback that says the same on the wire of the configuration.
    pub(crate) async fn run_on_loopback(&self) -> Recorded {
        self.run_against(self.turns.iter().cloned().map(Play::from).collect()).await
    }

    /// Runs against a provider on loopback that plays this.
    pub(crate) async fn run_against(&self, plays: Vec<Play>) -> Recorded {
        let scripts = BTreeMap::from([(self.config.model.name.clone(), plays)]);
        let provider = Loopback::start(loopback::by_model(scripts)).await.unwrap();
        let wire = wire(&self.config.model.wire).unwrap();
        let mut endpoint = Endpoint::new(provider.base_url());
        endpoint.idle_timeout = self.config.model_timeout();
        let http = Http::new(&endpoint, &*wire, None).unwrap();
        let mut recorded = self.record(self.model(Arc::new(http))).await;
        assert_eq!(provider.violations(), [""; 0], "a real provider would have refused");
        recorded.requests = provider.requests().len();
        recorded
    }

    fn ready(&self, model: Model) -> Agent {
        self.ready_with(model, self.toolbox())
    }

    /// The agent with this model and these tools.
    pub(crate) fn ready_with(&self, model: Model, toolbox: Toolbox) -> Agent {
        let (config, toolbox) = (Arc::new(self.config.clone()), Arc::new(toolbox));
        Agent { config, toolbox, model, tiers: Tiers::new(), person: self.person.clone() }
    }

    async fn record(&self, model: Model) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let agent = self.ready(model);
        let studio = studio(folder.path());
        let finished =
            agent.run(self.task.clone(), &studio, self.cancel.clone(), &mut Unobserved).await.unwrap();
        let tape = Arc::new(checked(&finished.tape));
        assert_exact(&tape).await;
        Recorded { outcome: finished.outcome, tape, path: finished.tape, requests: 0, folder }
    }
}

impl Kit {
    /// Goes on with a recorded run, its model saying these turns, under another budget if one is given.
    pub(crate) async fn go_on(
        &self,
        path: &Path,
        turns: Vec<ScriptTurn>,
        budget: Option<Budget>,
    ) -> Result<Finished, ResumeError> {
        let tape = Tape::read(path).unwrap();
        let kit = self.clone().say(turns);
        let model = kit.model(kit.scripted());
        let agent = kit.ready(model);
        let studio = studio(path.parent().unwrap());
        agent.resume(&tape, budget, &studio, self.cancel.clone(), &mut Unobserved).await
    }

    /// Pauses with a question, and goes on in another process where this person answers and the model says the rest.
    pub(crate) async fn paused_and_answered(
        &self,
        person: Option<Arc<dyn Person>>,
        rest: Vec<ScriptTurn>,
    ) -> Recorded {
        let paused = self.run().await;
        assert_eq!(paused.outcome.status, RunStatus::Paused, "{:?}", paused.outcome);
        let finished = self.clone().asking(person).go_on(&paused.path, rest, None).await.unwrap();
        let tape = Arc::new(checked(&finished.tape));
        assert_exact(&tape).await;
        Recorded { outcome: finished.outcome, tape, ..paused }
    }

    /// Stops after one turn and goes on to the end, all on one tape.
    pub(crate) async fn stopped_and_resumed(&self) -> Recorded {
        let stopped = self.clone().with(|config| config.budget.max_model_turns = 1).run().await;
        let budget = Some(self.config.budget.clone());
        let finished = self.go_on(&stopped.path, self.turns[1..].to_vec(), budget).await.unwrap();
        assert_eq!(finished.tape, stopped.path, "the same run on the same tape");
        let tape = Arc::new(checked(&finished.tape));
        assert_exact(&tape).await;
        Recorded { outcome: finished.outcome, tape, ..stopped }
    }
}

impl Recorded {
    /// The results of all calls, in the order of the tape.
    pub(crate) fn results(&self) -> Vec<&ToolFinished> {
        results(&self.tape)
    }

    /// Facts of one kind.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.tape.lines().iter().filter(|line| line.fact.kind() == kind).count()
    }

    /// The pauses between attempts, in milliseconds.
    pub(crate) fn pauses(&self) -> Vec<u64> {
        let facts = self.tape.lines().iter().map(|line| &line.fact);
        facts.filter_map(|fact| if let Fact::Waited(fact) = fact { Some(fact.ms) } else { None }).collect()
    }
}

/// Where runs of a story are recorded.
pub(crate) fn studio(folder: &Path) -> Studio {
    Studio { tapes: folder.to_owned(), redactor: Arc::new(redactor()) }
}

pub(crate) fn redactor() -> Redactor {
    Redactor::new([7; 32]).unwrap()
}

/// The tape of a run that has ended, after its fsck.
pub(crate) fn checked(path: &Path) -> Tape {
    let (tape, problems) = verify(path).unwrap();
    assert_eq!(problems, [], "{}", path.display());
    one_result_per_call(&tape);
    requests(&tape);
    tape
}

/// Invariant: every call of every answer has exactly one result, under its exact id, in the order of the calls.
pub(crate) fn one_result_per_call(tape: &Tape) {
    let mut asked = Vec::new();
    for line in tape.lines() {
        let Fact::ModelAnswered(fact) = &line.fact else { continue };
        let Some(response) = &fact.response else { continue };
        for (index, call) in (0..).zip(tool_calls(&response.parts)) {
            asked.push((CallKey { turn: fact.turn, index }, call.call_id.clone(), call.tool_name.clone()));
        }
    }
    let mut answered: Vec<_> = results(tape)
        .into_iter()
        .map(|fact| (fact.key, fact.call_id.clone(), fact.tool_name.clone()))
        .collect();
    if let Some(question) = trace::fact::waiting(tape.lines()) {
        // A paused run has no result yet for the call that waits and for those after it.
        let before =
            |key: &CallKey| key.turn < question.key.turn || answered.iter().any(|(one, ..)| one == key);
        asked.retain(|(key, ..)| before(key));
    }
    if tape.lines().iter().any(|line| matches!(line.fact, Fact::PersonAsked(_))) {
        // A call that came back with a question has its result after those beside it.
        answered.sort();
    }
    assert_eq!(asked, answered, "calls and results of {}", tape.path().display());
}

/// The results of all calls of a tape, in its order.
pub(crate) fn results(tape: &Tape) -> Vec<&ToolFinished> {
    let facts = tape.lines().iter().map(|line| &line.fact);
    facts.filter_map(|fact| if let Fact::ToolFinished(fact) = fact { Some(&**fact) } else { None }).collect()
}

/// Every request of the run as a provider received it; each is one that a strict provider takes.
pub(crate) fn requests(tape: &Tape) -> Vec<RequestSeen> {
    let wire = tape.started().map_or("", |started| started.wire.as_str());
    let wire = NAMES.into_iter().find(|name| *name == wire).unwrap();
    let (mut fragments, mut requests) = (Vec::<&str>::new(), Vec::new());
    for line in tape.lines() {
        let Fact::ModelAsked(fact) = &line.fact else { continue };
        if fact.parent.is_none() {
            fragments.clear();
        }
        fragments.extend(fact.fragments.iter().map(|hash| tape.text(hash).unwrap()));
        let frame = Frame::from_stored(tape.text(&fact.frame).unwrap()).unwrap();
        let whole = frame.body(&fragments);
        let body = match &fact.previous_response_id {
            Some(id) => frame.body_after(id, since_the_last_answer(&fragments)),
            None => whole.clone(),
        };
        assert_eq!(Hash::of(&body), fact.body_hash, "line {}: the body is not what was sent", line.seq + 1);
        let json = serde_json::from_slice(&whole).unwrap();
        let (endpoint, headers) = (fact.endpoint.clone(), BTreeMap::new());
        requests.push(RequestSeen { wire, endpoint, headers, body, json, nth: requests.len() });
        let wrong = loopback::check::violations(&requests[requests.len() - 1]);
        assert_eq!(wrong, [""; 0], "line {} of {}", line.seq + 1, tape.path().display());
    }
    requests
}

/// The items of the Responses wire behind the model's own.
fn since_the_last_answer<'a>(items: &'a [&'a str]) -> &'a [&'a str] {
    let is_models = |item: &&str| {
        let item: serde_json::Value = serde_json::from_str(item).unwrap();
        item["role"] == "assistant" || item["role"].is_null() && item["type"] != "function_call_output"
    };
    &items[items.iter().rposition(is_models).map_or(0, |at| at + 1)..]
}

/// The tape is rebuilt fact for fact and byte for byte.
pub(crate) async fn assert_exact(tape: &Arc<Tape>) {
    let found = exact(tape.clone()).await.unwrap();
    assert_eq!(found.mismatch, None, "{}", tape.path().display());
    assert_eq!((found.facts, found.unfinished), (found.facts_recorded, false));
}
