//! Long conversations: what the model is shown shrinks, the tape keeps the whole, and both are rebuilt exactly.
//!
//! Kit checks that each tape replays byte for byte, and the provider on loopback that each request is one that a
//! real one takes.

use crate::kit::{self, Deed, InProcess, Kit, asks, assert_exact, fault, response, said};
use crate::reseal::OpenLines;
use harness::config::Strategy;
use harness::model::NAMES;
use harness::model::scripted::ScriptTurn;
use std::sync::Arc;
use trace::fact::{Compacted, Fact, ModelAsked, Shown};
use trace::message::Finish;
use trace::outcome::{FaultClass, StopReason};
use trace::tape::Tape;

pub(crate) const LONG: &str =
    "a result of some length: it says this and that, and then it says it once more, word for word";
const SECRET: &str =
    "the key is sk-abcdefghijklmnopqrstuvwx, and the rest of it is of no interest to anybody at all here";

/// Four tool turns under this strategy, which must show less twice.
pub(crate) fn long(strategy: &str) -> Kit {
    let look = |n: usize| asks(&[("a", "look", &format!("{{\"n\":{n}}}"))]);
    let mut turns: Vec<ScriptTurn> = (1..=4).map(look).collect();
    turns.push(said("Done."));
    Kit::new(turns).tool(&InProcess::reading("look", Deed::Say(LONG))).with(|config| {
        config.context.strategy = match strategy {
            "prune" => Strategy::Prune,
            "selective" => Strategy::Selective,
            _ => Strategy::Summarise,
        };
        (config.context.max_tokens, config.context.keep_turns) = (85, 1);
        config.loop_.max_identical_calls = 0;
    })
}

/// The same with summaries where they are asked for.
fn summarised() -> Kit {
    let mut kit = long("summarise");
    kit.turns.insert(3, said("It was looked up three times."));
    kit.turns.insert(5, said("It was looked up four times."));
    kit
}

/// A run with a secret in what is summarised, and in the summary.
pub(crate) fn secret() -> Kit {
    let mut kit = summarised();
    kit.tools = vec![InProcess::reading("look", Deed::Say(SECRET))];
    kit.turns[3] = said("The key sk-abcdefghijklmnopqrstuvwx was found.");
    kit
}

fn compacted(tape: &Tape) -> Vec<&Compacted> {
    let facts = tape.lines().iter().map(|line| &line.fact);
    facts.filter_map(|fact| if let Fact::Compacted(fact) = fact { Some(&**fact) } else { None }).collect()
}

fn asked(tape: &Tape) -> Vec<&ModelAsked> {
    let facts = tape.lines().iter().map(|line| &line.fact);
    facts.filter_map(|fact| if let Fact::ModelAsked(fact) = fact { Some(fact) } else { None }).collect()
}

#[tokio::test]
async fn every_strategy_makes_requests_that_every_provider_takes() {
    for wire in NAMES {
        for kit in [long("prune"), long("selective"), summarised()] {
            let kit = kit.with(|config| wire.clone_into(&mut config.model.wire));
            let run = kit.run_on_loopback().await;
            assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{wire}: {:?}", run.outcome);
            assert_eq!(run.count("compacted"), 2, "{wire}");
            assert_eq!(run.requests, kit.turns.len(), "{wire}");
        }
    }
}

#[tokio::test]
async fn a_smaller_view_is_a_new_chain_of_what_stays_and_the_words_in_place_of_the_rest() {
    let run = long("prune").run().await;
    let views = compacted(&run.tape);
    let first = views[0];
    assert!(matches!(first.view[..], [Shown::Stay(0, 2), Shown::Said(_), Shown::Stay(6, 8)]), "{first:?}");
    assert!(first.after_tokens * 10 <= first.before_tokens * 8, "{first:?}");
    let asked = asked(&run.tape);
    let anew: Vec<u32> = asked.iter().filter(|fact| fact.parent.is_none()).map(|fact| fact.turn).collect();
    assert_eq!(anew[..2], [1, first.turn]);
    let before = asked[first.turn as usize - 2];
    let after = asked[first.turn as usize - 1];
    assert!(after.depth < before.depth && after.fragments.len() == after.depth as usize, "{after:?}");
    assert!(before.fragments.iter().all(|one| run.tape.blob(one).is_some()), "the tape keeps the whole");
}

