//! Tools that are given earlier results by name, tools that see the run they are called in, and tools that a run
//! does not see. Every run is replayed exactly.

use crate::kit::{Kit, asks, assert_exact, checked, said, studio};
use harness::agent::{Agent, Finished};
use harness::driver::Unobserved;
use harness::model::{Model, wire};
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Tool, Toolbox};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trace::fact::{Fact, ToolFinished};
use trace::outcome::{StopReason, ToolStatus};
use trace::tape::Tape;

/// What a tool was given, call by call.
type Given = Arc<Mutex<Vec<Value>>>;

/// A tool with a side effect that remembers what it was given.
fn paying(given: &Given) -> Typed {
    let given = given.clone();
    Typed::new("pay", "Pays.", Risk::Write, Effect::AtMostOnce, move |order: Value, _| {
        given.lock().unwrap().push(order);
        async { Ok("paid".to_owned()) }
    })
}

/// A tool whose result is far longer than what the model is shown.
fn listing() -> Typed {
    Typed::new("list", "Lists.", Risk::Read, Effect::Pure, |_: Value, _| async {
        Ok(json!({"b": "x".repeat(500), "a": [1, 2]}))
    })
}

fn agent(kit: &Kit, tools: Vec<Typed>) -> Agent {
    let mut toolbox = Toolbox::default();
    tools.into_iter().for_each(|tool| toolbox.add(Arc::new(tool) as Arc<dyn Tool>).unwrap());
    let config = Arc::new(kit.config.clone());
    let model = Model {
        provider: "scripted".to_owned(),
        wire: wire(&config.model.wire).unwrap(),
        transport: kit.scripted(),
    };
    let tiers = harness::driver::Tiers::new();
    Agent { config, toolbox: Arc::new(toolbox), model, tiers, person: None }
}

async fn ran(kit: &Kit, agent: &Agent) -> (Finished, Arc<Tape>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let finished = agent
        .run(kit.task.clone(), &studio(folder.path()), kit.cancel.clone(), &mut Unobserved)
        .await
        .unwrap();
    let tape = Arc::new(checked(&finished.tape));
    assert_exact(&tape).await;
    (finished, tape, folder)
}

fn results(tape: &Tape) -> Vec<ToolFinished> {
    let facts = tape.lines().iter().map(|line| &line.fact);
    facts
        .filter_map(|fact| if let Fact::ToolFinished(fact) = fact { Some((**fact).clone()) } else { None })
        .collect()
}

fn referring(turns: &[(&str, &str)]) -> Kit {
    let turns = turns.iter().map(|(tool, arguments)| asks(&[("c", tool, arguments)])).chain([said("Done.")]);
    Kit::new(turns.collect::<Vec<_>>()).with(|config| {
        config.loop_.references = true;
        config.budget.max_tool_result_chars = 100;
    })
}

