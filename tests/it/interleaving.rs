//! Calls side by side end in any order; the tape, and what the model is told, are the same.

use crate::kit::{Deed, InProcess, Kit, Recorded, asks, said};
use proptest::prelude::*;
use std::sync::Arc;
use trace::fact::Fact;
use trace::outcome::FaultClass;

/// R60: every order in which up to five parallel calls can end gives the same facts and the same bytes to the model.
#[tokio::test(start_paused = true)]
async fn whatever_order_parallel_calls_end_in_the_tape_and_the_wire_are_the_same() {
    let names = ["one", "two", "three", "four", "five"];
    let mut orders = 0;
    for count in 1..=names.len() {
        let calls: Vec<_> = names[..count].iter().map(|tool| (*tool, *tool, "{}")).collect();
        let mut usual = None;
        for order in permutations(count) {
            let kit = Kit::new([asks(&calls), said("All.")])
                .with(|config| config.budget.max_parallel_tool_calls = 5);
            let kit = names[..count].iter().zip(&order).fold(kit, |kit, (tool, place)| {
                kit.tool(&InProcess::reading(tool, Deed::After(10 * (1 + *place as u64), "done")))
            });
            let run = kit.run().await;
            let told: Vec<String> = run.tape.lines().iter().map(|line| essence(&line.fact)).collect();
            assert_eq!(*usual.get_or_insert_with(|| told.clone()), told, "{order:?}");
            orders += 1;
        }
    }
    assert_eq!(orders, 1 + 2 + 6 + 24 + 120);
}

/// What must not depend on who is faster.
fn essence(fact: &Fact) -> String {
    match fact {
        Fact::ModelAsked(fact) => format!("asked {} {}", fact.body_hash, fact.head),
        Fact::ToolFinished(fact) => format!("finished {} {} {}", fact.key, fact.status, fact.content),
        Fact::ToolStarted(fact) => format!("started {}", fact.key),
        fact => fact.kind().to_owned(),
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |orders, next| {
        let grown = orders.iter().flat_map(|order| {
            (0..=order.len()).map(move |at| {
                let mut order: Vec<usize> = order.clone();
                order.insert(at, next);
                order
            })
        });
        grown.collect()
    })
}

/// What a call does: it reads, it writes, or it fails; and how long it takes in each of two worlds.
type Planned = (u8, [u64; 2]);

/// A tool a call, as fast as in this world.
fn tool(name: &str, (kind, takes): &Planned, world: usize) -> Arc<InProcess> {
    let takes = Deed::After(takes[world], "done");
    match kind {
        0..=4 => InProcess::reading(name, takes),
        5 => InProcess::writing(name, takes),
        _ => InProcess::reading(name, Deed::Fail(FaultClass::Permanent)),
    }
}

fn told(run: &Recorded) -> Vec<String> {
    run.tape.lines().iter().map(|line| essence(&line.fact)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// R60, for more calls than all orders of can be tried: up to twelve, reads and writes, under any cap.
    #[test]
    fn up_to_twelve_calls_of_any_risk_leave_the_same_tape_however_long_each_takes(
        calls in prop::collection::vec((0..7_u8, prop::array::uniform2(0..4_000_u64)), 1..=12),
        cap in 1..=12_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let names: Vec<String> = (0..calls.len()).map(|index| format!("t{index}")).collect();
        let asked: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str(), "{}")).collect();
        let play = |world: usize| {
            let kit = Kit::new([asks(&asked), said("All.")])
                .with(|config| config.budget.max_parallel_tool_calls = cap);
            let kit = names.iter().zip(&calls).fold(kit, |kit, (name, call)| kit.tool(&tool(name, call, world)));
            runtime.block_on(async { kit.run().await })
        };
        let (one, other) = (play(0), play(1));
        prop_assert_eq!(told(&one), told(&other));
        let keys: Vec<u32> = one.results().iter().map(|result| result.key.index).collect();
        prop_assert!(keys.is_sorted() && keys.len() == calls.len(), "{:?}", keys);
    }
}