#[tokio::test]
async fn a_summary_is_on_the_tape_before_and_after_and_counts() {
    let run = summarised().run().await;
    assert_eq!((run.count("summary_asked"), run.count("summary_answered")), (2, 2));
    assert_eq!(run.outcome.turns, 5, "summaries are no turns");
    assert_eq!(run.outcome.usage.total(), Some(120 * 7), "but cost tokens");
    let second = compacted(&run.tape)[1];
    let text = serde_json::to_string(&second.view).unwrap();
    assert!(text.contains("It was looked up four times.") && second.strategy == "summarise", "{text}");
    let spans = trace::span::from_tape(&run.tape);
    let chats = spans.iter().filter(|span| span.name.starts_with("chat")).count();
    assert_eq!(chats, 7);
    assert_eq!(spans[0].events.iter().filter(|event| event.name == "loopdeck.compacted").count(), 2);
}

#[tokio::test]
async fn without_a_summary_it_is_pruned() {
    let mut kit = long("summarise");
    kit.turns.insert(3, fault(FaultClass::Transient));
    kit.turns.insert(5, ScriptTurn::Answer(response("", &[], Finish::EndTurn)));
    let run = kit.run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::Completed);
    assert!(compacted(&run.tape).iter().all(|one| one.strategy == "prune"));
}

