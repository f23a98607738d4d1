//! A run a hundred times as long costs a hundred times as much: in lines, bytes and encoded fragments, not in time.
//! Only the bodies as sent repeat the conversation, as every provider demands.

use futures::future::BoxFuture;
use harness::agent::{Identity, Task, started_fact};
use harness::config::AgentConfig;
use harness::driver::{Setup, Unobserved, drive};
use harness::hands::LiveHands;
use harness::model::scripted::{ScriptTurn, Scripted};
use harness::model::{
    CallSpec, DecodeError, Frame, Model, Reply, StreamDecoder, Transport, Wire, WireRequest, wire,
};
use harness::port::{Live, Ports};
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Toolbox};
use secrecy::SecretString;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trace::fact::Fault;
use trace::message::{Finish, Message, Part, Response, ToolCall, Usage};
use trace::outcome::StopReason;
use trace::redact::Redactor;
use trace::tape::{Disk, TapeWriter};

/// What a run cost.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Cost {
    lines: u64,
    syncs: u64,
    tape_bytes: u64,
    fragments: u64,
    fragment_bytes: u64,
    sent_bytes: u64,
}

/// One figure of a cost.
type Figure = fn(&Cost) -> u64;

/// A disk that counts and forgets.
#[derive(Debug, Default, Clone)]
struct Ledger(Arc<Mutex<Cost>>);

impl Disk for Ledger {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut cost = self.0.lock().expect("nobody panics");
        cost.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        cost.tape_bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.0.lock().expect("nobody panics").syncs += 1;
        Ok(())
    }
}

/// A wire that counts what it encodes.
#[derive(Debug)]
struct Counted(Arc<dyn Wire>, Ledger);

impl Wire for Counted {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn endpoint(&self, model: &str, stream: bool) -> String {
        self.0.endpoint(model, stream)
    }
    fn list(&self) -> &'static str {
        self.0.list()
    }
    fn headers(&self, key: Option<&SecretString>) -> Vec<(String, String)> {
        self.0.headers(key)
    }
    fn frame(&self, spec: &CallSpec) -> Frame {
        self.0.frame(spec)
    }
    fn fragments(&self, message: &Message) -> Vec<String> {
        let fragments = self.0.fragments(message);
        let mut cost = self.1.0.lock().expect("nobody panics");
        cost.fragments += fragments.len() as u64;
        cost.fragment_bytes += fragments.iter().map(|one| one.len() as u64).sum::<u64>();
        drop(cost);
        fragments
    }
    fn decode(&self, body: &[u8]) -> Result<Response, DecodeError> {
        self.0.decode(body)
    }
    fn stream(&self) -> Box<dyn StreamDecoder> {
        self.0.stream()
    }
    fn fault(&self, status: u16, headers: &BTreeMap<String, String>, body: &[u8]) -> Fault {
        self.0.fault(status, headers, body)
    }
}

/// A transport that counts what is sent.
#[derive(Debug)]
struct Weighed(Scripted, AtomicU64);

impl Transport for Weighed {
    fn send<'a>(
        &'a self,
        request: &'a WireRequest,
        on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        self.1.fetch_add(request.body.len() as u64, Ordering::Relaxed);
        self.0.send(request, on_chunk)
    }
}

/// Each turn asks for one call; numbers have one width, so that turns have one length.
fn script(turns: u32) -> Vec<ScriptTurn> {
    let answer = |part, finish| {
        let usage = Usage { input_tokens: Some(10), output_tokens: Some(10), ..Usage::default() };
        let parts = vec![part];
        ScriptTurn::Answer(Response {
            response_id: None,
            response_model: None,
            parts,
            finish,
            finish_raw: None,
            usage,
        })
    };
    let ask = |turn: u32| {
        Part::ToolCall(ToolCall {
            call_id: format!("call_{turn:06}"),
            tool_name: "look_up".to_owned(),
            arguments: format!("{{\"n\":\"{turn:06}\"}}"),
        })
    };
    let asks = (0..turns).map(|turn| answer(ask(turn), Finish::ToolUse));
    asks.chain([answer(Part::Text { text: "done".to_owned() }, Finish::EndTurn)]).collect()
}

