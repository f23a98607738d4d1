//! Killed at any moment: what was acknowledged is there, what was done had its intent, and the index agrees.
//!
//! The child is this test binary again. It runs agents one after the other and tells each acknowledged fact over a
//! pipe, as the observer hears of it; the parent kills it at random points.

use crate::kit::{Deed, InProcess, Kit, asks, redactor, said};
use futures::future::BoxFuture;
use harness::agent::{Agent, Studio};
use harness::driver::Observer;
use harness::model::Model;
use harness::model::wire;
use harness::policy::Permit;
use harness::tool::{Effect, Risk, Tool, ToolSpec, Toolbox};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace::fact::{Fact, Fault};
use trace::home::Home;
use trace::store::Store;
use trace::tape::{Tape, verify};

/// Tells the child where its home is; without it the child does nothing.
const CHILD: &str = "LOOPDECK_TEST_CRASH_HOME";
/// Runs that are killed.
const KILLS: usize = 200;
/// Children that live at the same time: runs of two processes lie side by side, as in life.
const LANES: usize = 2;

/// Which run is on.
type Current = Arc<Mutex<String>>;

/// A side effect that can be counted afterwards: a line in a file, with run, turn and place.
#[derive(Debug)]
struct Pay {
    spec: ToolSpec,
    effects: PathBuf,
    current: Current,
}

impl Pay {
    async fn pay(&self, permit: &Permit) -> Result<String, Fault> {
        let key = permit.key();
        let line = format!("{} {} {}\n", self.current.lock().unwrap(), key.turn, key.index);
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.effects)
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        tokio::time::sleep(Duration::from_micros(200)).await;
        Ok("paid".repeat(100))
    }
}

impl Tool for Pay {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(self.pay(permit))
    }
}

/// Tells the parent of each acknowledged fact.
struct Telling {
    current: Current,
}

