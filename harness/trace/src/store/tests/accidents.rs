//! Killed, torn, broken and full: what survives and what is told.

use super::{home, otlp, trace};
use crate::home::Home;
use crate::inbox::Inbox;
use crate::lock::LockError;
use crate::store::{Store, StoreError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names the home that a child of these tests works on.
const CHILD_HOME: &str = "LOOPDECK_TEST_HOME";

fn child(home: &Home) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::accidents::child_that_indexes", "--ignored", "--nocapture"])
        .env(CHILD_HOME, home.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "started as a process of its own by the tests below"]
fn child_that_indexes() {
    let home = Home::open(std::env::var(CHILD_HOME).unwrap().into()).unwrap();
    let store = Store::open(&home).unwrap();
    println!("\nopen");
    loop {
        store.catch_up().unwrap();
        println!("caught up");
    }
}

fn wait_for(child: &mut std::process::Child, word: &str) {
    let out = BufReader::new(child.stdout.take().unwrap());
    assert!(out.lines().map_while(Result::ok).any(|line| line == word), "the child never said {word}");
}

#[test]
fn two_processes_never_open_one_database() {
    let (_folder, home) = home();
    let mut other = child(&home);
    let id = other.id();
    wait_for(&mut other, "open");
    match Store::open(&home) {
        Err(StoreError::Lock(LockError::Held { holder, .. })) => {
            assert!(holder.contains(&id.to_string()), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    other.kill().unwrap();
    other.wait().unwrap();
    Store::open_within(&home, Duration::from_secs(5)).unwrap();
}

#[test]
fn a_kill_at_any_moment_leaves_an_index_that_goes_on_where_it_was() {
    let (_folder, home) = home();
    let inbox = Inbox::new(&home);
    for round in 0..12_u8 {
        for number in 0..40 {
            inbox.append(&otlp(trace(round * 20 + number % 20))).unwrap();
        }
        let mut victim = child(&home);
        std::thread::sleep(Duration::from_millis(15 * u64::from(round)));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let store = Store::open_within(&home, Duration::from_secs(5)).unwrap();
        store.catch_up().unwrap();
        let twice = store.query("select count(*), count(distinct span_id) from span", &[], 1).unwrap();
        let wanted = (u64::from(round) + 1) * 20 * 6;
        assert_eq!(
            serde_json::json!(twice.rows),
            serde_json::json!([[wanted, wanted]]),
            "after kill {round}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_named_and_stops_nothing() {
    let (_folder, home) = home();
    let path = Inbox::new(&home).append(&otlp(trace(1))).unwrap().path;
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"blake3\":\"broken\n").unwrap();
    std::fs::write(home.tapes().join("bad.tape"), "this is no tape\n").unwrap();
    Inbox::new(&home).append(&otlp(trace(2))).unwrap();
    let store = Store::open(&home).unwrap();
    for _ in 0..2 {
        let indexed = store.catch_up().unwrap();
        let told: Vec<String> = indexed.unreadable.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().any(|one| one.contains("bad.tape")), "{told:?}");
        assert!(told.iter().any(|one| one.contains(", line 2: is no log line")), "{told:?}");
    }
    assert_eq!(store.query("from spans", &[], 100).unwrap().rows.len(), 12);
    // A tape that is mended is read again, and its complaint is gone.
    std::fs::remove_file(home.tapes().join("bad.tape")).unwrap();
}

#[test]
fn a_database_that_is_none_says_how_to_get_a_new_one() {
    let (_folder, home) = home();
    Inbox::new(&home).append(&otlp(trace(1))).unwrap();
    std::fs::write(home.database(), "garbage".repeat(1000)).unwrap();
    let told = Store::open(&home).unwrap_err().to_string();
    assert!(told.contains("doctor --rebuild") && told.contains("loopdeck.duckdb"), "{told}");
    assert_eq!(Store::rebuild(&home).unwrap().1.spans, 6);
}
