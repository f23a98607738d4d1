//! A goal's checks, and answers that should have been plans.

use super::*;

fn working(every: u32, more: &str) -> Told {
    let goal = "[goal]\nobjective = \"the shelf is full\"\ndone_condition = \"look says so\"";
    Told::new(&format!("{more}\n{goal}\ncheckpoint_every = {every}\n"))
}

/// A turn in which these calls end so; gives back what the machine told.
fn turn(told: &mut Told, calls: &[(&str, &str, ToolStatus)]) -> Vec<Event> {
    let asked: Vec<(&str, &str)> = calls.iter().map(|(name, arguments, _)| (*name, *arguments)).collect();
    told.answered("", &asked, Finish::ToolUse);
    let mut events = Vec::new();
    for _ in 0..99 {
        match told.run.next() {
            Step::Run(planned) => {
                for one in planned {
                    let (.., status) = calls[one.key.index as usize];
                    let result = one.call.arguments.clone();
                    events.extend(told.finished(one.key, &one.call, status, &result));
                }
            }
            Step::Refuse(refused) => {
                for one in refused {
                    events.extend(told.finished_at(one.key, &one.call, one.status, one.stage, None, "no"));
                }
            }
            _ => return events,
        }
    }
    panic!("the turn does not end");
}

fn checks(told: &Told) -> &[Check] {
    &told.run.state().goal.as_ref().unwrap().checkpoints
}

#[test]
fn a_check_is_made_every_so_many_turns_and_is_put_before_the_model() {
    let mut told = working(2, "");
    assert_eq!(turn(&mut told, &[("look", "1", ToolStatus::Ok)]), [], "not after the first");
    assert_eq!(told.run.state().said, []);
    let events = turn(&mut told, &[("look", "2", ToolStatus::Ok), ("write", "3", ToolStatus::Error)]);
    let check = Check {
        turn: 2,
        is_valid: true,
        evidence: vec!["look at turn 1 call 0".to_owned(), "look at turn 2 call 0".to_owned()],
        is_within_budget: true,
        is_done: false,
        wants_approval: false,
        wants_handoff: false,
    };
    assert_eq!(events, [Event::Checked(Box::new(check.clone()))]);
    let said = told.run.state().said.iter().map(Message::joined_text).collect::<Vec<_>>();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("Checkpoint.") && said[0].ends_with(&serde_json::to_string(&check).unwrap()));
    let progress = &told.run.state().goal.as_ref().unwrap().progress;
    let done: Vec<_> = progress.iter().map(|one| (one.turn, one.calls.join(", "))).collect();
    assert_eq!(done, [(1, "look ok".to_owned()), (2, "look ok, write error".to_owned())]);
    assert_eq!(told.refolded().state(), told.run.state());
}

#[test]
fn a_check_looks_at_what_happened_since_the_one_before() {
    let mut told = working(1, "");
    turn(&mut told, &[("look", "1", ToolStatus::Ok)]);
    turn(&mut told, &[("look", "2", ToolStatus::Error)]);
    turn(&mut told, &[("look", "3", ToolStatus::Denied)]);
    let seen: Vec<_> =
        checks(&told).iter().map(|one| (one.is_valid, one.evidence.len(), one.wants_approval)).collect();
    assert_eq!(seen, [(true, 1, false), (false, 0, false), (false, 0, true)]);
}

#[test]
fn a_check_names_no_more_than_ten_calls() {
    let mut told = working(1, "[budget]\nmax_calls_per_tool = 20");
    let arguments: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let calls: Vec<_> = arguments.iter().map(|one| ("look", one.as_str(), ToolStatus::Ok)).collect();
    turn(&mut told, &calls);
    assert_eq!(checks(&told)[0].evidence.len(), 10);
}

#[test]
fn four_fifths_of_any_budget_are_time_to_hand_over() {
    // 15 tokens a turn, and 3 of 4 turns are too few of them.
    for (budget, turns, nearly) in [
        ("max_model_turns = 5", 3, false),
        ("max_model_turns = 5", 4, true),
        ("max_total_tokens = 76", 4, false),
        ("max_total_tokens = 75", 4, true),
    ] {
        let mut told = working(turns, &format!("[budget]\n{budget}"));
        (0..turns).for_each(|n| drop(turn(&mut told, &[("look", &n.to_string(), ToolStatus::Ok)])));
        let check = &checks(&told)[0];
        assert_eq!((check.wants_handoff, check.is_within_budget), (nearly, true), "{budget}");
    }
    let mut told = working(1, "[budget]\nmax_model_turns = 1");
    turn(&mut told, &[("look", "1", ToolStatus::Ok)]);
    assert!(!checks(&told)[0].is_within_budget && checks(&told)[0].wants_handoff);
}

