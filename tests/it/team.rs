//! Agents as tools: runs of their own within the caller's budget, trace and life.

use crate::kit::{Deed, InProcess, Kit, Recorded, asks, assert_exact, checked, said};
use crate::reseal::OpenLines;
use harness::config::{ToolTable, Verdict};
use harness::model::scripted::ScriptTurn;
use harness::tool::{Effect, Risk};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trace::fact::{Fact, RunStarted, ToolFinished, ToolStarted};
use trace::message::Usage;
use trace::outcome::{StopReason, ToolStatus};
use trace::tape::Tape;

/// A tool that is an agent.
pub(crate) fn table(name: &str) -> ToolTable {
    ToolTable {
        name: name.to_owned(),
        description: "Helps with a task.".to_owned(),
        agent: Some(PathBuf::from("helper.toml")),
        ..ToolTable::default()
    }
}

pub(crate) fn side_by_side(name: &str) -> ToolTable {
    ToolTable { risk: Some(Risk::Read), effect: Some(Effect::Pure), ..table(name) }
}

pub(crate) const ORDER: &str = "{\"task\":\"Count the foxes.\"}";

pub(crate) fn helper() -> Kit {
    Kit::new([asks(&[("x", "look", "{}")]), said("Three.")])
        .tool(&InProcess::reading("look", Deed::Say("a fox")))
        .with(|config| "helper".clone_into(&mut config.agent.name))
}

/// A run that has another count for it.
pub(crate) fn helped() -> Kit {
    Kit::new([asks(&[("a", "count", ORDER)]), said("There are three.")]).agent(table("count"), helper())
}

/// A run whose process died just after its first call began, and that went on; the part that the call was has its tape.
pub(crate) async fn died_at_work(kit: &Kit) -> Recorded {
    let run = kit.run().await;
    let sealed = OpenLines::read(&run.path).sealed();
    let started = sealed.lines().position(|line| line.contains("\"type\":\"tool_started\"")).unwrap();
    let died: Vec<&str> = sealed.lines().take(started + 1).collect();
    std::fs::remove_file(&run.path).unwrap();
    let path = run.folder.path().join("died.tape");
    std::fs::write(&path, died.join("\n") + "\n").unwrap();
    let finished = kit.go_on(&path, kit.turns[1..].to_vec(), None).await.unwrap();
    let tape = Arc::new(checked(&finished.tape));
    assert_exact(&tape).await;
    Recorded { outcome: finished.outcome, tape, path: finished.tape, ..run }
}

/// The tapes of the parts of a run.
fn parts(run: &Recorded) -> Vec<Tape> {
    let tapes = Tape::list(run.folder.path()).unwrap();
    let tapes = tapes.iter().filter(|path| **path != run.path).map(|path| checked(path));
    let mut tapes: Vec<Tape> = tapes.collect();
    tapes.sort_by_key(|tape| tape.lines()[0].at_ns);
    tapes
}

fn begun(tape: &Tape) -> &RunStarted {
    tape.started().unwrap()
}

fn announced(run: &Recorded) -> Vec<&ToolStarted> {
    let facts = run.tape.lines().iter().map(|line| &line.fact);
    facts.filter_map(|fact| if let Fact::ToolStarted(fact) = fact { Some(fact) } else { None }).collect()
}

#[tokio::test]
async fn an_agent_is_a_tool_with_a_tape_of_its_own_in_the_same_trace() {
    let run = helped().run().await;
    assert_eq!(run.outcome.answer.as_deref(), Some("There are three."));
    let [part] = &parts(&run)[..] else { panic!("one part") };
    let (parent, child) = (begun(&run.tape), begun(part));
    assert_eq!((child.task.as_str(), child.agent.as_str()), ("Count the foxes.", "helper"));
    assert_eq!((child.trace_id, child.parent_run_id.as_ref()), (parent.trace_id, Some(&parent.run_id)));
    let spans = trace::span::from_tape(&run.tape);
    let call = spans.iter().find(|span| span.name == "execute_tool count").unwrap();
    assert_eq!(child.parent_span_id, Some(call.span_id));
    let [result] = run.results()[..] else { panic!("one call") };
    assert_eq!((result.status, result.content.as_str()), (ToolStatus::Ok, "Three."));
    let told = result.child.as_ref().unwrap();
    assert_eq!((&told.run_id, told.stop_reason, told.tool_calls), (&child.run_id, StopReason::Completed, 1));
    assert_eq!(told.usage.total(), Some(240));
    assert_eq!(call.attributes["loopdeck.tool.child_run_id"], child.run_id.as_str());
}