async fn cost_of(turns: u32) -> Cost {
    let text = "[model]\nname = \"m\"\nkey_env = \"\"\nstream = false\n[budget]\nmax_model_turns = 100000\nmax_tool_calls = 100000\n\
                max_calls_per_tool = 100000\nmax_total_tokens = 100000000\nmax_wall_time_seconds = 36000\n";
    let config = Arc::new(AgentConfig::parse(text, Path::new("agent.toml")).expect("a configuration"));
    let mut toolbox = Toolbox::default();
    let look_up = |asked: Value, _: &_| async move { Ok::<_, Fault>(format!("thing {}", asked["n"])) };
    let tool = Typed::new("look_up", "Looks a thing up.", Risk::Read, Effect::Pure, look_up);
    toolbox.add(Arc::new(tool)).expect("one tool");
    let ledger = Ledger::default();
    let wire: Arc<dyn Wire> = Arc::new(Counted(wire("chat").expect("a wire"), ledger.clone()));
    let transport = Arc::new(Weighed(Scripted::new(wire.clone(), script(turns)), AtomicU64::new(0)));
    let toolbox = Arc::new(toolbox);
    let ports: Arc<dyn Ports> = Arc::new(Live::new(CancellationToken::new(), Duration::from_secs(36_000)));
    let setup = Setup {
        config: config.clone(),
        toolbox: toolbox.clone(),
        model: Model { provider: "scripted".to_owned(), wire, transport: transport.clone() },
        hands: Arc::new(LiveHands::new(toolbox.clone(), ports.clone(), 0)),
        ports: ports.clone(),
        tiers: harness::driver::Tiers::new(),
    };
    let task = Task { text: "Look things up.".to_owned(), ..Task::default() };
    let redactor = Arc::new(Redactor::new([7; 32]).expect("patterns"));
    let mut tape = TapeWriter::start(PathBuf::from("t"), ledger.clone(), 0, redactor).expect("a header");
    let identity = Identity::draw(&*ports, &task);
    let started = started_fact(&config, &toolbox, &task, identity, &mut tape).expect("a first fact");
    let outcome = drive(&setup, started, &mut tape, &mut Unobserved).await.expect("a tape");
    assert_eq!((outcome.stop_reason, outcome.turns), (StopReason::Completed, turns + 1));
    let mut cost = *ledger.0.lock().expect("nobody panics");
    cost.sent_bytes = transport.1.load(Ordering::Relaxed);
    cost
}

#[tokio::test]
async fn a_hundred_times_the_turns_costs_a_hundred_times_the_lines_bytes_and_fragments() {
    let (short, middle, long) = (cost_of(20).await, cost_of(200).await, cost_of(2000).await);
    // What one more turn costs, between 20 and 200 turns and between 200 and 2000.
    let early = |of: Figure| (of(&middle) - of(&short)) / 180;
    let late = |of: Figure| (of(&long) - of(&middle)) / 1800;
    let exact: [(&str, Figure); 3] = [
        ("lines", |cost| cost.lines),
        ("fragments", |cost| cost.fragments),
        ("bytes of fragments", |cost| cost.fragment_bytes),
    ];
    for (what, of) in exact {
        assert_eq!(early(of), late(of), "{what} a turn: {short:?} {middle:?} {long:?}");
    }
    assert_eq!((early(|cost| cost.lines), early(|cost| cost.fragments)), (8, 2));
    assert_eq!(
        (short.syncs, long.syncs),
        (0, 0),
        "reads are not synced one by one, and sealing syncs the end"
    );
    // Sequence numbers, depths and lengths have more digits later on: nothing else may grow.
    let (early, late) = (early(|cost| cost.tape_bytes), late(|cost| cost.tape_bytes));
    assert!(late <= early + early / 33, "a turn took {early} bytes of tape and takes {late}");
    assert!(long.sent_bytes > 50 * long.tape_bytes, "the bodies do repeat the conversation");
    assert!(late < 4000, "{late} bytes a turn");
}
