//! The complaints that users of agent loops make most in public trackers, one test each: what broke there holds here.
//!
//! Each test names its complaint and the threads it was heard in.

use crate::kit::{Deed, InProcess, Kit, asks, requests, response, said, status};
use harness::model::NAMES;
use harness::model::scripted::{ScriptTurn, speak};
use std::time::Duration;
use trace::attribute as name;
use trace::message::{Finish, Response, Usage};
use trace::outcome::{RunStatus, StopReason, ToolStatus};
use trace::span::from_tape;

/// claude-code#30150, pi#9637 (220 calls in 25 minutes), goose#9758, opencode#43800.
#[tokio::test(start_paused = true)]
async fn complaint_1_identical_calls_go_on_forever() {
    let look = InProcess::reading("look", Deed::Say("nothing new"));
    let kit = Kit::new((0..50).map(|_| asks(&[("a", "look", "{}")]))).tool(&look);
    let run = kit.with(|config| config.budget.max_model_turns = 50).run().await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::RepeatedCalls, 3));
    let evidence = &run.outcome.evidence;
    assert_eq!((evidence.observed, evidence.spans.len()), (Some(3.0), 3), "{evidence:?}");
    assert!(evidence.tokens_wasted.is_some_and(|tokens| tokens > 0), "{evidence:?}");
    assert!(evidence.next_safe_action.is_some(), "{evidence:?}");
}

/// stella#359 (polling aborted, a cycle of three not seen), qwen-code#9492, fastclaw#80.
#[tokio::test(start_paused = true)]
async fn complaint_2_the_detector_is_wrong_both_ways() {
    let poll = InProcess::reading("poll", Deed::Count);
    let turns = (0..8).map(|_| asks(&[("a", "poll", "{}")])).chain([said("Finished.")]);
    let run = Kit::new(turns).tool(&poll).run().await;
    assert_eq!((run.outcome.stop_reason, poll.entered()), (StopReason::Completed, 8), "a poll that gets on");

    let cycle = ["look", "peek", "seek"];
    let turns = (0..12).map(|turn| asks(&[("a", cycle[turn % 3], "{}")]));
    let kit = cycle
        .iter()
        .fold(Kit::new(turns), |kit, tool| kit.tool(&InProcess::reading(tool, Deed::Say("as before"))));
    let run = kit.with(|config| config.budget.max_model_turns = 12).run().await;
    assert_eq!(
        (run.outcome.stop_reason, run.outcome.turns),
        (StopReason::RepeatedCalls, 9),
        "a cycle of three"
    );
}

/// goose#7527 (24 failures in a row), mastra#15717, tracker#507.
#[tokio::test(start_paused = true)]
async fn complaint_3_a_call_that_was_cut_off_is_run_or_asked_for_forever() {
    let pay = InProcess::writing("pay", Deed::Say("must not be"));
    let whole_but_full = Response {
        usage: Usage { output_tokens: Some(20), ..Usage::default() },
        ..response("", &[("a", "pay", "{}")], Finish::ToolUse)
    };
    let honest = response("", &[("a", "pay", "{\"n\":")], Finish::Length);
    for cut in [honest, whole_but_full] {
        let turns = (0..9).map(|_| ScriptTurn::Answer(cut.clone()));
        let kit = Kit::new(turns).tool(&pay).with(|config| config.model.max_output_tokens = Some(20));
        let run = kit.run().await;
        assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::OutputTruncated, 2));
        assert_eq!(pay.entered(), 0, "half a call is no call");
        assert!(run.results()[0].content.contains("cut off"), "{}", run.results()[0].content);
    }
}