#[tokio::test]
async fn an_agent_that_policy_wants_in_a_sandbox_is_not_run() {
    let run = helped().with(|config| config.policy.execute = Verdict::Sandbox).run().await;
    let (result, told) = only(&run);
    assert_eq!((result.status, told["error"].as_str()), (ToolStatus::Denied, Some("permission_denied")));
    assert_eq!(parts(&run).len(), 0);
}

fn only(run: &Recorded) -> (&ToolFinished, serde_json::Value) {
    let result = run.results()[0];
    (result, serde_json::from_str(&result.content).unwrap())
}

#[tokio::test]
async fn a_part_that_does_not_complete_says_why_and_hands_back_what_it_has() {
    let kit = Kit::new(helped().turns)
        .agent(table("count"), helper().with(|config| config.budget.max_model_turns = 1));
    let run = kit.run().await;
    let (result, told) = only(&run);
    assert_eq!(result.status, ToolStatus::Error);
    assert_eq!((&told["error"], &told["stop_reason"]), (&"not_completed".into(), &"max_turns".into()));
    assert_eq!(told["partial_answer"], "let me see");
    assert_eq!(run.outcome.stop_reason, StopReason::Completed, "the caller goes on");
    assert_eq!(result.child.as_ref().unwrap().stop_reason, StopReason::MaxTurns);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_caller_ends_its_parts_with_their_tapes_whole() {
    let stuck = Kit::new([asks(&[("x", "wait", "{}")])]).tool(&InProcess::reading("wait", Deed::Hang));
    let kit = Kit::new(helped().turns).agent(table("count"), stuck);
    let later = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        kit.cancel.cancel();
    };
    let (run, ()) = tokio::join!(kit.run(), later);
    assert_eq!(run.outcome.stop_reason, StopReason::Aborted);
    assert_eq!(run.results()[0].status, ToolStatus::Cancelled);
    let [part] = &parts(&run)[..] else { panic!("one part") };
    assert_eq!(part.ended().unwrap().outcome.stop_reason, StopReason::Aborted);
}

#[tokio::test(start_paused = true)]
async fn a_part_has_no_more_time_than_its_caller_has_left() {
    let stuck = Kit::new([asks(&[("x", "wait", "{}")])]).tool(&InProcess::reading("wait", Deed::Hang));
    let kit = Kit::new(helped().turns)
        .agent(table("count"), stuck)
        .with(|config| config.budget.max_wall_time_seconds = 2);
    let run = kit.run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::Timeout);
    let [part] = &parts(&run)[..] else { panic!("one part") };
    assert!(begun(part).limits["wall_ms"] <= 2000.0, "{:?}", begun(part).limits);
}

#[tokio::test]
async fn calls_side_by_side_share_what_is_left() {
    let kit = Kit::new([asks(&[("a", "count", ORDER), ("b", "count", ORDER)]), said("Six.")])
        .agent(side_by_side("count"), Kit::new([said("Three."), said("Three.")]))
        .with(|config| {
            config.budget.max_total_tokens = Some(1000);
            config.budget.max_tool_calls = 10;
        });
    let run = kit.run().await;
    // 120 of 1000 are used by the first turn, 2 of 10 calls by these.
    for one in announced(&run) {
        let allowance = one.allowance.as_ref().unwrap();
        assert_eq!((allowance["tokens"], allowance["tool_calls"]), (440.0, 4.0));
    }
    assert_eq!(parts(&run).iter().filter(|part| begun(part).limits["tokens"] == 440.0).count(), 2);
}

/// An answer that costs what was reserved for it: 20 tokens of output, and fewer of input than its text has.
fn costs(turn: ScriptTurn) -> ScriptTurn {
    let ScriptTurn::Answer(mut response) = turn else { return turn };
    response.usage = Usage { input_tokens: Some(5), output_tokens: Some(20), ..Usage::default() };
    ScriptTurn::Answer(response)
}

fn tokens(tape: &Tape) -> u64 {
    tape.ended().unwrap().outcome.usage.total().unwrap_or(0)
}