#[tokio::test]
async fn a_tool_is_given_the_whole_result_and_the_conversation_keeps_its_name() {
    let kit = referring(&[("list", "{}"), ("pay", r#"{"what":"$$r1","note":"see $$r1"}"#)]);
    let given = Given::default();
    let (finished, tape, _folder) = ran(&kit, &agent(&kit, vec![paying(&given), listing()])).await;
    assert_eq!(finished.outcome.stop_reason, StopReason::Completed);
    let listed = json!({"a": [1, 2], "b": "x".repeat(500)});
    let note = format!(r#"see {{"a":[1,2],"b":"{}"}}"#, "x".repeat(500));
    assert_eq!(
        *given.lock().unwrap(),
        [json!({"what": listed, "note": note})],
        "whole, though it was shown cut"
    );
    let results = results(&tape);
    assert!(results[0].content.starts_with("$$r1 = "), "{}", results[0].content);
    assert!(results[0].content.len() < 300, "shown cut: {}", results[0].content);
    assert_eq!(results[1].arguments, r#"{"note":"see $$r1","what":"$$r1"}"#, "the tape keeps the name");
    let given = trace::canonical::canonical(&json!({"what": listed, "note": note}));
    assert_eq!(
        results[1].args_hash,
        trace::canonical::args_hash("pay", &given),
        "the hash is of what was given"
    );
}

#[tokio::test]
async fn a_name_of_no_result_is_invalid_arguments_and_nothing_is_done() {
    let kit = referring(&[("pay", r#"{"what":"$$r1"}"#), ("pay", r#"{"what":"$$total"}"#)]);
    let given = Given::default();
    let (_, tape, _folder) = ran(&kit, &agent(&kit, vec![paying(&given)])).await;
    assert_eq!(*given.lock().unwrap(), [Value::Null; 0]);
    for result in results(&tape) {
        assert_eq!(result.status, ToolStatus::Error);
        assert!(result.content.contains("invalid_arguments"), "{}", result.content);
    }
}

#[tokio::test]
async fn names_are_known_after_a_run_went_on_in_another_process() {
    let kit = referring(&[("list", "{}"), ("pay", r#"{"what":"$$r1"}"#)]);
    let given = Given::default();
    let stopped = kit.clone().with(|config| config.budget.max_model_turns = 1);
    let (finished, tape, folder) = ran(&stopped, &agent(&stopped, vec![paying(&given), listing()])).await;
    assert_eq!(finished.outcome.stop_reason, StopReason::MaxTurns);
    let rest = kit.clone().say(kit.turns[1..].to_vec());
    let again = agent(&rest, vec![paying(&given), listing()]);
    let budget = Some(kit.config.budget.clone());
    let finished = again
        .resume(&tape, budget, &studio(folder.path()), kit.cancel.clone(), &mut Unobserved)
        .await
        .unwrap();
    assert_eq!(finished.outcome.stop_reason, StopReason::Completed);
    assert_eq!(given.lock().unwrap()[0]["what"]["a"], json!([1, 2]));
    assert_exact(&Arc::new(checked(&finished.tape))).await;
}

#[tokio::test]
async fn a_tool_sees_the_run_it_is_called_in_while_it_is_called() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = seen.clone();
    let looking = Typed::new("look", "Looks.", Risk::Read, Effect::Pure, move |_: Value, permit| {
        let run = permit.situation().unwrap();
        let names: Vec<&String> = run.references().keys().collect();
        heard.lock().unwrap().push(format!(
            "{} turn {} messages {} references {names:?}",
            run.run_id(),
            run.turn(),
            run.messages().len()
        ));
        async { Ok("seen".to_owned()) }
    })
    .in_situation();
    let blind = Typed::new("blind", "Sees nothing.", Risk::Read, Effect::Pure, |_: Value, permit| {
        let sees = permit.situation().is_some();
        async move { Ok(sees) }
    });
    let kit = referring(&[("look", "{}"), ("look", r#"{"n":2}"#), ("blind", "{}")]);
    let (finished, tape, _folder) = ran(&kit, &agent(&kit, vec![looking, blind])).await;
    let run = &finished.run_id;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            format!("{run} turn 1 messages 3 references []"),
            format!("{run} turn 2 messages 5 references [\"$$r1\"]")
        ]
    );
    assert_eq!(results(&tape)[2].content, "$$r3 = false");
}

#[tokio::test]
async fn a_hidden_tool_is_neither_offered_nor_can_it_be_called() {
    let kit = Kit::new([asks(&[("c", "pay", "{}")]), said("Done.")]);
    let given = Given::default();
    let all = agent(&kit, vec![paying(&given), listing()]);
    let (_, tape, folder) = ran(&kit, &all.seeing(&["list".to_owned()])).await;
    assert_eq!(*given.lock().unwrap(), [Value::Null; 0]);
    assert!(results(&tape)[0].content.contains("unknown_tool"), "{}", results(&tape)[0].content);
    let Some(Fact::ModelAsked(asked)) = tape.lines().iter().map(|line| &line.fact).nth(1) else {
        panic!("asked")
    };
    let frame = tape.text(&asked.frame).unwrap();
    assert!(frame.contains("Lists.") && !frame.contains("Pays."), "{frame}");

    // What goes on in another process sees what it saw.
    let stopped = kit.clone().with(|config| config.budget.max_model_turns = 1);
    let (_, tape, _folder) =
        ran(&stopped, &agent(&stopped, vec![paying(&given), listing()]).seeing(&["list".to_owned()])).await;
    let rest = kit.clone().say([asks(&[("d", "pay", "{}")]), said("Done.")]);
    let budget = Some(kit.config.budget.clone());
    let again = agent(&rest, vec![paying(&given), listing()]);
    again.resume(&tape, budget, &studio(folder.path()), kit.cancel.clone(), &mut Unobserved).await.unwrap();
    assert_eq!(*given.lock().unwrap(), [Value::Null; 0]);
}