impl Observer for Telling {
    fn recorded(&mut self, seq: u64, _at_ns: i64, fact: &Fact) {
        let mut current = self.current.lock().unwrap();
        if let Fact::RunStarted(fact) = fact {
            *current = fact.run_id.to_string();
        }
        // One write for a line, so that the pipe never holds half of an acknowledgement.
        let line = format!("ack {current} {seq}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

#[tokio::test]
#[ignore = "the child of the crash test: it runs until it is killed"]
async fn the_child_runs_until_it_is_killed() {
    let home = Home::open(PathBuf::from(std::env::var_os(CHILD).unwrap())).unwrap();
    let current = Current::default();
    let spec = ToolSpec {
        name: "pay".to_owned(),
        description: "Pays.".to_owned(),
        input_schema: json!({ "type": "object" }),
        risk: Risk::External,
        effect: Effect::AtMostOnce,
        timeout_ms: 1000,
        output_schema: None,
    };
    let pay = Arc::new(Pay { spec, effects: home.root().join("effects"), current: current.clone() });
    let look = InProcess::reading("look", Deed::Say("seen"));
    let turns = (0..4).map(|n| {
        let n = format!("{{\"n\":{n}}}");
        asks(&[("a", "look", &n), ("b", "pay", &n), ("c", "pay", &n), ("d", "look", "{}")])
    });
    let kit = Kit::new(turns.chain([said("Done.")]));
    let mut toolbox = Toolbox::default();
    toolbox.add(pay).unwrap();
    toolbox.add(look).unwrap();
    let toolbox = Arc::new(toolbox);
    let studio = Studio { tapes: home.tapes(), redactor: Arc::new(redactor()) };
    loop {
        let model =
            Model { provider: "scripted".to_owned(), wire: wire("chat").unwrap(), transport: kit.scripted() };
        let agent = Agent {
            config: Arc::new(kit.config.clone()),
            toolbox: toolbox.clone(),
            model,
            tiers: harness::driver::Tiers::new(),
            person: None,
        };
        let mut telling = Telling { current: current.clone() };
        agent.run(kit.task.clone(), &studio, kit.cancel.clone(), &mut telling).await.unwrap();
    }
}

/// Starts a child, kills it after some acknowledgements and a moment, and returns what it had acknowledged.
fn kill_one(home: &Path, after: usize, moment: Duration) -> Vec<(String, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_child_runs_until_it_is_killed", "--ignored", "--nocapture"])
        .env(CHILD, home)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = Vec::new();
    let ack = |line: String| {
        let (run, seq) = line.strip_prefix("ack ")?.split_once(' ')?;
        Some((run.to_owned(), seq.parse().ok()?))
    };
    while told.len() < after {
        told.extend(ack(lines.next().unwrap_or_else(|| panic!("the child runs until it is killed"))));
    }
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    // What it told before it died is still in the pipe.
    told.extend(lines.filter_map(ack));
    told
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().to_owned()).unwrap();
    let lanes: Vec<Vec<(String, u64)>> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let root = home.root();
                scope.spawn(move || {
                    let mut rng =
                        TestRng::from_seed(RngAlgorithm::ChaCha, &[u8::try_from(lane).unwrap(); 32]);
                    let mut told = Vec::new();
                    for _ in 0..KILLS / LANES {
                        let after = 1 + rng.next_u32() as usize % 50;
                        let moment = Duration::from_micros(u64::from(rng.next_u32() % 4000));
                        told.extend(kill_one(root, after, moment));
                    }
                    told
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let tapes = tapes(&home);
    let acknowledged = every_acknowledged_fact_is_there(&lanes.concat(), &tapes);
    let effects = every_effect_had_its_intent(&home, &tapes);
    let unended = tapes.values().filter(|tape| tape.ended().is_none()).count();
    assert!(unended >= KILLS / 2, "only {unended} of {KILLS} kills hit a run: the test has lost its point");
    the_index_agrees(&home, &tapes);
    println!("{KILLS} kills, {unended} runs cut, {acknowledged} facts acknowledged, {effects} effects");
}

/// Every tape opens and is sound; those that hold a run, by its id.
fn tapes(home: &Home) -> BTreeMap<String, Tape> {
    let mut tapes = BTreeMap::new();
    for path in Tape::list(&home.tapes()).unwrap() {
        // Killed between creating the file and writing its first line: no run, and nothing was acknowledged.
        if std::fs::read(&path).unwrap().iter().all(|byte| *byte != b'\n') {
            continue;
        }
        let (tape, problems) = verify(&path).unwrap();
        let begun = tape.started().map(|started| started.run_id.to_string());
        match begun {
            Some(run) => {
                assert_eq!(problems, [], "{}", path.display());
                tapes.insert(run, tape);
            }
            None => assert_eq!(problems.len(), 1, "{}: only the beginning is missing", path.display()),
        }
    }
    tapes
}

fn every_acknowledged_fact_is_there(told: &[(String, u64)], tapes: &BTreeMap<String, Tape>) -> usize {
    let there: BTreeSet<(&str, u64)> = tapes
        .iter()
        .flat_map(|(run, tape)| tape.lines().iter().map(|line| (run.as_str(), line.seq)))
        .collect();
    for (run, seq) in told {
        assert!(there.contains(&(run.as_str(), *seq)), "run {run}: acknowledged fact {seq} is missing");
    }
    told.len()
}

fn every_effect_had_its_intent(home: &Home, tapes: &BTreeMap<String, Tape>) -> usize {
    let effects = std::fs::read_to_string(home.root().join("effects")).unwrap();
    let mut seen = BTreeSet::new();
    for effect in effects.lines() {
        assert!(seen.insert(effect), "{effect} was done twice");
        let [run, turn, index] = effect.split(' ').collect::<Vec<_>>()[..] else { panic!("{effect}") };
        let intended = tapes[run].lines().iter().any(|line| match &line.fact {
            Fact::ToolStarted(fact) => {
                fact.synced && fact.key.turn.to_string() == turn && fact.key.index.to_string() == index
            }
            _ => false,
        });
        assert!(intended, "{effect} has no intent on its tape");
    }
    seen.len()
}

/// Views `runs` and `tool_calls` say what the tapes say.
fn the_index_agrees(home: &Home, tapes: &BTreeMap<String, Tape>) {
    let store = Store::open(home).unwrap();
    store.catch_up().unwrap();
    let runs = store.query("select run_id, status, turns from runs", &[], 100_000).unwrap();
    let indexed: BTreeMap<String, (Value, Value)> = runs
        .objects()
        .map(|row| {
            (row["run_id"].as_str().unwrap().to_owned(), (row["status"].clone(), row["turns"].clone()))
        })
        .collect();
    let told: BTreeMap<String, (Value, Value)> =
        tapes.iter().map(|(run, tape)| (run.clone(), verdict(tape))).collect();
    assert_eq!(indexed, told);
    let sql = "select run_id, turn, call_index, status from tool_calls";
    let calls = store.query(sql, &[], 1_000_000).unwrap();
    let key = |row: &serde_json::Map<String, Value>| {
        (row["run_id"].as_str().unwrap().to_owned(), row["turn"].as_u64(), row["call_index"].as_u64())
    };
    let indexed: BTreeMap<_, Value> = calls.objects().map(|row| (key(&row), row["status"].clone())).collect();
    assert_eq!(indexed, tapes.iter().flat_map(|(run, tape)| calls_of(run, tape)).collect());
}

fn verdict(tape: &Tape) -> (Value, Value) {
    let status = tape.ended().map_or("running", |ended| ended.outcome.status.as_str());
    let turns = tape.lines().iter().filter_map(|line| match &line.fact {
        Fact::ModelAsked(fact) => Some(fact.turn),
        _ => None,
    });
    (json!(status), json!(turns.max().unwrap_or(0)))
}

/// Each call that was begun, with its status; without one where its result is missing.
fn calls_of(run: &str, tape: &Tape) -> BTreeMap<(String, Option<u64>, Option<u64>), Value> {
    let mut calls = BTreeMap::new();
    for line in tape.lines() {
        let (key, status) = match &line.fact {
            Fact::ToolStarted(fact) => (fact.key, Value::Null),
            Fact::ToolFinished(fact) => (fact.key, json!(fact.status)),
            _ => continue,
        };
        calls.insert((run.to_owned(), Some(key.turn.into()), Some(key.index.into())), status);
    }
    calls
}
