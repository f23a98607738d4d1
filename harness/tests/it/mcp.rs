//! MCP servers as an agent has them: listed, called, cancelled, killed, started again.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response as Answer};
use harness::agent::{Agent, Studio, Task};
use harness::config::{AgentConfig, PolicyTable};
use harness::driver::Unobserved;
use harness::model::scripted::{ScriptTurn, Scripted};
use harness::policy::approval::Approvals;
use harness::policy::{CanUse, Decision, Matter, Permit, decide};
use harness::tool::{Effect, Risk, Toolbox};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::fact::{Fact, Fault};
use trace::id::{CallKey, RunId};
use trace::message::{Finish, Part, Response, ToolCall, Usage};
use trace::outcome::{FailureStage, FaultClass, RunStatus, ToolStatus};
use trace::redact::Redactor;
use trace::tape::Tape;

const FAKE: &str = include_str!("mcp/server.sh");

/// A folder with the fake server in it, and the log of what the server was told.
struct House(tempfile::TempDir);

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("server.sh"), FAKE).expect("written");
        Self(folder)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.path().join("log")).unwrap_or_default()
    }

    fn config(&self, more: &str) -> AgentConfig {
        let text = format!(
            "[model]\nname = \"m\"\nstream = false\nkey_env = \"\"\n\
             [[mcp]]\nname = \"fake\"\ncommand = [\"sh\", \"server.sh\", \"log\"]\nenv = [\"GREETING\"]\n{more}"
        );
        AgentConfig::parse(&text, Path::new("agent.toml")).expect("a configuration")
    }

    async fn toolbox(&self, more: &str) -> Result<Toolbox, String> {
        connected(&self.config(more), self.0.path()).await
    }
}

async fn connected(config: &AgentConfig, folder: &Path) -> Result<Toolbox, String> {
    let environment = |name: &str| (name == "GREETING").then(|| "hello".to_owned());
    let mut toolbox = Toolbox::of_config(config, folder, &environment).map_err(|why| why.to_string())?;
    toolbox.connect(config, folder, &environment).await.map_err(|why| why.to_string())?;
    Ok(toolbox)
}

fn permit(toolbox: &Toolbox, name: &str, arguments: &str) -> Permit {
    let spec = toolbox.spec(name).unwrap_or_else(|| panic!("a tool {name}"));
    let call =
        ToolCall { call_id: "c".to_owned(), tool_name: name.to_owned(), arguments: arguments.to_owned() };
    let key = CallKey { turn: 1, index: 0 };
    let matter = Matter {
        run: &RunId::from_draw(1),
        key,
        call: &call,
        spec,
        arguments,
        args_hash: trace::canonical::args_hash(name, arguments),
        approvals: &Approvals::default(),
        spoken: None,
        now_ns: 0,
    };
    match decide(&PolicyTable::default(), &matter, &CanUse::default()) {
        Decision::Allow(permit) => permit,
        other => panic!("the default policy allows: {other:?}"),
    }
}

async fn call(toolbox: &Toolbox, name: &str, arguments: &str) -> Result<String, Fault> {
    let permit = permit(toolbox, name, arguments);
    toolbox.tool(name).expect("at hand").call(&permit).await
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what}: not within 5 s");
}

