//! What an interruption takes from a run that had come to its conclusion, and what it leaves.

use super::*;

const TOOL: &str = "[loop]\nfinish = \"tool\"\n";
const ANSWER: (&str, &str) = ("final_answer", r#"{"answer":"42"}"#);

/// Interrupted by this just after the model made these calls, and worked to its end.
fn interrupted(by: &str, calls: &[(&str, &str)]) -> Told {
    let mut told = Told::new(TOOL);
    told.answered("", calls, Finish::ToolUse);
    told.feed(Fact::Cancelled(Cancelled { by: by.to_owned() }));
    told.work(ToolStatus::Ok, "r");
    told
}

/// Its end on the tape, and on in another process.
fn goes_on(told: &mut Told) -> Step {
    let outcome = told.outcome();
    told.feed(Fact::RunEnded(Box::new(RunEnded { outcome, heard: Vec::new() })));
    told.feed(Fact::Resumed(Box::new(serde_json::from_str("{}").unwrap())));
    assert_eq!(told.refolded().state(), told.run.state());
    told.run.next()
}

#[test]
fn a_conclusion_that_was_drawn_when_the_run_was_aborted_needs_no_model_when_it_goes_on() {
    let mut told = interrupted("interrupt", &[ANSWER]);
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.answer), (StopReason::Aborted, None), "a person's word first");
    let Step::Done(outcome) = goes_on(&mut told) else { panic!("ends, not {:?}", told.run.next()) };
    assert_eq!((outcome.stop_reason, outcome.answer.as_deref()), (StopReason::Completed, Some("42")));
    assert_eq!(outcome.turns, 1, "nothing was asked again");
}

#[test]
fn a_conclusion_beside_a_call_that_was_cut_off_is_drawn_anew_by_the_model() {
    for calls in [[ANSWER, ("look", "{}")], [("look", "{}"), ANSWER]] {
        let mut told = interrupted("interrupt", &calls);
        assert_eq!(told.outcome().stop_reason, StopReason::Aborted);
        assert_eq!(goes_on(&mut told), Step::Ask { turn: 2, attempt: 1 });
    }
    // The call had ended as cancelled before the machine heard of the interruption.
    let mut told = Told::new(TOOL);
    told.answered("", &[("look", "{}"), ANSWER], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("looks") };
    told.finished(planned[0].key, &planned[0].call, ToolStatus::Cancelled, "cancelled while it ran");
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    told.work(ToolStatus::Ok, "r");
    assert_eq!(goes_on(&mut told), Step::Ask { turn: 2, attempt: 1 });
}

#[test]
fn a_conclusion_that_was_taken_before_a_call_beside_it_was_cut_off_is_drawn_anew_too() {
    let mut told = Told::new(TOOL);
    told.answered("", &[ANSWER, ("look", "{}")], Finish::ToolUse);
    let Step::Refuse(own) = told.run.next() else { panic!("the loop answers its own call") };
    told.finished_at(own[0].key, &own[0].call, own[0].status, own[0].stage, None, &own[0].message);
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    told.work(ToolStatus::Ok, "r");
    assert_eq!(goes_on(&mut told), Step::Ask { turn: 2, attempt: 1 });
}

#[test]
fn a_conclusion_after_calls_that_came_to_their_end_holds_when_the_run_goes_on() {
    let mut told = Told::new(TOOL);
    told.answered("", &[("look", "{}"), ANSWER], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("looks") };
    told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "seen");
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    told.work(ToolStatus::Ok, "r");
    let Step::Done(outcome) = goes_on(&mut told) else { panic!("ends, not {:?}", told.run.next()) };
    assert_eq!(outcome.answer.as_deref(), Some("42"));
}

#[test]
fn a_conclusion_beside_a_call_that_ends_the_run_by_failing_is_not_taken() {
    let mut told = Told::new(TOOL);
    told.answered("", &[("look", "{}"), ANSWER], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("looks") };
    let (key, call, stage) = (planned[0].key, &planned[0].call, Some(FailureStage::Execution));
    told.finished_at(key, call, ToolStatus::Error, stage, Some(FaultClass::Fatal), "broken");
    let Step::Refuse(refused) = told.run.next() else { panic!("refuses") };
    assert_eq!(refused[0].status, ToolStatus::Cancelled);
}

#[test]
fn an_answer_that_was_given_in_time_is_no_timeout() {
    let told = interrupted(crate::port::DEADLINE, &[ANSWER]);
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.answer.as_deref()), (StopReason::Completed, Some("42")));
    let told = interrupted(crate::port::DEADLINE, &[("look", "{}"), ANSWER]);
    assert_eq!(told.outcome().stop_reason, StopReason::Timeout, "it was to look first");
}

#[test]
fn a_goal_that_goes_on_is_checked_by_what_was_done_since() {
    let mut told = Told::new("[goal]\nobjective = \"x\"\ndone_condition = \"y\"\ncheckpoint_every = 1\n");
    for round in 0..2 {
        told.answered("", &[("look", &format!("{{\"n\":{round}}}"))], Finish::ToolUse);
        told.work(ToolStatus::Ok, &format!("r{round}"));
    }
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    assert!(matches!(goes_on(&mut told), Step::Ask { .. }));
    told.answered("", &[("look", "{\"n\":3}")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r3");
    let goal = told.run.state().goal.as_ref().unwrap();
    assert_eq!(goal.checkpoints.last().unwrap().evidence, ["look at turn 3 call 0"]);
}