#[tokio::test]
async fn whatever_the_budget_a_run_and_its_parts_stay_within_it() {
    for tables in [table, side_by_side] {
        for budget in (0..400).step_by(13) {
            let reserves = |config: &mut harness::config::AgentConfig| {
                config.model.max_output_tokens = Some(21);
                config.budget.reserve = Some(true);
            };
            let part = || {
                let turns = (0..9).map(|n| asks(&[("x", "look", &format!("{{\"n\":{n}}}"))])).map(costs);
                Kit::new(turns).tool(&InProcess::reading("look", Deed::Say("a fox"))).with(reserves)
            };
            let both = asks(&[("a", "count", ORDER), ("b", "other", ORDER)]);
            let kit = Kit::new([costs(both.clone()), costs(both), costs(said("Done."))])
                .agent(tables("count"), part())
                .agent(tables("other"), part())
                .with(reserves)
                .with(|config| config.budget.max_total_tokens = Some(budget));
            let run = kit.run().await;
            let spent = tokens(&run.tape) + parts(&run).iter().map(tokens).sum::<u64>();
            assert!(spent <= budget, "{spent} of {budget} tokens");
            let told: u64 = run.results().iter().filter_map(|one| one.child.as_ref()?.usage.total()).sum();
            assert_eq!(told, spent - tokens(&run.tape), "what the parts used up is settled");
            if budget == 0 {
                assert_eq!((run.requests, run.outcome.turns), (0, 0), "0 means 0");
            }
        }
    }
}

#[tokio::test]
async fn parts_of_parts_are_counted() {
    let middle =
        Kit::new([asks(&[("m", "count", ORDER)]), said("Three, I hear.")]).agent(table("count"), helper());
    let run =
        Kit::new([asks(&[("a", "ask", ORDER)]), said("Three.")]).agent(table("ask"), middle).run().await;
    let told = run.results()[0].child.as_ref().unwrap();
    assert_eq!((told.usage.total(), told.tool_calls), (Some(480), 2));
    assert_eq!(parts(&run).len(), 2);
}

#[tokio::test]
async fn tool_calls_of_parts_count_against_the_caller() {
    let busy = || {
        let turns = (0..9).map(|n| asks(&[("x", "look", &format!("{{\"n\":{n}}}"))]));
        Kit::new(turns).tool(&InProcess::reading("look", Deed::Say("a fox")))
    };
    let kit = Kit::new([asks(&[("a", "count", ORDER)]), said("Done.")])
        .agent(table("count"), busy())
        .with(|config| config.budget.max_tool_calls = 4);
    let run = kit.run().await;
    let [part] = &parts(&run)[..] else { panic!("one part") };
    assert_eq!(begun(part).limits["tool_calls"], 3.0);
    let ran = part.lines().iter().filter(|line| line.fact.kind() == "tool_started").count();
    assert_eq!(ran, 3);
}

#[tokio::test]
async fn the_program_names_the_parts_of_a_run_and_an_agent_that_has_itself_as_a_tool_is_refused() {
    let house = crate::kit::program::House::new();
    let provider = loopback::Loopback::start(loopback::by_model(std::collections::BTreeMap::from([
        ("big".to_owned(), vec![asks(&[("a", "count", ORDER)]).into(), said("There are three.").into()]),
        ("small".to_owned(), vec![said("Three.").into()]),
    ])))
    .await
    .unwrap();
    let url = provider.base_url();
    house.file(
        "helper.toml",
        format!(
            "[agent]\nname = \"counter\"\n[model]\nname = \"small\"\nkey_env = \"\"\nbase_url = \"{url}\"\n"
        ),
    );
    let text = format!(
        "[model]\nname = \"big\"\nkey_env = \"\"\nbase_url = \"{url}\"\n\
         [[tool]]\nname = \"count\"\ndescription = \"Counts.\"\nagent = \"helper.toml\"\n"
    );
    let agent = house.file("agent.toml", &text);
    let said = house.run_beside(&["run", agent.to_str().unwrap(), "How many?"]).await;
    assert_eq!((said.code, said.out.trim()), (0, "There are three."), "{}", said.err);
    let shown = house.run(&["show", "latest"]);
    assert!(shown.out.contains("part: run ") && shown.out.contains("counter: completed"), "{}", shown.out);
    let replayed = house.run(&["replay", "latest"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert_eq!(house.value("select count(distinct trace_id) from runs"), 1);
    assert_eq!(house.value("select count(*) from runs where parent_run_id is not null"), 1);

    let own = house.file("own.toml", text.replace("helper.toml", "own.toml"));
    let said = house.run(&["run", own.to_str().unwrap(), "How many?"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("max_agent_depth") && said.err.contains("itself"), "{}", said.err);
}