#[tokio::test]
async fn the_tools_of_a_server_look_like_any_other() {
    let house = House::new();
    let toolbox = house.toolbox("").await.unwrap();
    assert_eq!(
        toolbox.names().collect::<Vec<_>>(),
        ["count", "die", "echo", "fail", "hang", "lie", "refuse"]
    );
    let echo = toolbox.spec("echo").unwrap();
    assert_eq!((echo.risk, echo.effect, echo.description.as_str()), (Risk::Read, Effect::Pure, "Says it."));
    let die = toolbox.spec("die").unwrap();
    assert_eq!((die.risk, die.effect), (Risk::External, Effect::AtMostOnce));
    assert_eq!(toolbox.lint().len(), 4, "{:?}", toolbox.lint());
    assert_eq!(call(&toolbox, "count", "{}").await.unwrap(), r#"{"n":1}"#);
}

#[tokio::test]
async fn a_server_runs_beside_agent_toml_and_sees_only_the_variables_it_is_given() {
    let house = House::new();
    let toolbox = house.toolbox("").await.unwrap();
    // Cargo sets CARGO_MANIFEST_DIR for this process.
    assert_eq!(call(&toolbox, "echo", "{}").await.unwrap(), "hello, from nowhere");
    let folder = house.0.path().canonicalize().unwrap();
    assert!(house.log().starts_with(&format!("started in {}", folder.display())), "{}", house.log());
}

#[tokio::test]
async fn errors_of_a_tool_and_of_the_protocol_are_faults_with_words() {
    let house = House::new();
    let toolbox = house.toolbox("").await.unwrap();
    for (name, wanted) in
        [("fail", "no such item"), ("refuse", "server `fake` refused: -32602: unfit arguments")]
    {
        let fault = call(&toolbox, name, "{}").await.unwrap_err();
        assert_eq!((fault.class, fault.message.as_str()), (FaultClass::Permanent, wanted));
    }
}

#[tokio::test]
async fn a_name_that_two_have_is_prefixed_and_no_other() {
    let house = House::new();
    let more = "tools = [\"echo\", \"fail\"]\n\
                [[mcp]]\nname = \"other\"\ncommand = [\"sh\", \"server.sh\", \"log2\"]\ntools = [\"echo\", \"count\"]\n\
                [[tool]]\nname = \"count\"\ncommand = [\"true\"]\ninput_schema = {}";
    let toolbox = house.toolbox(more).await.unwrap();
    assert_eq!(
        toolbox.names().collect::<Vec<_>>(),
        ["count", "fail", "fake__echo", "other__count", "other__echo"]
    );
    assert!(call(&toolbox, "fake__echo", "{}").await.unwrap().starts_with("hello"));
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_named_with_what_it_said() {
    let house = House::new();
    for (server, wanted) in [
        ("command = [\"no-such-program\"]", "cannot start `no-such-program`"),
        ("command = [\"sh\", \"-c\", \"echo no licence >&2; exit 1\"]", "it had said: no licence"),
        ("command = [\"sleep\", \"60\"]\nstart_timeout_seconds = 1", "not ready within 1 s"),
        (
            "command = [\"sh\", \"server.sh\", \"log\"]\ntools = [\"fly\"]",
            "has no tool `fly`; it has: echo, count",
        ),
        ("command = [\"sh\", \"server.sh\", \"log\"]\nenv = [\"TOKEN\"]", "TOKEN is not set"),
        ("url = \"http://127.0.0.1:9/mcp\"", "did not start"),
    ] {
        let text = format!("[model]\nname = \"m\"\n[[mcp]]\nname = \"broken\"\n{server}");
        let config = AgentConfig::parse(&text, Path::new("agent.toml")).unwrap();
        let why = connected(&config, house.0.path()).await.unwrap_err();
        assert!(why.contains("broken") && why.contains(wanted), "{server}: {why}");
    }
}

#[tokio::test]
async fn a_server_hears_of_a_call_that_nobody_waits_for() {
    let house = House::new();
    let toolbox = house.toolbox("").await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(300), call(&toolbox, "hang", "{}")).await;
    assert!(waited.is_err(), "it never answers");
    until("the server is told", || house.log().contains("notifications/cancelled")).await;
    assert!(call(&toolbox, "echo", "{}").await.is_ok(), "the server serves on");
}

#[tokio::test]
async fn a_server_that_dies_fails_one_call_and_is_started_again_for_the_next_a_few_times() {
    let house = House::new();
    let toolbox = house.toolbox("").await.unwrap();
    for _ in 0..=3 {
        let fault = call(&toolbox, "die", "{}").await.unwrap_err();
        assert_eq!(fault.class, FaultClass::Transient, "{}", fault.message);
        assert!(
            fault.message.contains("server `fake` ended during the call, which may have taken effect"),
            "{}",
            fault.message
        );
    }
    let fault = call(&toolbox, "echo", "{}").await.unwrap_err();
    assert_eq!(fault.message, "server `fake` ended 4 times and is not started again in this process");
    assert_eq!(house.log().matches("started in").count(), 4);
}

#[tokio::test]
async fn servers_end_with_their_toolbox() {
    let house = House::new();
    let pid_file = house.0.path().join("pid");
    let text = "[model]\nname = \"m\"\n[[mcp]]\nname = \"fake\"\n\
                command = [\"sh\", \"-c\", \"echo $$ > pid; exec sh server.sh log\"]";
    let config = AgentConfig::parse(text, Path::new("agent.toml")).unwrap();
    let toolbox = connected(&config, house.0.path()).await.unwrap();
    let pid = std::fs::read_to_string(pid_file).unwrap().trim().to_owned();
    let is_alive = || {
        let asked = std::process::Command::new("kill")
            .args(["-0", &pid])
            .stderr(std::process::Stdio::null())
            .status();
        asked.unwrap().success()
    };
    assert!(is_alive());
    drop(toolbox);
    until("the server has ended", || !is_alive()).await;
}

fn says(parts: Vec<Part>) -> ScriptTurn {
    let finish = if parts.iter().any(|part| matches!(part, Part::ToolCall(_))) {
        Finish::ToolUse
    } else {
        Finish::EndTurn
    };
    let usage = Usage { input_tokens: Some(1), output_tokens: Some(1), ..Usage::default() };
    ScriptTurn::Answer(Response {
        response_id: None,
        response_model: None,
        parts,
        finish,
        finish_raw: None,
        usage,
    })
}

fn asks(name: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: format!("call_{name}"),
        tool_name: name.to_owned(),
        arguments: "{}".to_owned(),
    })
}

