//! Faults at every place: each scenario is struck at each of its steps, and its promises must hold each time.
//!
//! A strike is a cancellation, a driver that is dropped, a panic in a watcher, a transport or a tool, a clock that
//! jumps, a disk that fails, or a kill, which leaves the tape up to any line, whole or torn. [`world`] strikes,
//! [`proof`] says what must hold. Time stands still while nothing waits, so thousands of runs take seconds.

mod part;
mod preparation;
mod proof;
mod world;

use crate::kit::tool::hush;
use crate::kit::{Deed, InProcess, Kit, asks, said};
use crate::scenario::{Scenario, all};
use harness::model::NAMES;
use part::{Parts, forget_what_had_not_begun};
use proof::Story;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use trace::fact::Fact;
use trace::outcome::{Outcome, RunStatus, StopReason};
use trace::tape::{Tape, TapeError};
use world::{HOUR_NS, Places, Strike, World};

/// How soon a run ends that is cancelled, by the clock that stands still while nothing waits.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Cases when this was last changed; fewer means that a place is no longer reached.
const STRIKES: usize = 7_000;
/// The same of answers that were cut.
const CUTS: usize = 2_000;
/// The same of kills.
const KILLS: usize = 2_300;

/// Runs this for each scenario, on all cores, each on a paused clock and in a folder of its own.
fn for_each_scenario<F: Future<Output = usize>>(
    strike: impl Fn(Scenario, std::path::PathBuf) -> F + Sync,
) -> usize {
    let (next, count, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let scenarios = all();
    hush();
    std::thread::scope(|scope| {
        let work = || {
            while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::SeqCst)) {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .unwrap();
                let folder = tempfile::tempdir().unwrap();
                let case = std::panic::AssertUnwindSafe(|| {
                    runtime.block_on(strike(*scenario, folder.path().to_owned()))
                });
                match std::panic::catch_unwind(case) {
                    Ok(cases) => _ = count.fetch_add(cases, Ordering::SeqCst),
                    Err(_) => failed.lock().unwrap().push(scenario.name),
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        (0..cores).for_each(|_| _ = scope.spawn(work));
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "these broke a promise, see above: {failed:?}");
    count.into_inner()
}

/// The scenario as it goes when nothing strikes, and the places where something can.
async fn unstruck(scenario: Scenario, folder: &Path) -> (Story, Places) {
    let kit = (scenario.kit)();
    let world = World::new(&kit, Strike::Nothing);
    let path = emptied(&folder.join("whole")).join("run.tape");
    let outcome = perform(scenario, &world, &kit, &path).await.unwrap().unwrap();
    assert_eq!(outcome.stop_reason, scenario.stop, "{}: {outcome:?}", scenario.name);
    let story = Story::of(&kit, &path, outcome);
    story.holds(scenario.name).await;
    (story, world.places())
}

/// Runs the scenario in this world; where it waits for somebody who comes later, that process ends and another goes on.
async fn perform(
    scenario: Scenario,
    world: &World,
    kit: &Kit,
    path: &Path,
) -> Option<Result<Outcome, TapeError>> {
    let ended = world.perform(kit, path).await;
    match &ended {
        Some(Ok(outcome)) if outcome.status == RunStatus::Paused && scenario.is_answered_later() => {
            world.come_back(kit, path).await.map(Ok)
        }
        _ => ended,
    }
}

/// A folder with nothing in it.
fn emptied(folder: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).unwrap();
    folder.to_owned()
}

/// Goes on with a tape to its end in another world, where nothing strikes.
async fn go_on(scenario: Scenario, kit: &Kit, path: &Path) -> Option<Story> {
    let mut tape = Tape::read(path).ok().filter(|tape| tape.started().is_some())?;
    loop {
        let rest = proof::unsaid(kit, &[&tape]);
        let kit = Kit { cancel: Default::default(), ..kit.clone().say(rest) };
        let outcome = World::after(&kit, &tape).go_on(&kit, &tape).await;
        if outcome.status != RunStatus::Paused || !scenario.is_answered_later() {
            return Some(Story::of(&kit, path, outcome));
        }
        tape = Tape::read(path).unwrap();
    }
}

#[test]
fn a_run_struck_at_any_step_keeps_its_promises_and_goes_on_as_if_nothing_had_been() {
    let cases = for_each_scenario(|scenario, folder| async move {
        let (whole, places) = unstruck(scenario, &folder).await;
        let mut cases = 0;
        for strike in places.strikes(HOUR_NS) {
            let what = format!("{}: {strike:?}", scenario.name);
            let path = emptied(&folder.join("struck")).join("run.tape");
            let kit = (scenario.kit)();
            let world = World::new(&kit, strike);
            let ended = perform(scenario, &world, &kit, &path).await;
            let late = world.since_cancelled().filter(|since| *since >= AT_ONCE);
            assert_eq!(late, None, "{what}: cancelled, and it went on for so long");
            match ended {
                Some(Ok(outcome)) => {
                    let story = Story::of(&kit, &path, outcome);
                    story.holds(&what).await;
                    ended_well(&whole, &story, strike, &what);
                    if story.outcome.stop_reason == StopReason::Aborted {
                        let again = go_on(scenario, &kit, &path).await.unwrap();
                        again.holds(&what).await;
                        let same = scenario.stop != StopReason::Completed
                            || again.outcome.answer == whole.outcome.answer;
                        assert!(same, "{what}: {:?}", again.outcome);
                    }
                }
                // Dropped, or its disk failed: another process goes on with what is on the tape.
                _ => match go_on(scenario, &kit, &path).await {
                    Some(story) => {
                        story.holds(&what).await;
                        whole.is_told_by(&story, &what);
                    }
                    None => assert_eq!(kit.tools.iter().map(|tool| tool.entered()).sum::<u32>(), 0, "{what}"),
                },
            }
            cases += 1;
        }
        cases
    });
    println!("{cases} strikes");
    assert!(cases >= STRIKES, "only {cases} strikes, there were {STRIKES}: a place is no longer reached");
}

/// How a run that came to its end may end under this strike.
fn ended_well(whole: &Story, story: &Story, strike: Strike, what: &str) {
    let (reason, usual) = (story.outcome.stop_reason, whole.outcome.stop_reason);
    match strike {
        // A watcher changes nothing, nor does a clock that was set back.
        Strike::Watcher(_) => whole.is_told_by(story, what),
        Strike::Clock(_, by) if by < 0 => whole.is_told_by(story, what),
        Strike::Clock(..) => {
            let no_time = reason == StopReason::Timeout || story.outcome.trigger == "retry_beyond_wall_time";
            assert!(reason == usual || no_time, "{what}: {:?}", story.outcome);
        }
        Strike::Cancel(_) | Strike::CancelAt(_) => {
            assert!([usual, StopReason::Aborted].contains(&reason), "{what}: {reason}");
        }
        // The answer may have been that of a part, or a summary: then the run goes on without it.
        Strike::Piece(_) if whole.has_side_calls() => {
            let without_it = [usual, StopReason::ModelError, StopReason::Completed];
            assert!(without_it.contains(&reason), "{what}: {reason}");
        }
        Strike::Piece(_) => assert_eq!(reason, StopReason::ModelError, "{what}"),
        Strike::Tool(_) => assert_ne!(reason, StopReason::Unknown, "{what}"),
        Strike::Nothing | Strike::Drop(_) | Strike::Disk(_) | Strike::Body(..) => {
            panic!("{what}: it cannot have come to its end")
        }
    }
}

#[test]
fn together_the_scenarios_have_every_kind_of_fact() {
    let source = include_str!("../../harness/trace/src/fact.rs");
    let told = source.lines().filter_map(|line| line.split_once("(_) => \"")?.1.strip_suffix("\","));
    let all: BTreeSet<&str> = told.collect();
    assert!(all.len() >= 14, "{all:?}");
    let seen = Mutex::new(BTreeSet::new());
    for_each_scenario(|scenario, folder| {
        let seen = &seen;
        async move {
            let (whole, _) = unstruck(scenario, &folder).await;
            seen.lock().unwrap().extend(whole.tape.lines().iter().map(|line| line.fact.kind()));
            1
        }
    });
    assert_eq!(seen.into_inner().unwrap(), all);
}

/// A call and then text, so that there is something to run and something after it.
fn asked_on(wire: &str, stream: bool) -> Kit {
    let call = asks(&[("a", "pay", "{\"n\":1}")]);
    let kit =
        Kit::new([call.clone(), call, said("Paid.")]).tool(&InProcess::writing("pay", Deed::Say("paid")));
    kit.with(|config| {
        wire.clone_into(&mut config.model.wire);
        config.model.stream = stream;
    })
}

#[test]
fn an_answer_cut_at_any_byte_is_asked_for_again_on_every_wire_and_no_half_call_is_run() {
    hush();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for (wire, stream) in NAMES.into_iter().flat_map(|wire| [(wire, true), (wire, false)]) {
        let (body, _) =
            runtime.block_on(cut_body(wire, stream, Strike::Body(usize::MAX, false), folder.path()));
        for bytes in 0..body {
            for breaks in [false, true] {
                // A broken connection and a cut object are found whatever came before: fewer places are enough.
                if (breaks || !stream) && bytes % 16 != 0 {
                    continue;
                }
                let strike = Strike::Body(bytes, breaks);
                let (_, attempts) = runtime.block_on(cut_body(wire, stream, strike, folder.path()));
                assert!(attempts == 2 || !breaks, "{wire}: {strike:?}: taken for whole");
                cases += 1;
            }
        }
    }
    println!("{cases} cuts");
    assert!(cases >= CUTS, "only {cases} cuts, there were {CUTS}");
}

/// The length of the first answer, and how often the first turn was asked for.
async fn cut_body(wire: &str, stream: bool, strike: Strike, folder: &Path) -> (usize, u32) {
    let what = format!("{wire}, streamed {stream}: {strike:?}");
    let (kit, path) = (asked_on(wire, stream), folder.join("cut.tape"));
    let outcome = World::new(&kit, strike).perform(&kit, &path).await.unwrap().unwrap();
    let tape = Tape::read(&path).unwrap();
    let mut answers = tape.lines().iter().filter_map(|line| match &line.fact {
        Fact::ModelAnswered(fact) if fact.turn == 1 => Some(fact),
        _ => None,
    });
    let first = answers.next().unwrap();
    let attempts = 1 + u32::try_from(answers.count()).unwrap();
    assert!(attempts == 1 || first.response.is_none(), "{what}: half an answer was taken");
    // Two calls where the first answer was taken for whole, as its missing bytes said nothing; else one.
    let calls: Vec<String> = tape
        .lines()
        .iter()
        .filter_map(|line| {
            if let Fact::ToolStarted(fact) = &line.fact { Some(fact.arguments.clone()) } else { None }
        })
        .collect();
    let wanted = if attempts == 1 { 2 } else { 1 };
    assert_eq!(calls, vec!["{\"n\":1}"; wanted], "{what}: a call that was not asked for");
    assert_eq!(
        (outcome.stop_reason, kit.tools[0].entered() as usize),
        (StopReason::Completed, wanted),
        "{what}"
    );
    let body = first.body.and_then(|hash| tape.blob(&hash).map(<[u8]>::len));
    if tape.lines().len().is_multiple_of(5) {
        Story::of(&kit, &path, outcome).holds(&what).await;
    }
    (body.unwrap_or(0), attempts)
}

#[test]
fn a_run_killed_after_any_line_whole_or_torn_goes_on_as_if_nothing_had_been() {
    let cases = for_each_scenario(|scenario, folder| async move {
        let (whole, _) = unstruck(scenario, &folder).await;
        let text = std::fs::read_to_string(whole.tape.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let parts = Parts::of(&whole);
        let path = folder.join("killed").join("run.tape");
        let mut cases = 0;
        for kept in 1..lines.len() {
            // The last line whole, torn at its beginning, or torn in its middle: one after the other.
            let tail = match kept % 3 {
                0 => "",
                1 => "{\"seq\":",
                _ => &lines[kept][..lines[kept].len() / 2],
            };
            let text = format!("{}\n{tail}", lines[..kept].join("\n"));
            let what = format!("{}: killed after line {kept}, then {} bytes", scenario.name, tail.len());
            std::fs::write(emptied(&folder.join("killed")).join("run.tape"), &text).unwrap();
            for left in 0..parts.ways(&path) {
                let what = format!("{what}, parts after line {left}");
                std::fs::write(emptied(&folder.join("killed")).join("run.tape"), &text).unwrap();
                parts.leave(&path, left);
                let kit = (scenario.kit)();
                let Some(story) = go_on(scenario, &kit, &path).await else { continue };
                story.holds(&what).await;
                whole.is_told_by(&story, &what);
                cases += 1 + killed_again(scenario, &whole, &story, kept, &what).await;
            }
        }
        cases
    });
    println!("{cases} kills");
    assert!(cases >= KILLS, "only {cases} kills, there were {KILLS}: a place is no longer reached");
}

/// The second process dies too, at a line of its own: a third one goes on.
async fn killed_again(scenario: Scenario, whole: &Story, story: &Story, kept: usize, what: &str) -> usize {
    let text = std::fs::read_to_string(story.tape.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let again = kept + 1 + kept % (lines.len() - kept).max(2);
    if again >= lines.len() {
        return 0;
    }
    let path = story.tape.path();
    std::fs::write(path, lines[..again].join("\n") + "\n{").unwrap();
    forget_what_had_not_begun(path);
    let kit = (scenario.kit)();
    let what = format!("{what}, and again after line {again}");
    let Some(story) = go_on(scenario, &kit, path).await else { return 0 };
    story.holds(&what).await;
    whole.is_told_by(&story, &what);
    1
}