/// A planner whose summaries say these.
pub(crate) fn planner(first: &str, second: &str) -> Kit {
    let mut kit = summarised().with(|config| {
        config.loop_.planner = true;
        config.context.max_tokens = 300;
    });
    // The instructions alone have about 80 tokens.
    kit.tools = vec![InProcess::reading("look", Deed::Say(LONG.repeat(4).leak()))];
    let plan = |n: usize| said(&format!(r#"{{"tool":"look","arguments":{{"n":{n}}}}}"#));
    let (one, two) = (said(first), said(second));
    kit.turns = vec![plan(1), plan(2), plan(3), one, plan(4), two];
    kit.turns.push(said(r#"{"tool":"final_answer","prompt":"Done."}"#));
    kit
}

#[tokio::test]
async fn plans_are_summarised_as_the_calls_they_are_and_a_summary_is_no_plan() {
    for wire in NAMES {
        let kit = planner("Three times.", "Four times.");
        let kit = kit.with(|config| wire.clone_into(&mut config.model.wire));
        let run = kit.run_on_loopback().await;
        assert_eq!(run.outcome.answer.as_deref(), Some("Done."), "{wire}: {:?}", run.outcome);
        assert_eq!((run.outcome.turns, run.results().len(), run.requests), (5, 5, 7), "{wire}");
        let summary = run.tape.lines().iter().find_map(|line| match &line.fact {
            Fact::SummaryAsked(fact) => Some(&**fact),
            _ => None,
        });
        let summary = summary.unwrap();
        let sent: String =
            summary.fragments.iter().chain([&summary.frame]).filter_map(|hash| run.tape.text(hash)).collect();
        assert!(sent.contains("assistant calls look with"), "{wire}: {sent}");
        assert!(!sent.contains("Does look."), "{wire}: who summarises is offered no tools: {sent}");
        assert!(
            serde_json::to_string(&compacted(&run.tape)[1].view).unwrap().contains("Four times."),
            "{wire}"
        );
    }
    // What looks like a plan is carried out by nobody where a summary was asked for.
    let run = planner(r#"{"tool":"look","arguments":{"n":9}}"#, "Four times.").run().await;
    assert_eq!((run.outcome.answer.as_deref(), run.results().len()), (Some("Done."), 5), "{:?}", run.outcome);
    assert_eq!(compacted(&run.tape)[0].strategy, "prune");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_was_cancelled_is_asked_for_again_when_the_run_goes_on() {
    let whole = summarised();
    let mut kit = whole.clone();
    kit.turns[3] = ScriptTurn::Hang;
    let cancel = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        kit.cancel.cancel();
    };
    let (run, ()) = tokio::join!(kit.run(), cancel);
    assert_eq!((run.outcome.stop_reason, run.count("compacted")), (StopReason::Aborted, 0));
    let whole = Kit { cancel: Default::default(), ..whole };
    let finished = whole.go_on(&run.path, whole.turns[3..].to_vec(), None).await.unwrap();
    let tape = kit::checked(&finished.tape);
    assert_eq!(finished.outcome.answer.as_deref(), Some("Done."));
    assert!(compacted(&tape).iter().all(|one| one.strategy == "summarise"), "{:?}", compacted(&tape));
    assert_exact(&Arc::new(tape)).await;
}

#[tokio::test]
async fn a_context_that_the_provider_calls_full_is_made_smaller_once() {
    let body =
        r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192 tokens"}}"#;
    let full = || ScriptTurn::Raw { status: 400, headers: Default::default(), body: body.to_owned() };
    let kit = long("prune").with(|config| config.context.max_tokens = 9000);
    let mut turns = kit.turns.clone();
    turns.insert(3, full());
    let run = kit.clone().say(turns.clone()).run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{:?}", run.outcome);
    assert_eq!(compacted(&run.tape)[0].trigger, "context_full");
    turns.insert(4, full());
    let run = kit.say(turns).run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::ContextExhausted);
    assert_eq!(run.count("compacted"), 1);
}

#[tokio::test]
async fn a_run_that_died_around_a_compaction_ends_as_the_one_that_did_not() {
    for kit in [long("prune"), summarised()] {
        let whole = kit.run().await;
        let sealed = OpenLines::read(&whole.path).sealed();
        let lines: Vec<&str> = sealed.lines().collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tape");
        for kept in 1..lines.len() {
            std::fs::write(&path, lines[..kept].join("\n") + "\n").unwrap();
            let torn = Tape::read(&path).unwrap();
            if torn.started().is_none() {
                continue;
            }
            let answered = torn.lines().iter().filter(|line| line.fact.kind().ends_with("_answered")).count();
            let finished = kit.go_on(&path, kit.turns[answered..].to_vec(), None).await.unwrap();
            let tape = Arc::new(kit::checked(&finished.tape));
            assert_eq!(finished.outcome.stop_reason, StopReason::Completed, "after {kept} lines");
            assert_eq!(finished.outcome.head, whole.outcome.head, "the same conversation after {kept} lines");
            assert_exact(&tape).await;
            std::fs::remove_file(&finished.tape).unwrap();
        }
    }
}

#[tokio::test]
async fn a_tier_writes_the_summaries() {
    let provider = loopback::Loopback::start(loopback::by_model(std::collections::BTreeMap::from([
        ("big".to_owned(), long("prune").turns.into_iter().map(Into::into).collect()),
        ("small".to_owned(), vec![said("Three times.").into(), said("Four times.").into()]),
    ])))
    .await
    .unwrap();
    let house = crate::kit::program::House::new();
    house.file("look.sh", format!("echo '{LONG}'\n"));
    let agent = house.file(
        "agent.toml",
        format!(
            "[model]\nname = \"big\"\nkey_env = \"\"\nbase_url = \"{url}\"\n[model.tiers.brief]\nname = \"small\"\n\
             wire = \"messages\"\nkey_env = \"\"\nbase_url = \"{url}\"\n\
             [context]\nstrategy = \"summarise\"\ntier = \"brief\"\nmax_tokens = 85\nkeep_turns = 1\n\
             [loop]\nmax_identical_calls = 0\n[[tool]]\nname = \"look\"\ndescription = \"Looks.\"\n\
             command = [\"sh\", \"look.sh\"]\n[tool.input_schema]\ntype = \"object\"\n",
            url = provider.base_url()
        ),
    );
    let said = house.run_beside(&["run", agent.to_str().unwrap(), "Look four times."]).await;
    assert_eq!((said.code, said.out.trim()), (0, "Done."), "{}", said.err);
    assert!(said.err.contains("instead of"), "{}", said.err);
    let replayed = house.run(&["replay", "latest"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert_eq!(provider.violations(), [""; 0]);
    assert_eq!(house.value("select count(*) from model_calls"), 7, "summaries are model calls");
    assert_eq!(house.value("select turns from runs"), 5);
}
