//! A conversation over several runs: each goes on from what was said before, and stands on a tape of its own.

use crate::kit::program::House;
use crate::kit::{Deed, InProcess, Kit, asks, redactor, said};
use harness::agent::{Identity, started_fact};
use harness::driver::{Unobserved, drive};
use loopback::{Loopback, Play, RequestSeen};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use trace::id::{RunId, TraceId};
use trace::message::{Message, Role};
use trace::outcome::StopReason;
use trace::tape::{Disk, Tape, TapeWriter};

/// A run that goes on from an earlier one.
pub(crate) fn continued() -> Kit {
    let mut kit = Kit::new([asks(&[("a", "look", "{}")]), said("As I said: red.")])
        .tool(&InProcess::reading("look", Deed::Say("red")));
    let earlier = vec![
        Message::text(Role::User, "What colour is the fox?"),
        Message::text(Role::Assistant, "It is red."),
    ];
    kit.task.session_id = Some("foxes".to_owned());
    kit.task.continues = Some((RunId::from_draw(9), earlier));
    kit
}

#[tokio::test]
async fn what_was_said_before_is_part_of_the_conversation_and_of_the_tape() {
    let run = continued().run().await;
    let started = run.tape.started().unwrap();
    assert_eq!(started.earlier.len(), 2);
    let spans = trace::span::from_tape(&run.tape);
    let first = spans.iter().find(|span| span.name.starts_with("chat")).unwrap();
    let messages: serde_json::Value =
        serde_json::from_str(first.attributes["gen_ai.input.messages"].as_str().unwrap()).unwrap();
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
}

#[tokio::test]
async fn a_session_goes_on_from_its_newest_run_and_each_tape_stands_alone() {
    let house = House::new();
    let asked = AtomicUsize::new(0);
    let provider = Loopback::start(move |_: &RequestSeen| {
        Play::from(said(&format!("answer {}", asked.fetch_add(1, Ordering::SeqCst) + 1)))
    })
    .await
    .unwrap();
    let agent = house.agent(&provider.base_url(), "chat");
    let agent = agent.to_str().unwrap();
    for (session, task) in [("s", "first"), ("other", "elsewhere"), ("s", "second"), ("s", "third")] {
        let said = house.run_beside(&["run", agent, task, "--session", session]).await;
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(
            said.err.contains("goes on from run"),
            ["second", "third"].contains(&task),
            "{}",
            said.err
        );
    }
    let bodies: Vec<String> =
        provider.requests().iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
    let has = |body: &str, words: &[&str]| words.iter().all(|word| body.contains(word));
    assert!(has(&bodies[3], &["first", "answer 1", "second", "answer 3", "third"]), "{}", bodies[3]);
    assert!(!bodies[3].contains("elsewhere"));
    // The tapes of the session's older runs are gone: the newest is whole without them.
    let newest = house.value("select run_id from runs order by started_at desc limit 1");
    for path in Tape::list(&house.home().join("tapes")).unwrap() {
        if !path.file_name().unwrap().to_str().unwrap().starts_with(newest.as_str().unwrap()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let replayed = house.run(&["replay", "latest"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
}

/// A disk that is a buffer.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Disk for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_same_loop_runs_on_a_store_in_memory_and_on_one_that_duckdb_reads() {
    let (kit, memory) = (continued(), Memory::default());
    let setup = kit.setup();
    let mut writer =
        TapeWriter::start(Path::new("memory.tape").to_owned(), memory.clone(), 0, Arc::new(redactor()))
            .unwrap();
    let identity = Identity { run_id: RunId::from_draw(1), trace_id: TraceId::new([1; 16]) };
    let started = started_fact(&setup.config, &setup.toolbox, &kit.task, identity, &mut writer).unwrap();
    let outcome = drive(&setup, started, &mut writer, &mut Unobserved).await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::Completed);
    let kept = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();

    let run = kit.run().await;
    let kinds: Vec<&str> = run.tape.lines().iter().map(|line| line.fact.kind()).collect();
    let in_memory: Vec<String> = kept
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .filter(|kind| kind != "blob" && kind != "tape")
        .collect();
    assert_eq!(in_memory, kinds);
    let house = House::new();
    let tapes = house.home().join("tapes");
    std::fs::create_dir_all(&tapes).unwrap();
    std::fs::copy(&run.path, tapes.join(run.path.file_name().unwrap())).unwrap();
    assert_eq!(house.value("select stop_reason from runs where session_id = 'foxes'"), "completed");
}
