//! Exact replay in a network namespace that has no interface but a loopback that is down.
//!
//! Such a namespace needs user namespaces, which some machines and containers forbid to everybody. There the story
//! says aloud that it was skipped. It is not made a failure in CI by itself, because no setting of ours can allow
//! it: the workflow that must not skip it sets `LOOPDECK_TEST_OFFLINE=required`.

use crate::kit::program::{House, PROGRAM, said};
use crate::replay::gallery;
use std::path::PathBuf;

/// Whether a namespace without network can be had; says so where not.
fn can_unshare(house: &House) -> bool {
    let can =
        house.command("unshare").args(["-rn", "true"]).output().is_ok_and(|output| output.status.success());
    if !can {
        let required = std::env::var("LOOPDECK_TEST_OFFLINE").as_deref() == Ok("required");
        assert!(!required, "LOOPDECK_TEST_OFFLINE=required, but `unshare -rn` is not permitted here");
        // Past the capture of the test runner, or nobody would hear it.
        let _ =
            std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("skipped: no user namespaces\n"));
    }
    can
}

fn replays_offline(house: &House, tapes: &[PathBuf]) {
    let interfaces = said(house.command("unshare").args(["-rn", "cat", "/proc/net/route", "/proc/net/dev"]));
    let ours: Vec<&str> =
        interfaces.out.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert_eq!(ours, ["lo"], "the namespace has a way out");
    let said = said(house.command("unshare").args(["-rn", PROGRAM, "replay"]).args(tapes));
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains(&format!("{0} of {0} exact", tapes.len())), "{}", said.out);
}

#[test]
fn every_tape_of_the_demo_replays_without_a_network() {
    let house = House::new();
    let demo = house.run(&["demo", "--exit"]);
    assert_eq!(demo.code, 0, "{}", demo.err);
    let tapes = trace::tape::Tape::list(&house.home().join("tapes")).unwrap();
    let reasons: Vec<_> = house
        .sql("select distinct stop_reason from runs order by 1")
        .iter()
        .map(|row| row["stop_reason"].as_str().unwrap().to_owned())
        .collect();
    for reason in ["budget_exceeded", "completed", "max_turns", "repeated_calls"] {
        assert!(reasons.iter().any(|one| one == reason), "the demo shows no {reason}: {reasons:?}");
    }
    assert!(
        house.value("select sum(tool_errors)::bigint from runs").as_u64().unwrap() > 0,
        "a tool fails in the demo"
    );
    if can_unshare(&house) {
        replays_offline(&house, &tapes);
    }
}

#[tokio::test]
async fn every_kind_of_tape_replays_without_a_network() {
    let house = House::new();
    let runs = gallery().await;
    if can_unshare(&house) {
        replays_offline(&house, &runs.iter().map(|(_, run)| run.path.clone()).collect::<Vec<_>>());
    }
}