/// opencode#14972, opencode#20719: servers say `stop` beside calls, and `tool_calls` beside none.
#[tokio::test]
async fn complaint_4_the_finish_reason_lies() {
    for wire in NAMES {
        let look = InProcess::reading("look", Deed::Say("seen"));
        let lie = ScriptTurn::Answer(response("", &[("a", "look", "{}")], Finish::EndTurn));
        let kit = Kit::new([lie, said("Seen.")]).tool(&look);
        let run = kit.with(|config| wire.clone_into(&mut config.model.wire)).run_on_loopback().await;
        assert_eq!((run.outcome.stop_reason, look.entered()), (StopReason::Completed, 1), "{wire}");

        let lie = || ScriptTurn::Answer(response("I will look.", &[], Finish::ToolUse));
        let kit = Kit::new([lie(), lie(), lie()]);
        let run = kit.with(|config| wire.clone_into(&mut config.model.wire)).run().await;
        // Two of the wires have no word for it: there the text is the answer.
        let stops = [StopReason::ModelError, StopReason::Completed];
        assert!(
            stops.contains(&run.outcome.stop_reason) && run.outcome.turns <= 2,
            "{wire}: {:?}",
            run.outcome
        );
    }
}

/// claude-code#746, claude-code#1956, goose#2951, openclaw#10911, zeph#5541 (`call_0` in each turn).
#[tokio::test(start_paused = true)]
async fn complaint_5_a_call_without_its_result_bricks_the_session() {
    for wire in NAMES {
        let calls = [("call_0", "look", "{}"), ("call_1", "slow", "{}"), ("call_2", "look", "{\"n\":1}")];
        let again = asks(&[("call_0", "look", "{\"n\":2}")]);
        let kit = Kit::new([asks(&calls)])
            .tool(&InProcess::reading("look", Deed::Say("seen")))
            .tool(&InProcess::writing("slow", Deed::Hang))
            .with(|config| wire.clone_into(&mut config.model.wire));
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            kit.cancel.cancel();
        };
        let (run, ()) = tokio::join!(kit.run(), cancel);
        assert_eq!(run.outcome.stop_reason, StopReason::Aborted, "{wire}");
        let kit = Kit { cancel: Default::default(), ..kit.clone() };
        let finished = kit.go_on(&run.path, vec![again, said("So it goes.")], None).await.unwrap();
        assert_eq!(finished.outcome.stop_reason, StopReason::Completed, "{wire}");
        // Every request on the tape is one that a strict provider takes.
        assert_eq!(requests(&crate::kit::checked(&finished.tape)).len(), 3, "{wire}");
    }
}

/// openai-agents-python#719 and #844, pydantic-ai#1083, rakazo#248, cynative#271, ptc_runner#1392.
#[tokio::test]
async fn complaint_6_a_limit_is_an_exception_and_the_work_is_lost() {
    let kit = Kit::new([asks(&[("a", "look", "{}")]), said("Done.")])
        .tool(&InProcess::reading("look", Deed::Say("what was found")));
    let run = kit.stopped_and_resumed().await;
    let first = run.tape.lines().iter().find_map(|line| match &line.fact {
        trace::fact::Fact::RunEnded(fact) => Some(fact.outcome.clone()),
        _ => None,
    });
    let first = first.unwrap();
    assert_eq!((first.status, first.stop_reason), (RunStatus::Stopped, StopReason::MaxTurns));
    assert!(first.evidence.resumable && first.evidence.next_safe_action.is_some());
    let last = requests(&run.tape).pop().unwrap();
    assert!(last.json.to_string().contains("what was found"), "the work of before is still there");
    assert_eq!(run.outcome.answer.as_deref(), Some("Done."));
}

/// claude-code#64346 (26 of 27 calls cancelled), claude-code#22264, openai-agents-python#2584, deepagents#694.
#[tokio::test(start_paused = true)]
async fn complaint_8_one_sibling_kills_the_batch() {
    let calls =
        [("a", "look", "{}"), ("b", "panics", "{}"), ("c", "hangs", "{}"), ("d", "look", "{\"n\":1}")];
    let run = Kit::new([asks(&calls), said("Half of it.")])
        .tool(&InProcess::reading("look", Deed::After(50, "seen")))
        .tool(&InProcess::reading("panics", Deed::Panic))
        .tool(&InProcess::reading("hangs", Deed::Hang))
        .run()
        .await;
    let statuses: Vec<ToolStatus> = run.results().iter().map(|one| one.status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Error, ToolStatus::Timeout, ToolStatus::Ok]);
    assert_eq!(run.outcome.stop_reason, StopReason::Completed);
}

