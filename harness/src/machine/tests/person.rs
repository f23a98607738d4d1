//! A question that waits, what answers it, and where what a person says goes.

use super::*;
use crate::policy::Spoken;
use trace::fact::{PersonAnswered, PersonAsked, Ruling, Wants, Way};

const SECOND: i64 = 1_000_000_000;

/// The question of this call; it can be answered for a minute.
pub(super) fn question(key: CallKey, call: &ToolCall, wants: Wants) -> PersonAsked {
    PersonAsked {
        key,
        call_id: call.call_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments: call.arguments.clone(),
        args_hash: args_hash(&call.tool_name, &call.arguments),
        wants,
        prompt: "may I?".to_owned(),
        rule: "policy.write".to_owned(),
        token: Hash::of(b"the question"),
        expires_at_ns: 60 * SECOND,
        heard: Vec::new(),
    }
}

/// A run of which a call of `write` waits, one done before it and one behind it.
fn waiting(wants: Wants) -> (Told, PersonAsked) {
    let mut told = Told::new("");
    told.answered("", &[("look", "0"), ("write", "1"), ("look", "2")], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "r");
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    let asked = question(planned[0].key, &planned[0].call, wants);
    if wants != Wants::Approval {
        told.feed(begun(planned[0].key, &planned[0].call));
    }
    told.feed(Fact::PersonAsked(Box::new(asked.clone())));
    (told, asked)
}

fn allowed(asked: &PersonAsked, ruling: Option<Ruling>) -> PersonAnswered {
    PersonAnswered { ruling, ..asked.answered("ada", Way::Terminal, 1) }
}

fn says(asked: &PersonAsked, said: &str) -> PersonAnswered {
    PersonAnswered { said: Some(said.to_owned()), ..asked.answered("ada", Way::Terminal, 1) }
}

fn hears(told: &mut Told, answer: PersonAnswered) {
    told.feed(Fact::PersonAnswered(Box::new(answer)));
}

fn refused(told: &Told) -> Refused {
    match told.run.next() {
        Step::Refuse(refused) => refused.into_iter().next().unwrap(),
        other => panic!("refuses, not {other:?}"),
    }
}

fn waits(told: &Told) -> Option<Outcome> {
    match told.run.next() {
        Step::Person { outcome, .. } => Some(*outcome),
        _ => None,
    }
}

#[test]
fn a_run_that_waits_says_for_what_and_how_it_goes_on() {
    let (told, asked) = waiting(Wants::Approval);
    let outcome = waits(&told).unwrap();
    assert_eq!(
        (outcome.stop_reason, outcome.trigger.as_str()),
        (StopReason::AwaitingApproval, "policy.write")
    );
    let (run_id, evidence) = (RunId::from_draw(1), outcome.evidence);
    assert_eq!(
        evidence.detail,
        format!("`write` at {} waits for approval (policy.write): may I?", asked.key)
    );
    assert_eq!(evidence.spans, [run_id.span("execute_tool", 1, 1)]);
    let next = evidence.next_safe_action.unwrap();
    assert!(next.starts_with(&format!("loopdeck approve {run_id}, or ")) && evidence.resumable, "{next}");

    let (told, asked) = waiting(Wants::Input);
    let outcome = waits(&told).unwrap();
    assert_eq!(outcome.stop_reason, StopReason::AwaitingInput);
    assert_eq!(outcome.evidence.detail, format!("`write` at {} asks: may I?", asked.key));
    let next = outcome.evidence.next_safe_action.unwrap();
    assert_eq!(next, format!("loopdeck resume {run_id} --say ANSWER"));
}

#[test]
fn a_yes_is_leave_until_the_call_has_its_result() {
    let (mut told, asked) = waiting(Wants::Approval);
    hears(&mut told, allowed(&asked, Some(Ruling::Allow)));
    assert_eq!(told.planned(), [(1, "write".to_owned())], "it was not begun, so it may be");
    let leave = told.run.state().people.approvals.of_call(asked.key).unwrap();
    assert_eq!((leave.token, leave.by.as_str()), (asked.token, "ada (terminal)"));
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    told.finished(asked.key, &planned[0].call, ToolStatus::Ok, "done");
    assert_eq!(told.run.state().people.approvals.of_call(asked.key), None, "once");
}

#[test]
fn a_no_refuses_the_call_with_its_reason_and_is_remembered() {
    let (mut told, asked) = waiting(Wants::Approval);
    let no = PersonAnswered { reason: Some("too dear".to_owned()), ..allowed(&asked, Some(Ruling::Deny)) };
    hears(&mut told, no);
    let no = refused(&told);
    assert_eq!((no.status, no.stage), (ToolStatus::Denied, Some(FailureStage::Permission)));
    assert_eq!(no.message, "ada (terminal) does not allow this call of `write`: too dear");
    assert_eq!(no.permission.as_deref(), Some("deny:policy.write by ada (terminal)"));
    told.finished_at(no.key, &no.call, no.status, no.stage, None, &no.message);
    assert!(told.run.state().people.approvals.denial(&asked.args_hash).is_some());
    assert_eq!(told.planned(), [(2, "look".to_owned())], "the run goes on");
}

