//! `loopdeck run` as people and programs meet it: events, interruptions, and the span of whoever called.

use crate::kit::program::{House, PROGRAM, Said};
use crate::kit::{asks, said};
use loopback::{Loopback, Play};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A model that asks for one call and then answers, each piece of it after a pause.
async fn provider(pause: Duration) -> Loopback {
    let play = move |seen: &loopback::RequestSeen| match seen.answers() {
        0 => Play::from(asks(&[("a", "tell", "{\"n\":1}")])).pause(pause),
        _ => Play::from(said("It is on its way.")).pause(pause),
    };
    Loopback::start(play).await.unwrap()
}

/// An agent with a tool that tells the span it was given.
fn agent(house: &House, provider: &Loopback) -> PathBuf {
    let text = format!(
        "[model]\nname = \"m\"\nkey_env = \"\"\nbase_url = \"{}\"\n[[tool]]\nname = \"tell\"\n\
         description = \"Tells.\"\ncommand = [\"sh\", \"-c\", \"printf %s \\\"$TRACEPARENT\\\"\"]\nrisk = \"read\"\n\
         effect = \"pure\"\n[tool.input_schema]\ntype = \"object\"\n",
        provider.base_url()
    );
    house.file("agent.toml", text)
}

async fn run(house: &House, environment: &[(&str, &str)], arguments: &[&str]) -> Said {
    let mut command = house.command(PROGRAM);
    command.args(["run", "agent.toml", "where is it?"]).args(arguments).envs(environment.iter().copied());
    tokio::task::spawn_blocking(move || crate::kit::program::said(&mut command)).await.unwrap()
}

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_as_lines_and_the_last_one_holds_the_outcome() {
    let house = House::new();
    let provider = provider(Duration::ZERO).await;
    agent(&house, &provider);
    let said = run(&house, &[], &["--json"]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    let events = events(&said.out);
    let wanted = [
        "run_started",
        "turn",
        "text",
        "tool_call",
        "answered",
        "tool_started",
        "tool_finished",
        "turn",
        "text",
        "answered",
        "ended",
    ];
    assert_eq!(kinds(&events), wanted, "{}", said.out);
    let text = |turn: u64| {
        let pieces = events.iter().filter(|event| event["type"] == "text" && event["turn"] == turn);
        pieces.map(|event| event["text"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!((text(1).as_str(), text(2).as_str()), ("let me see", "It is on its way."));
    let last = events.last().unwrap();
    assert_eq!(last["outcome"]["answer"], "It is on its way.");
    assert_eq!(last["run_id"], events[0]["run_id"]);
    // On a pipe, people see plain lines: no bar, no colour.
    assert!(!said.err.contains('\u{1b}') && !said.err.contains("[#"), "{}", said.err);
    assert!(said.err.contains("turn 1: tell {\"n\":1} ok "), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_a_child_of_its_caller_and_its_programs_are_children_of_their_calls() {
    let house = House::new();
    let provider = provider(Duration::ZERO).await;
    agent(&house, &provider);
    let environment =
        [("TRACEPARENT", CALLER), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=desk,service.version=7")];
    let said = run(&house, &environment, &["--json"]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    let told = events(&said.out).into_iter().find(|event| event["type"] == "tool_finished").unwrap();
    let spans = house.sql("select * from spans order by started_at");
    let root = spans.iter().find(|span| span["operation"] == "invoke_agent").unwrap();
    assert_eq!(
        (root["trace_id"].as_str(), root["parent_span_id"].as_str()),
        (Some(&CALLER[3..35]), Some(&CALLER[36..52]))
    );
    let call = spans.iter().find(|span| span["operation"] == "execute_tool").unwrap();
    let of_call = format!("00-{}-{}-01", &CALLER[3..35], call["span_id"].as_str().unwrap());
    assert_eq!(told["result"], of_call.as_str());
    assert_eq!(
        house.sql("select service, release from runs")[0],
        serde_json::json!({"service": "desk", "release": "7"})
    );
    assert_eq!(house.run(&["replay", "latest"]).code, 0);

    let garbled =
        run(&house, &[("TRACEPARENT", "00-xyz-1"), ("OTEL_RESOURCE_ATTRIBUTES", "no pair")], &[]).await;
    assert_eq!(garbled.code, 0, "{}", garbled.err);
    for variable in ["TRACEPARENT is ignored: `00-xyz-1`", "OTEL_RESOURCE_ATTRIBUTES is ignored"] {
        assert!(garbled.err.contains(variable), "{}", garbled.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_has_an_agent_that_runs_and_nothing_is_overwritten() {
    let house = House::new();
    let provider = Loopback::start(|seen: &loopback::RequestSeen| match seen.answers() {
        0 => Play::from(asks(&[("a", "list_files", "{}")])),
        _ => Play::from(said("Three files.")),
    })
    .await
    .unwrap();
    let begun = house.run(&["init", "desk"]);
    assert_eq!((begun.code, begun.out.as_str()), (0, "desk/agent.toml\ndesk/prompt.txt\ndesk/task.txt\n"));
    assert!(begun.err.contains("loopdeck run desk/agent.toml - < desk/task.txt"), "{}", begun.err);
    let path = house.folder.path().join("desk/agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    // The provider of this test instead of the real one; the rest is as a newcomer has it.
    let here = format!("base_url = \"{}\"\nkey_env = \"\"", provider.base_url());
    std::fs::write(&path, text.replace("wire = \"chat\"", &format!("wire = \"chat\"\n{here}"))).unwrap();
    let run = house.run_beside(&["run", "desk/agent.toml", "what is here?", "--json"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let events = events(&run.out);
    let call = events.iter().find(|event| event["type"] == "tool_finished").unwrap();
    assert!(call["result"].as_str().unwrap().contains("prompt.txt"), "{call}");
    let again = house.run(&["init", "desk"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("desk/agent.toml is there already"), "{}", again.err);
    assert!(std::fs::read_to_string(&path).unwrap().contains("key_env = \"\""), "what was changed stays");
}

/// A program under way, whose stderr is read line by line.
struct UnderWay {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl UnderWay {
    fn start(house: &House, environment: &[(&str, &str)]) -> Self {
        let mut command = house.command(PROGRAM);
        command.args(["run", "agent.toml", "where is it?"]).envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    fn wait_for(&mut self, words: &str) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("no {words}"))
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn ended(mut self) -> (i32, String) {
        let mut rest: String = self.lines.by_ref().map(|line| line.unwrap() + "\n").collect();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_process_was_killed_is_told_as_interrupted_until_it_goes_on() {
    let house = House::new();
    let asked = AtomicUsize::new(0);
    // The second answer never comes to its end; whoever asks after that has the third at once.
    let slow = Loopback::start(move |_: &loopback::RequestSeen| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Play::from(asks(&[("a", "tell", "{\"n\":1}")])),
        1 => Play::from(said("It is on its way.")).pause(Duration::from_secs(3600)),
        _ => Play::from(said("It is on its way.")),
    })
    .await
    .unwrap();
    agent(&house, &slow);
    let house = tokio::task::spawn_blocking(move || {
        let mut run = UnderWay::start(&house, &[]);
        run.wait_for("turn 1: tell");
        let status = |house: &House| {
            let said = house.run(&["runs", "--json", "--status", "running"]);
            serde_json::from_str::<Value>(&said.out).unwrap()[0]["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(status(&house), "running");
        run.signal("-KILL");
        run.ended();
        assert_eq!(status(&house), "interrupted");
        house
    })
    .await
    .unwrap();
    let shown = house.run(&["show", "latest"]).out;
    assert!(shown.contains("interrupted: ") && shown.contains("next: loopdeck resume "), "{shown}");
    assert_eq!(house.run_beside(&["resume", "latest"]).await.code, 0);
    assert!(house.run(&["runs"]).out.contains("completed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_interruption_ends_the_run_so_that_it_can_go_on() {
    for signal in ["-INT", "-TERM"] {
        let house = House::new();
        let slow = provider(Duration::from_millis(200)).await;
        agent(&house, &slow);
        let (code, said, house) = tokio::task::spawn_blocking(move || {
            let mut run = UnderWay::start(&house, &[]);
            run.wait_for("turn 1: tell");
            run.signal(signal);
            let (code, said) = run.ended();
            (code, said, house)
        })
        .await
        .unwrap();
        assert_eq!(code, 130, "{said}");
        let told = said.lines().find_map(|line| line.strip_prefix("go on: loopdeck ")).unwrap();
        let resumed = house.run_beside(&told.split(' ').collect::<Vec<_>>()).await;
        assert_eq!((resumed.code, resumed.out.as_str()), (0, "It is on its way.\n"), "{}", resumed.err);
        assert_eq!(house.run(&["replay", "latest"]).code, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_interruption_ends_at_once_and_the_tape_is_whole() {
    let house = House::new();
    let provider = provider(Duration::from_millis(300)).await;
    agent(&house, &provider);
    // A collector that takes the connection and never answers: the copy of the spans is waited for.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", deaf.local_addr().unwrap());
    let (code, took, house) = tokio::task::spawn_blocking(move || {
        let mut run = UnderWay::start(&house, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector)]);
        run.wait_for("turn 1: tell");
        run.signal("-INT");
        run.wait_for("go on: ");
        run.signal("-INT");
        let begun = Instant::now();
        (run.ended().0, begun.elapsed(), house)
    })
    .await
    .unwrap();
    drop(deaf);
    assert_eq!(code, 130);
    assert!(took < Duration::from_secs(5), "it waited {took:?} for a collector that never answers");
    assert_eq!(house.run(&["verify", "latest"]).code, 0);
    assert_eq!(house.run_beside(&["resume", "latest"]).await.code, 0);
}