/// A run whose model asks for these calls in one turn, and its tape.
async fn run_of(house: &House, calls: &[&str]) -> Tape {
    let folder = house.0.path();
    let environment = |_: &str| Some("hello".to_owned());
    let file = Path::new("agent.toml");
    let agent = Agent::of_config(house.config(""), file, folder, &environment).expect("an agent");
    let mut agent = agent.connect(file, folder, &environment).await.expect("connected");
    let turns = vec![
        says(calls.iter().map(|name| asks(name)).collect()),
        says(vec![Part::Text { text: "done".to_owned() }]),
    ];
    agent.model.transport = Arc::new(Scripted::new(agent.model.wire.clone(), turns));
    let studio =
        Studio { tapes: folder.to_owned(), redactor: Arc::new(Redactor::new([7; 32]).expect("a redactor")) };
    let task = Task { text: "go".to_owned(), ..Task::default() };
    let finished = agent.run(task, &studio, CancellationToken::new(), &mut Unobserved).await.expect("a tape");
    assert_eq!(finished.outcome.status, RunStatus::Completed, "{:?}", finished.outcome);
    Tape::read(&finished.tape).expect("whole")
}

#[tokio::test]
async fn in_a_run_a_dying_and_a_lying_server_give_exactly_one_result_each() {
    let house = House::new();
    let tape = run_of(&house, &["die", "echo", "lie", "count"]).await;
    let results: Vec<_> = tape
        .lines()
        .iter()
        .filter_map(|line| match &line.fact {
            Fact::ToolFinished(done) => {
                Some((done.call_id.as_str(), done.status, done.error_class, done.failure_stage))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        results,
        [
            ("call_die", ToolStatus::Error, Some(FaultClass::Transient), Some(FailureStage::Execution)),
            ("call_echo", ToolStatus::Ok, None, None),
            ("call_lie", ToolStatus::Error, Some(FaultClass::Permanent), Some(FailureStage::Validation)),
            ("call_count", ToolStatus::Ok, None, None),
        ]
    );
}

#[tokio::test]
async fn in_a_run_a_server_is_told_the_span_of_each_call() {
    let house = House::new();
    let tape = run_of(&house, &["echo", "count"]).await;
    let started = tape.started().unwrap();
    let told: Vec<Value> = house
        .log()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["method"] == "tools/call")
        .map(|message| message["params"]["_meta"]["traceparent"].clone())
        .collect();
    let of_call = |index| {
        let span = started.run_id.span(trace::attribute::operation::EXECUTE_TOOL, 1, index);
        Value::from(format!("00-{}-{span}-01", started.trace_id))
    };
    assert_eq!(told, [of_call(0), of_call(1)]);
}

/// A server over streamable HTTP that answers each request with one JSON body.
async fn http_server() -> (String, JoinSet<()>) {
    let app = axum::Router::new().route("/mcp", axum::routing::post(http_answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.expect("served") });
    (url, tasks)
}

async fn http_answer(headers: HeaderMap, Json(message): Json<Value>) -> Answer {
    if headers.get("authorization").is_none_or(|value| value != "Bearer k-1") {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"},
        }),
        "tools/list" => {
            json!({"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => {
            let [a, b] = ["a", "b"].map(|name| message["params"]["arguments"][name].as_i64().unwrap_or(0));
            json!({"content": [{"type": "text", "text": (a + b).to_string()}]})
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

#[tokio::test]
async fn a_server_over_http_is_listed_and_called_with_its_key() {
    let (url, _tasks) = http_server().await;
    let text = format!("[model]\nname = \"m\"\n[[mcp]]\nname = \"h\"\nurl = \"{url}\"\nbearer_env = \"KEY\"");
    let config = AgentConfig::parse(&text, Path::new("agent.toml")).unwrap();
    let mut toolbox = Toolbox::default();
    toolbox.connect(&config, Path::new("."), &|_| Some("k-1".to_owned())).await.unwrap();
    assert_eq!(call(&toolbox, "add", r#"{"a":2,"b":3}"#).await.unwrap(), "5");
    let why =
        Toolbox::default().connect(&config, Path::new("."), &|_| Some("wrong".to_owned())).await.unwrap_err();
    assert!(why.to_string().contains("server `h` did not start"), "{why}");
}

/// Set to the command line of `server-everything` of the protocol's own authors, for example
/// `node .../server-everything/dist/index.js stdio`.
const REAL_SERVER: &str = "LOOPDECK_MCP_SERVER";

#[tokio::test]
async fn a_published_server_is_listed_called_cancelled_and_killed() {
    let Ok(line) = std::env::var(REAL_SERVER) else {
        println!("skipped: {REAL_SERVER} names no published MCP server");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<&str> =
        ["sh", "-c", "echo $$ > pid; exec \"$@\"", "sh"].into_iter().chain(line.split_whitespace()).collect();
    let text = format!("[model]\nname = \"m\"\n[[mcp]]\nname = \"real\"\ncommand = {}", json!(words));
    let config = AgentConfig::parse(&text, Path::new("agent.toml")).unwrap();
    let toolbox = connected(&config, folder.path()).await.unwrap();
    println!("listed: {}", toolbox.names().collect::<Vec<_>>().join(", "));

    assert_eq!(call(&toolbox, "echo", r#"{"message":"hi"}"#).await.unwrap(), "Echo: hi");
    let sum = call(&toolbox, "get-sum", r#"{"a":2,"b":3}"#).await.unwrap();
    assert!(sum.contains('5'), "{sum}");
    let image = call(&toolbox, "get-tiny-image", "{}").await.unwrap();
    assert!(image.contains("[image image/png, about"), "{image}");
    let structured = call(&toolbox, "get-structured-content", r#"{"location":"New York"}"#).await.unwrap();
    assert_eq!(toolbox.validate_answer("get-structured-content", &structured), Ok(()), "{structured}");

    let long = "trigger-long-running-operation";
    let arguments = r#"{"duration":30,"steps":30}"#;
    let cancelled = tokio::time::timeout(Duration::from_millis(500), call(&toolbox, long, arguments)).await;
    assert!(cancelled.is_err());
    assert!(call(&toolbox, "echo", r#"{"message":"still here"}"#).await.is_ok());

    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap().trim().to_owned();
    let killer = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        std::process::Command::new("kill").args(["-9", &pid]).status().unwrap()
    };
    let (killed, _) = tokio::join!(call(&toolbox, long, arguments), killer);
    assert!(killed.unwrap_err().message.contains("ended during the call"));
    assert_eq!(call(&toolbox, "echo", r#"{"message":"again"}"#).await.unwrap(), "Echo: again");
    assert_ne!(std::fs::read_to_string(folder.path().join("pid")).unwrap().trim(), pid, "a new process");
}
