//! The disk under a tape, watched and filled up: intents are synced before their effects, and after a failed write
//! nothing more is done.

use crate::kit::tool::Log;
use crate::kit::{Deed, InProcess, Kit, asks, redactor, said};
use harness::agent::{Identity, started_fact};
use harness::driver::{Unobserved, drive};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use trace::id::{RunId, TraceId};
use trace::outcome::{Outcome, StopReason};
use trace::tape::{Disk, Tape, TapeError, TapeWriter};

/// A disk in memory that tells what is done to it, and that fails when it is told to.
#[derive(Debug, Clone)]
struct Watched {
    log: Log,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The append that fails, from 0, and how much of its bytes is written before.
    full_at: Option<(usize, f64)>,
    /// The sync that fails, from 0.
    lost_at: Option<usize>,
    appends: usize,
    syncs: usize,
}

impl Watched {
    fn new(full_at: Option<(usize, f64)>, lost_at: Option<usize>) -> Self {
        Self { log: Log::default(), bytes: Arc::default(), full_at, lost_at, appends: 0, syncs: 0 }
    }

    fn tell(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    fn told(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Disk for Watched {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let nth = self.appends;
        self.appends += 1;
        if let Some((_, share)) = self.full_at.filter(|(at, _)| *at == nth) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a share of a line"
            )]
            let kept = (bytes.len() as f64 * share) as usize;
            self.bytes.lock().unwrap().extend(&bytes[..kept]);
            self.tell("failed".to_owned());
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.bytes.lock().unwrap().extend(bytes);
        // Contents go to disk with the fact that names them, which comes last.
        let text = std::str::from_utf8(bytes).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        self.tell(format!(
            "append {} {}",
            line["type"].as_str().unwrap(),
            line["tool_name"].as_str().unwrap_or("")
        ));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let nth = self.syncs;
        self.syncs += 1;
        if self.lost_at == Some(nth) {
            self.tell("failed".to_owned());
            return Err(io::Error::other("the device is gone"));
        }
        self.tell("sync".to_owned());
        Ok(())
    }
}

/// A run of two turns with three side effects and a look, on this disk.
async fn run_on(disk: &Watched) -> Result<Outcome, TapeError> {
    let pay = InProcess::logging("pay", Deed::Say("paid"), disk.log.clone());
    let mail = InProcess::logging("mail", Deed::Say("sent"), disk.log.clone());
    let calls = [("a", "pay", "{}"), ("b", "look", "{}"), ("c", "mail", "{}")];
    let look = InProcess::reading("look", Deed::Say("seen"));
    let kit = Kit::new([asks(&calls), asks(&[("d", "pay", "{\"n\":2}")]), said("Done.")]);
    let kit = kit.tool(&pay).tool(&mail).tool(&look);
    let setup = kit.setup();
    let path = Path::new("watched.tape").to_owned();
    let mut writer = TapeWriter::start(path, disk.clone(), 0, Arc::new(redactor()))?;
    let identity = Identity { run_id: RunId::from_draw(1), trace_id: TraceId::new([1; 16]) };
    let started = started_fact(&setup.config, &setup.toolbox, &kit.task, identity, &mut writer)?;
    drive(&setup, started, &mut writer, &mut Unobserved).await
}

/// What is on the disk, as a tape.
fn tape_of(disk: &Watched) -> Result<Tape, TapeError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watched.tape");
    std::fs::write(&path, disk.bytes.lock().unwrap().as_slice()).unwrap();
    Tape::read(&path)
}

#[tokio::test]
async fn an_intent_is_on_disk_before_the_side_effect_begins() {
    let disk = Watched::new(None, None);
    assert_eq!(run_on(&disk).await.unwrap().stop_reason, StopReason::Completed);
    let told = disk.told();
    let mut entered = 0;
    for (at, event) in told.iter().enumerate() {
        if let Some(tool) = event.strip_prefix("enter ") {
            let before: Vec<&str> = told[..at].iter().rev().take(2).map(String::as_str).collect();
            assert_eq!(before, ["sync", &format!("append tool_started {tool}")], "{told:#?}");
            entered += 1;
        }
    }
    assert_eq!(entered, 3);
    assert_eq!(told.last().map(String::as_str), Some("append run_ended "), "sealing makes the end last");
    assert_eq!(told.iter().filter(|event| *event == "sync").count(), 3, "what only reads costs no sync");
}

#[tokio::test]
async fn on_a_full_disk_the_run_ends_with_a_clear_error_and_nothing_is_done_after_it() {
    let whole = Watched::new(None, None);
    run_on(&whole).await.unwrap();
    let appends = whole.told().iter().filter(|event| event.starts_with("append")).count();
    for at in 0..appends {
        for share in [0.0, 0.5, 1.0] {
            let disk = Watched::new(Some((at, share)), None);
            let why = run_on(&disk).await.unwrap_err().to_string();
            assert!(why.starts_with("watched.tape: cannot write to the tape:"), "{why}");
            assert_eq!(
                disk.told().last().map(String::as_str),
                Some("failed"),
                "append {at}: nothing comes after"
            );
            match tape_of(&disk) {
                Ok(tape) => assert!(tape.lines().len() <= at, "append {at} was not acknowledged"),
                Err(why) => assert!(at == 0, "append {at}: {why}"),
            }
        }
    }
    assert!(appends > 15, "{appends} appends were tried");
}

#[tokio::test]
async fn a_failed_sync_ends_the_run_before_the_side_effect() {
    for at in 0..3 {
        let disk = Watched::new(None, Some(at));
        let why = run_on(&disk).await.unwrap_err().to_string();
        assert!(why.contains("cannot sync the tape to disk: the device is gone"), "{why}");
        let told = disk.told();
        assert_eq!(told.last().map(String::as_str), Some("failed"));
        assert_eq!(told.iter().filter(|event| event.starts_with("enter")).count(), at);
        tape_of(&disk).unwrap();
    }
}