/// pi#9595, tracker#549, hermes-agent#2724 (Retry-After), nuguard#455 (partial output twice), inspect_ai#2902.
#[tokio::test(start_paused = true)]
async fn complaint_9_retries_ignore_the_provider_and_double_what_was_said() {
    let whole = response("The whole answer.", &[], Finish::EndTurn);
    let pieces = speak("chat", &whole, true).unwrap().pieces;
    let half = ScriptTurn::Raw {
        status: 200,
        headers: [("content-type".to_owned(), "text/event-stream".to_owned())].into(),
        body: pieces[..2].concat(),
    };
    let kit = Kit::new([status(429, Some(7)), half, ScriptTurn::Answer(whole.clone())]);
    let run = kit.with(|config| config.model.stream = true).run().await;
    assert_eq!(
        (run.requests, run.pauses()),
        (3, vec![7000, 2000]),
        "one layer, and the provider's word holds"
    );
    assert_eq!(run.outcome.answer.as_deref(), Some("The whole answer."), "once");
    assert_eq!(run.outcome.usage, whole.usage, "the half answer is not paid for twice");
    assert_eq!(run.outcome.turns, 1, "an attempt is no turn");
}

/// PRAXIST#81 (twelvefold), fak#10019 (426-fold), ml-commons#4820 (0 meant unlimited), claude-code#72080.
#[tokio::test]
async fn complaint_11_a_budget_is_only_a_label() {
    let call = |n: &'static str| asks(&[("a", "look", n)]);
    let kit = |limit| {
        Kit::new([call("{\"n\":1}"), call("{\"n\":2}"), said("Dear.")])
            .tool(&InProcess::reading("look", Deed::Say("seen")))
            .with(|config| config.budget.max_total_tokens = limit)
    };
    // Each answer takes 120 tokens.
    let rows = [(Some(0), 0), (Some(1), 1), (Some(240), 2), (Some(241), 3), (None, 3)];
    for (limit, requests) in rows {
        let run = kit(limit).run().await;
        assert_eq!(run.requests, requests, "{limit:?}");
        let is_done = run.outcome.stop_reason == StopReason::Completed;
        assert_eq!(is_done, requests == 3, "{limit:?}: {:?}", run.outcome.stop_reason);
    }
}

/// harness-sdk#3609, mastra#17074, any-llm#908 and #909, openlit#1454.
#[tokio::test(start_paused = true)]
async fn complaint_12_spans_are_lost_on_cancel_and_unknown_usage_is_zero() {
    let silent =
        Response { usage: Usage::default(), ..response("", &[("a", "slow", "{}")], Finish::ToolUse) };
    let kit = Kit::new([ScriptTurn::Answer(silent)])
        .tool(&InProcess::writing("slow", Deed::Hang))
        .with(|config| config.model.price = Some(toml::from_str("input = 1.0\noutput = 2.0").unwrap()));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        kit.cancel.cancel();
    };
    let (run, ()) = tokio::join!(kit.run(), cancel);
    let spans = from_tape(&run.tape);
    assert_eq!(spans.len(), 4, "the run, its turn, the model call and the tool call");
    assert!(spans.iter().all(|span| !span.open && span.ended_at_ns.is_some()), "{spans:?}");
    assert_eq!((run.outcome.usage, run.outcome.cost_usd), (Usage::default(), None), "unknown is not zero");
    assert!(spans.iter().all(|span| !span.attributes.contains_key(name::INPUT_TOKENS)), "nor in a span");
    assert!(run.tape.lines().iter().all(|line| line.fact.turn() != Some(2)), "nothing was begun after it");
}
