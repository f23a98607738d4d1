//! The complaints that users of agent loops make most in public trackers, one test each: what broke there holds here.
//!
//! Each test names its complaint and the threads it was heard in.

use crate::context::long;
use crate::kit::person::{Ada, Answer};
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, requests, response, said, status};
use crate::team::{ORDER, died_at_work, table};
use harness::config::Verdict;
use harness::model::NAMES;
use harness::model::scripted::{ScriptTurn, speak};
use std::sync::Arc;
use std::time::Duration;
use trace::attribute as name;
use trace::fact::Fact;
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
        Fact::RunEnded(fact) => Some(fact.outcome.clone()),
        _ => None,
    });
    let first = first.unwrap();
    assert_eq!((first.status, first.stop_reason), (RunStatus::Stopped, StopReason::MaxTurns));
    assert!(first.evidence.resumable && first.evidence.next_safe_action.is_some());
    let last = requests(&run.tape).pop().unwrap();
    assert!(last.json.to_string().contains("what was found"), "the work of before is still there");
    assert_eq!(run.outcome.answer.as_deref(), Some("Done."));
}

/// codex#10380, codex#11071, codex#13271, codex#40213 (48 compactions in 76 minutes), codex#8481.
#[tokio::test(start_paused = true)]
async fn complaint_7_compaction_fails_or_loops() {
    let body =
        r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192 tokens"}}"#;
    let full = || ScriptTurn::Raw { status: 400, headers: [].into(), body: body.to_owned() };
    let calls = |count: usize| (0..count).map(|n| asks(&[("a", "look", &format!("{{\"n\":{n}}}"))]));
    let compactions = |run: &Recorded| (run.count("compacted"), run.count("summary_asked"));

    // However often the provider says that it is full: one smaller view, one more attempt, and then the end.
    let forever = calls(3).chain((0..50).map(|_| full()));
    let run = long("prune").say(forever).with(|config| config.context.max_tokens = 9000).run().await;
    assert_eq!((run.outcome.stop_reason, run.requests), (StopReason::ContextExhausted, 5));
    assert_eq!(compactions(&run), (1, 0));
    assert!(run.outcome.evidence.next_safe_action.is_some(), "{:?}", run.outcome.evidence);

    // What would not shrink by the set share is no compaction, and nothing is asked for it.
    let run = long("summarise").with(|config| config.context.max_share = 0.05).run().await;
    assert_eq!((run.outcome.stop_reason, compactions(&run)), (StopReason::ContextExhausted, (0, 0)));
    let evidence = &run.outcome.evidence;
    assert!(evidence.rule == "context_not_smaller" && evidence.observed > evidence.threshold, "{evidence:?}");

    // Summaries that never come: the older turns are left out instead, at most once a turn, and the run goes on.
    let mut failing = long("summarise");
    failing.turns = calls(3).chain([full()]).chain(calls(1)).chain([full(), said("Done.")]).collect();
    let run = failing.run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{:?}", run.outcome);
    let (smaller, asked) = compactions(&run);
    assert!(asked == 2 && smaller == 2, "{smaller} smaller views, {asked} summaries asked for");
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

/// goose#7915 (a headless run hangs), bike4mind#2231 (leave for a session lasts one run), goclaw#1212 (leave for good
/// matches the program's name alone), goose#1971 (asks again after a no).
#[tokio::test(start_paused = true)]
async fn complaint_10_approvals_hang_leak_and_are_forgotten() {
    let pay = |n: &str| asks(&[("a", "pay", n)]);
    let kit = |turns: Vec<ScriptTurn>, tool: &Arc<InProcess>| {
        Kit::new(turns).tool(tool).with(|config| config.policy.write = Verdict::Ask)
    };
    let paying = || InProcess::writing("pay", Deed::Say("paid"));

    // Nobody there: the run pauses at once, and nothing was allowed.
    let tool = paying();
    let paused = kit(vec![pay("{\"n\":7}"), said("Paid.")], &tool).run().await;
    assert_eq!((paused.outcome.stop_reason, tool.entered()), (StopReason::AwaitingApproval, 0));
    assert_eq!(paused.outcome.duration_ms, 0, "it waits without a process");

    // Leave is for these arguments: the same tool with one byte more is another question, and so is the next run.
    let tool = paying();
    let turns = vec![pay("{\"n\":7}"), pay("{\"n\":70}"), said("Paid.")];
    let run = kit(turns, &tool).asking(Ada::who(&[Answer::Allow])).run().await;
    assert_eq!((run.outcome.stop_reason, tool.entered()), (StopReason::AwaitingApproval, 1));
    assert_eq!(run.count("person_asked"), 2);
    let mut next = kit(vec![pay("{\"n\":7}")], &tool);
    next.task.continues = Some((run.tape.started().unwrap().run_id.clone(), Vec::new()));
    assert_eq!((next.run().await.outcome.stop_reason, tool.entered()), (StopReason::AwaitingApproval, 1));

    // A no holds for the run, however the same arguments are written.
    let tool = paying();
    let again = vec![pay("{\"n\":7}"), pay("{ \"n\" : 7 }"), pay("{\"n\":7}"), said("As you wish.")];
    let run = kit(again, &tool).asking(Ada::who(&[Answer::Deny("too much"), Answer::Allow])).run().await;
    assert_eq!((run.outcome.stop_reason, tool.entered()), (StopReason::Completed, 0));
    assert_eq!(run.count("person_asked"), 1, "asked once");
    assert!(run.results().iter().all(|result| result.status == ToolStatus::Denied), "{:?}", run.results());

    // Leave that lasts is a rule of agent.toml, for every run of a session alike.
    let tool = paying();
    let mut kit = Kit::new([pay("{\"n\":7}"), said("Paid.")]).tool(&tool);
    kit.task.session_id = Some("s".to_owned());
    for times in 1..=2 {
        let run = kit.run().await;
        assert_eq!((run.outcome.stop_reason, run.count("person_asked")), (StopReason::Completed, 0));
        assert_eq!(
            (tool.entered(), run.results()[0].permission.as_deref()),
            (times, Some("allow:policy.write"))
        );
    }
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

/// pi-subagents#1769 and claude-code#72080 (children escape the budget), Codewhale#6189 (children die with no word).
#[tokio::test]
async fn complaint_11_children_escape_the_budget_and_die_with_no_word() {
    let looks = |n: usize| asks(&[("x", "look", &format!("{{\"n\":{n}}}"))]);
    let busy = || Kit::new((0..9).map(looks)).tool(&InProcess::reading("look", Deed::Say("a fox")));
    let order = || asks(&[("a", "count", ORDER)]);
    // Each answer takes 120 tokens: 120 of the caller's own, then its part has what is left of 600, and no more.
    let kit = Kit::new([order(), order(), said("Dear.")])
        .agent(table("count"), busy())
        .with(|config| config.budget.max_total_tokens = Some(600));
    let run = kit.run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::BudgetExceeded, "what a part used up is the caller's");
    assert_eq!(run.outcome.turns, 1, "its second order was never asked for");
    let [result] = run.results()[..] else { panic!("one call") };
    let child = result.child.as_ref().unwrap();
    assert_eq!((child.stop_reason, child.usage.total()), (StopReason::BudgetExceeded, Some(480)));
    let told: serde_json::Value = serde_json::from_str(&result.content).unwrap();
    assert_eq!((&told["error"], &told["stop_reason"]), (&"not_completed".into(), &"budget_exceeded".into()));
    assert_eq!(told["partial_answer"], "let me see", "its work is handed back");

    // The process dies while the part is at work: the run that goes on knows what the part had used up by then.
    let kit = Kit::new([order(), said("Dear."), said("Dear.")])
        .agent(table("count"), busy())
        .with(|config| config.budget.max_total_tokens = Some(500));
    let run = died_at_work(&kit).await;
    assert_eq!(run.outcome.stop_reason, StopReason::BudgetExceeded, "120 and 480 are more than 500");
    let resumed = run.tape.lines().iter().find_map(|line| match &line.fact {
        Fact::Resumed(fact) => Some(fact.children.clone()),
        _ => None,
    });
    let told: Vec<_> =
        resumed.iter().flatten().map(|child| (child.agent.as_str(), child.usage.total())).collect();
    assert_eq!(told, [("story", Some(480))]);
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

#[test]
fn each_of_the_twelve_complaints_has_its_test() {
    let source = include_str!("complaint.rs");
    for complaint in 1..=12 {
        assert!(source.contains(&format!("async fn complaint_{complaint}_")), "complaint {complaint}");
    }
}
