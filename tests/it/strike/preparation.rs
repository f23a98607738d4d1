//! A stage before the run, struck at each of its places and at those of the run after it: whatever is on a tape then
//! keeps its promises and can be gone on with.

use super::proof::{Story, unsaid};
use super::world::{HOUR_NS, Strike, World};
use super::{AT_ONCE, emptied};
use crate::goal::folded;
use crate::kit::tool::hush;
use crate::kit::{Deed, InProcess, Kit, asks, said};
use crate::surface::preparing;
use harness::config::{Inject, OnFailure};
use harness::tool::{Tool as _, ToolSpec};
use std::path::Path;
use trace::outcome::{RunStatus, StopReason};
use trace::tape::Tape;

/// Cases when this was last changed.
const STRIKES: usize = 250;

const FOUND: &str = "There is a shelf.";
const DONE: &str = "Done.";

fn prepared(on_failure: OnFailure) -> Kit {
    let turns = vec![asks(&[("a", "look", "{}")]), said(FOUND), asks(&[("b", "pay", "{}")]), said(DONE)];
    preparing(turns, Inject::Both, on_failure)
        .tool(&InProcess::reading("look", Deed::After(50, "a shelf")))
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")))
}

/// The agent that a tape tells of, which has not said yet what is on none of the tapes.
fn agent_of(kit: &Kit, tape: &Tape, all: &[&Tape]) -> Kit {
    let specs: Vec<ToolSpec> =
        serde_json::from_str(tape.text(&tape.started().unwrap().tools).unwrap()).unwrap();
    let mut kit = Kit { cancel: Default::default(), ..kit.clone().say(unsaid(kit, all)) };
    kit.config = (**folded(tape).config()).clone();
    kit.tools.retain(|tool| specs.iter().any(|spec| spec.name == tool.spec().name));
    kit
}

/// What became of all runs on the tapes of a folder, those that were cut gone on with.
async fn to_their_ends(kit: &Kit, folder: &Path, what: &str) -> Vec<Story> {
    let paths = Tape::list(folder).unwrap();
    let tapes: Vec<Tape> = paths.iter().filter_map(|path| Tape::read(path).ok()).collect();
    let all: Vec<&Tape> = tapes.iter().collect();
    let mut stories = Vec::new();
    for tape in tapes.iter().filter(|tape| tape.started().is_some()) {
        let kit = agent_of(kit, tape, &all);
        let mut story = match tape.ended() {
            Some(ended) => Story::of(&kit, tape.path(), ended.outcome.clone()),
            None => gone_on(&kit, tape).await,
        };
        story.holds(what).await;
        if story.outcome.status == RunStatus::Aborted {
            story = gone_on(&kit, &story.tape).await;
            story.holds(what).await;
        }
        stories.push(story);
    }
    stories
}

async fn gone_on(kit: &Kit, tape: &Tape) -> Story {
    let outcome = World::after(kit, tape).go_on(kit, tape).await;
    let open = tape.path().with_file_name(format!("{}.tape", tape.started().unwrap().run_id));
    Story::of(kit, &open, outcome)
}

#[test]
fn a_preparation_struck_at_any_step_keeps_its_promises_as_does_the_run_after_it() {
    hush();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for on_failure in [OnFailure::Degrade, OnFailure::Stop] {
        let kit = prepared(on_failure);
        let world = World::new(&kit, Strike::Nothing);
        let whole =
            runtime.block_on(world.perform_whole(&kit, &emptied(&folder.path().join("whole")))).unwrap();
        assert_eq!(whole.outcome.answer.as_deref(), Some(DONE));
        for strike in world.places().strikes(HOUR_NS) {
            runtime.block_on(struck(on_failure, strike, &folder.path().join("struck")));
            cases += 1;
        }
    }
    println!("{cases} strikes");
    assert!(cases >= STRIKES, "only {cases} strikes, there were {STRIKES}");
}

async fn struck(on_failure: OnFailure, strike: Strike, folder: &Path) {
    let (kit, what) = (prepared(on_failure), format!("{on_failure:?}: {strike:?}"));
    let world = World::new(&kit, strike);
    let ended = world.perform_whole(&kit, &emptied(folder)).await;
    let late = world.since_cancelled().filter(|since| *since >= AT_ONCE);
    assert_eq!(late, None, "{what}: cancelled, and it went on for so long");
    if let Some(finished) = &ended {
        let usual = [StopReason::Completed, StopReason::Aborted, StopReason::ModelError];
        assert!(usual.contains(&finished.outcome.stop_reason), "{what}: {:?}", finished.outcome);
    }
    let is_whole = ended.is_some_and(|finished| finished.outcome.status == RunStatus::Completed);
    let stories = to_their_ends(&kit, folder, &what).await;
    let answer = |name: &str| {
        let of = |story: &&Story| story.tape.started().is_some_and(|started| started.agent == name);
        stories.iter().find(of).and_then(|story| story.outcome.answer.clone())
    };
    if matches!(strike, Strike::Drop(_) | Strike::Watcher(_))
        || is_whole && !matches!(strike, Strike::Piece(_))
    {
        // Gone on with or not disturbed, both come to what they come to when nothing strikes.
        for (agent, wanted) in [("story.preparation", FOUND), ("story", DONE)] {
            assert!(answer(agent).is_none_or(|answer| answer == wanted), "{what}: {:?}", answer(agent));
        }
        assert!(answer("story").is_some() || matches!(strike, Strike::Drop(_)), "{what}");
    }
    let paid = kit.tools.iter().find(|tool| tool.spec().name == "pay").map(|tool| tool.entered());
    assert!(paid.is_none_or(|times| times <= 1), "{what}: paid {paid:?} times");
}