#[test]
fn dollars_count_as_tokens_do() {
    for (limit, nearly) in [(1.26, false), (1.25, true)] {
        let mut told = working(1, &format!("[budget]\nmax_total_cost = {limit}"));
        let call =
            ToolCall { call_id: "c0".to_owned(), tool_name: "look".to_owned(), arguments: "1".to_owned() };
        told.heard_for(Some(answer(vec![Part::ToolCall(call)])), None, Some(1.0));
        told.work(ToolStatus::Ok, "r");
        assert_eq!(checks(&told)[0].wants_handoff, nearly, "1 of {limit}");
    }
}

#[test]
fn the_last_check_is_made_when_the_run_ends_and_the_model_is_not_asked_again() {
    for (answer, done) in [(r#"{"answer":"full"}"#, true), (r#"{"reason":"closed"}"#, false)] {
        let mut told = working(5, "");
        let name = if done { "final_answer" } else { "cannot_complete" };
        turn(&mut told, &[("look", "1", ToolStatus::Ok), (name, answer, ToolStatus::Ok)]);
        assert_eq!((checks(&told).len(), checks(&told)[0].is_done), (1, done));
        assert_eq!(told.run.state().said, []);
    }
}

#[test]
fn a_goal_keeps_the_limits_it_is_worked_at_under_and_a_plain_task_has_none() {
    let told = working(5, "[budget]\nmax_model_turns = 7");
    let goal = told.run.state().goal.as_ref().unwrap();
    assert_eq!((goal.budget["turns"], goal.goal.objective.as_str()), (7.0, "the shelf is full"));
    assert_eq!(Told::new("").run.state().goal, None);
}

#[test]
fn what_is_no_plan_counts_as_an_error_and_too_many_stop_the_run() {
    let mut told = Told::new("[loop]\nplanner = true\n[budget]\nmax_errors = 2");
    for errors in 1..=2 {
        let events = told.answered("I will look now.", &[], Finish::EndTurn);
        assert_eq!(events, [Event::Nudged { turn: errors }]);
        let said = told.run.state().said.last().map(Message::joined_text).unwrap();
        assert!(said.starts_with("That was no plan"), "{said}");
        assert_eq!(told.run.state().errors, errors);
    }
    told.answered("", &[], Finish::EndTurn);
    let outcome = told.outcome();
    assert_eq!((outcome.stop_reason, outcome.trigger.as_str()), (StopReason::ErrorBudget, "max_errors"));
    assert_eq!((outcome.evidence.threshold, outcome.evidence.observed), (Some(2.0), Some(3.0)));
}

#[test]
fn what_is_no_answer_at_all_is_no_failed_plan() {
    let planner = "[loop]\nplanner = true";
    let mut told = Told::new(planner);
    told.answered("", &[], Finish::Refusal);
    assert_eq!((stop_of(&told).0, told.run.state().errors), (StopReason::Refused, 0));
    let mut told = Told::new("[loop]\nplanner = true\nmax_nudges = 0");
    told.answered("I will look now.", &[], Finish::EndTurn);
    assert_eq!(
        (told.run.is_stopping(), told.run.state().errors),
        (false, 1),
        "plans are asked for all the same"
    );
    // A plan that was cut off is asked for again, shorter; one that is none begins the count anew.
    let mut told = Told::new(planner);
    told.answered("{\"tool\":", &[], Finish::Length);
    assert_eq!((told.run.state().errors, told.run.state().truncated_in_a_row), (0, 1));
    told.answered("no plan", &[], Finish::EndTurn);
    assert_eq!((told.run.state().errors, told.run.state().truncated_in_a_row), (1, 0));
    told.answered("", &[("look", "{}")], Finish::ToolUse);
    assert_eq!(told.planned(), [(0, "look".to_owned())], "a plan is carried out");
    let mut told = Told::new("");
    told.answered("so it is", &[], Finish::EndTurn);
    assert_eq!(stop_of(&told).0, StopReason::Completed, "where nobody plans, text is an answer");
}
