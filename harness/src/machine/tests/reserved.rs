//! Ends through the loop's own tools, expected answers, and which of several conditions is told.

use super::*;

const TOOL: &str = "[loop]\nfinish = \"tool\"\n";

fn final_answer(arguments: &str) -> [(&'static str, &str); 1] {
    [("final_answer", arguments)]
}

/// The model makes these calls and all get their results.
fn called(told: &mut Told, calls: &[(&str, &str)]) {
    told.answered("", calls, Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
}

/// What the last message told the model of its last call.
fn told_of(told: &Told) -> String {
    match told.run.state().messages.last().and_then(|message| message.parts.last()) {
        Some(Part::ToolResult(result)) => result.content.clone(),
        other => panic!("a result, not {other:?}"),
    }
}

#[test]
fn a_final_answer_completes_and_cannot_complete_does_not() {
    let mut told = Told::new(TOOL);
    called(&mut told, &final_answer(r#"{"answer":"42"}"#));
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.answer.as_deref()), (StopReason::Completed, Some("42")));
    assert_eq!((outcome.trigger.as_str(), outcome.turns, outcome.tool_calls), ("final_answer", 1, 1));
    assert_eq!(outcome.evidence.spans, [RunId::from_draw(1).span("execute_tool", 1, 0)]);
    let mut told = Told::new(TOOL);
    called(&mut told, &[("cannot_complete", r#"{"reason":"no key"}"#)]);
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.answer), (StopReason::CannotComplete, None));
    assert_eq!(outcome.evidence.detail, "the model says: no key");
    let of_call = RunId::from_draw(1).span("execute_tool", 1, 0);
    assert_eq!(outcome.evidence.spans, [of_call]);
}

#[test]
fn calls_beside_a_final_answer_are_carried_out_before_the_run_ends() {
    let mut told = Told::new(TOOL);
    told.answered(
        "",
        &[("final_answer", r#"{"answer":"42"}"#), ("look", "{}"), ("write", "{}")],
        Finish::ToolUse,
    );
    let Step::Refuse(own) = told.run.next() else { panic!("the loop answers its own call") };
    told.finished_at(own[0].key, &own[0].call, own[0].status, own[0].stage, None, &own[0].message);
    assert!(!told.run.is_stopping(), "two calls wait");
    assert_eq!(told.planned(), [(1, "look".to_owned())]);
    told.work(ToolStatus::Ok, "r");
    assert_eq!(told.outcome().answer.as_deref(), Some("42"));
    let Some(Message { parts, .. }) = told.run.state().messages.last() else { panic!("results") };
    assert_eq!(parts.len(), 3, "every call has its result");
    assert_eq!(told.refolded().state(), told.run.state());
}

#[test]
fn text_alone_is_reminded_where_only_a_tool_ends_the_run() {
    let mut told = Told::new("[loop]\nfinish = \"tool\"\nmax_nudges = 2\n");
    for _ in 0..2 {
        assert!(
            told.answered("it is 42", &[], Finish::EndTurn)
                .contains(&Event::Nudged { turn: told.run.state().turns })
        );
        let said = told.run.state().said.last().map(Message::joined_text).unwrap();
        assert!(said.contains("final_answer"), "{said}");
    }
    told.answered("it is 42", &[], Finish::EndTurn);
    assert_eq!(stop_of(&told), (StopReason::NoFinalAnswer, "text_without_final_answer".to_owned()));
    assert_eq!(told.outcome().answer, None);
    let mut told = Told::new("[loop]\nfinish = \"either\"\n");
    told.answered("it is 42", &[], Finish::EndTurn);
    assert_eq!(told.outcome().stop_reason, StopReason::Completed);
}

#[test]
fn the_loops_own_tools_are_unknown_where_text_ends_the_run() {
    let mut told = Told::new("");
    told.answered("", &final_answer(r#"{"answer":"42"}"#), Finish::ToolUse);
    assert_eq!(told.planned(), [(0, "final_answer".to_owned())], "for the driver to say that there is none");
    let spec = told.run.config().call_spec(&[]);
    assert_eq!(spec.tools, []);
    let spec = config(TOOL).call_spec(&[]);
    let names: Vec<&str> = spec.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, crate::tool::reserved::NAMES);
}

#[test]
fn what_is_no_answer_is_told_and_counts_as_an_error() {
    for (arguments, wanted) in [
        ("{oops", "not JSON"),
        ("{}", "\"answer\" is required"),
        (r#"{"answer":" "}"#, "must say something"),
        (r#"{"answer":"x","confidence":101}"#, "no number from 0 to 100"),
        (r#"{"answer":"x","confidence":"high"}"#, "no number from 0 to 100"),
    ] {
        let mut told = Told::new(TOOL);
        called(&mut told, &final_answer(arguments));
        assert!(told_of(&told).contains(wanted), "{arguments}: {}", told_of(&told));
        assert_eq!((told.run.is_stopping(), told.run.state().errors), (false, 1), "{arguments}");
    }
    let mut told = Told::new(TOOL);
    called(&mut told, &final_answer(r#"{"answer":{"n":1}}"#));
    assert_eq!(told.outcome().answer.as_deref(), Some(r#"{"n":1}"#), "an object is its JSON text");
}

#[test]
fn an_answer_that_was_cut_off_ends_nothing() {
    let mut told = Told::new(TOOL);
    told.answered("", &final_answer(r#"{"answer":"42"}"#), Finish::Length);
    told.work(ToolStatus::Ok, "r");
    assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }));
}

#[test]
fn confidence_ends_a_run_from_its_threshold_on() {
    let rows = [
        (Some(79), Some(80), None),
        (Some(80), Some(80), Some(StopReason::ConfidenceThreshold)),
        (Some(100), Some(80), Some(StopReason::ConfidenceThreshold)),
        (None, Some(80), Some(StopReason::Completed)),
        (Some(10), None, Some(StopReason::Completed)),
    ];
    for (confidence, threshold, wanted) in rows {
        let settings = threshold.map_or_else(String::new, |t| format!("confidence_threshold = {t}\n"));
        let mut told = Told::new(&format!("{TOOL}{settings}"));
        let arguments = match confidence {
            Some(confidence) => format!(r#"{{"answer":"42","confidence":{confidence}}}"#),
            None => r#"{"answer":"42"}"#.to_owned(),
        };
        called(&mut told, &final_answer(&arguments));
        match wanted {
            None => assert!(matches!(told.run.next(), Step::Ask { .. }), "{confidence:?} goes on"),
            Some(reason) => {
                let outcome = told.outcome();
                assert_eq!((outcome.stop_reason, outcome.answer.as_deref()), (reason, Some("42")));
            }
        }
    }
    let mut told = Told::new(&format!("{TOOL}confidence_threshold = 80\n"));
    called(&mut told, &final_answer(r#"{"answer":"42","confidence":90.5}"#));
    let evidence = told.outcome().evidence;
    assert_eq!((evidence.threshold, evidence.observed), (Some(80.0), Some(90.5)));
    assert_eq!(evidence.detail, "the model's confidence in its answer is 90.5, the threshold 80");
    assert_eq!(evidence.spans, [RunId::from_draw(1).span("execute_tool", 1, 0)]);
}

#[test]
fn an_unexpected_answer_is_asked_for_again_and_too_many_stop_the_run() {
    let expect = "[expect]\nvalue = \"42\"\n";
    let mut told = Told::new(expect);
    for wrong in ["40", "41"] {
        told.answered(wrong, &[], Finish::EndTurn);
        assert!(!told.run.is_stopping());
    }
    told.answered("42", &[], Finish::EndTurn);
    assert_eq!((told.outcome().stop_reason, told.run.state().mismatches), (StopReason::Completed, 2));

    let mut told = Told::new(expect);
    for _ in 0..4 {
        told.answered("41", &[], Finish::EndTurn);
    }
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.answer), (StopReason::ExpectedMismatch, None));
    assert_eq!((outcome.evidence.threshold, outcome.evidence.observed), (Some(3.0), Some(3.0)));
    assert_eq!(outcome.evidence.detail, "4 answers, none of them the expected one");

    let mut told = Told::new(&format!("{TOOL}{expect}"));
    for _ in 0..4 {
        called(&mut told, &final_answer(r#"{"answer":"41"}"#));
    }
    assert_eq!(stop_of(&told), (StopReason::ExpectedMismatch, "expected_mismatch".to_owned()));
    assert!(told_of(&told).contains("not what is expected"));

    let mut told = Told::new(&format!("{TOOL}{expect}"));
    for answer in ["40", "41", "42"] {
        called(&mut told, &final_answer(&format!(r#"{{"answer":"{answer}"}}"#)));
    }
    assert_eq!((told.outcome().stop_reason, told.run.state().mismatches), (StopReason::Completed, 2));
}

proptest! {
    #[test]
    fn of_all_that_holds_at_once_done_then_confidence_then_turns_then_budget_is_told(
        done: bool, sure: bool, out_of_turns: bool, out_of_tokens: bool,
    ) {
        let settings = format!(
            "{TOOL}confidence_threshold = 80\n[budget]\nmax_model_turns = {}\nmax_total_tokens = {}\n",
            if out_of_turns { 1 } else { 9 },
            if out_of_tokens { 1 } else { 9000 },
        );
        let mut told = Told::new(&settings);
        let confidence = if sure { 80 } else { 79 };
        let unsure = format!(r#"{{"answer":"perhaps","confidence":{confidence}}}"#);
        let mut calls = vec![("final_answer", unsure.as_str()), ("look", "{}")];
        if done {
            calls.push(("final_answer", r#"{"answer":"it is"}"#));
        }
        called(&mut told, &calls);
        let wanted = [
            (done, StopReason::Completed),
            (sure, StopReason::ConfidenceThreshold),
            (out_of_turns, StopReason::MaxTurns),
            (out_of_tokens, StopReason::BudgetExceeded),
        ];
        match wanted.into_iter().find(|(holds, _)| *holds) {
            None => {
                let goes_on = matches!(told.run.next(), Step::Ask { .. });
                prop_assert!(goes_on, "nothing holds");
            }
            Some((_, reason)) => {
                let outcome = told.outcome();
                prop_assert_eq!(outcome.stop_reason, reason);
                let answer = if done { Some("it is") } else if sure { Some("perhaps") } else { None };
                prop_assert_eq!(outcome.answer.as_deref(), answer);
            }
        }
        prop_assert_eq!(told.refolded().next(), told.run.next());
    }
}