#[test]
fn what_is_no_answer_to_the_question_leaves_it_waiting_and_what_is_too_late_has_it_put_again() {
    let (mut told, asked) = waiting(Wants::Approval);
    let other = PersonAnswered { token: NO_HASH, ..allowed(&asked, Some(Ruling::Allow)) };
    hears(&mut told, other);
    assert!(waits(&told).is_some(), "an answer to another question");

    for (at_s, given) in [(60, true), (61, false)] {
        let (mut told, asked) = waiting(Wants::Approval);
        let fact = Fact::PersonAnswered(Box::new(allowed(&asked, Some(Ruling::Allow))));
        told.run.feed(at_s * SECOND, &fact);
        let leave = told.run.state().people.approvals.of_call(asked.key).is_some();
        assert_eq!((waits(&told).is_some(), leave), (false, given), "after {at_s} s");
    }
    // Neither yes nor no is neither.
    let (mut told, asked) = waiting(Wants::Approval);
    hears(&mut told, allowed(&asked, None));
    assert_eq!(told.planned(), [(1, "write".to_owned())]);
    assert_eq!(told.run.state().people.approvals.of_call(asked.key), None);
}

#[test]
fn what_is_said_to_a_tools_question_goes_to_the_tool_ends_the_call_or_is_heard_by_the_model() {
    for (said, is_update) in [("yes", false), ("make it three", true)] {
        let (mut told, asked) = waiting(Wants::Confirmation);
        hears(&mut told, says(&asked, said));
        let spoken = Spoken { is_update, said: said.to_owned() };
        assert_eq!(told.run.state().people.spoken(asked.key), Some(&spoken));
        assert_eq!(told.planned(), [(1, "write".to_owned())], "the same tool, and no model call");
        let Step::Run(planned) = told.run.next() else { panic!("runs") };
        told.finished(asked.key, &planned[0].call, ToolStatus::Ok, "done");
        assert_eq!(told.run.state().people.spoken(asked.key), None);
    }
    let (mut told, asked) = waiting(Wants::Confirmation);
    hears(&mut told, says(&asked, "never mind"));
    let no = refused(&told);
    assert_eq!((no.status, no.stage, no.permission), (ToolStatus::Cancelled, None, None));
    assert_eq!(no.message, "ada (terminal) said no: never mind");

    let (mut told, asked) = waiting(Wants::Confirmation);
    hears(&mut told, says(&asked, "what is the weather in Rome?"));
    assert!(refused(&told).message.contains("asked for something else instead"));
    told.work(ToolStatus::Ok, "r");
    let last = told.run.state().messages.last().unwrap();
    assert_eq!((last.role, last.joined_text().as_str()), (Role::User, "what is the weather in Rome?"));
    told.answered("", &[("look", "9")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    assert_eq!(told.run.state().messages.last().map(|last| last.role), Some(Role::Tool), "said once");
}

#[test]
fn a_bare_decision_is_a_plain_yes_or_no_to_a_tool() {
    for (ruling, said) in [(Some(Ruling::Allow), Some("yes")), (Some(Ruling::Deny), None), (None, None)] {
        let (mut told, asked) = waiting(Wants::Input);
        hears(&mut told, allowed(&asked, ruling));
        assert_eq!(told.run.state().people.spoken(asked.key).map(|spoken| spoken.said.as_str()), said);
        assert_eq!(matches!(told.run.next(), Step::Refuse(_)), said.is_none(), "{ruling:?}");
    }
}

#[test]
fn the_result_of_the_call_ends_the_question_and_a_question_outside_a_turn_is_none() {
    let (mut told, asked) = waiting(Wants::Input);
    let call =
        ToolCall { call_id: "c1".to_owned(), tool_name: "write".to_owned(), arguments: "1".to_owned() };
    let other = CallKey { index: 2, ..asked.key };
    told.finished(other, &call, ToolStatus::Ok, "r");
    assert!(waits(&told).is_some(), "another call's result answers nothing");
    told.finished(asked.key, &call, ToolStatus::Ok, "r");
    assert!(told.run.state().people.waiting().is_none());

    let mut told = Told::new("");
    told.feed(Fact::PersonAsked(Box::new(asked)));
    assert!(matches!(told.run.next(), Step::Ask { .. }));
    assert!(told.run.state().people.waiting().is_none());
}

#[test]
fn the_time_a_person_takes_is_not_the_runs() {
    let (mut told, asked) = waiting(Wants::Approval);
    let before = told.run.state().elapsed_ms(told.run.state().last_at_ns);
    let fact = Fact::PersonAnswered(Box::new(allowed(&asked, Some(Ruling::Allow))));
    told.run.feed(50 * SECOND, &fact);
    assert_eq!(told.run.state().elapsed_ms(50 * SECOND), before);
    assert_eq!(told.run.state().elapsed_ms(51 * SECOND), before + 1000);
}

#[test]
fn a_run_that_waited_goes_on_waiting_until_its_question_expires() {
    for (at_s, still) in [(60, true), (61, false)] {
        let (mut told, _) = waiting(Wants::Approval);
        let outcome = Box::new(waits(&told).unwrap());
        told.feed(Fact::RunEnded(Box::new(RunEnded { outcome: *outcome, heard: Vec::new() })));
        let resumed =
            Resumed { budget: None, limits: BTreeMap::new(), children: Vec::new(), heard: Vec::new() };
        told.run.feed(at_s * SECOND, &Fact::Resumed(Box::new(resumed)));
        assert_eq!(waits(&told).is_some(), still, "after {at_s} s");
        assert_eq!(told.run.state().calls.len(), 1, "it was stopped by no rule, so every count stays");
        if !still {
            assert_eq!(told.planned(), [(1, "write".to_owned())], "it is asked about again");
        }
    }
}

#[test]
fn a_stop_is_stronger_than_a_question() {
    let (mut told, _) = waiting(Wants::Approval);
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    assert_eq!(refused(&told).status, ToolStatus::Cancelled, "not begun, so it has no unknown outcome");
    told.work(ToolStatus::Ok, "");
    assert_eq!(stop_of(&told).0, StopReason::Aborted);
}
