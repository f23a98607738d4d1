//! What the machine remembers: counts, costs, time, and which call has its result.

use super::*;

const KEY: CallKey = CallKey { turn: 1, index: 0 };

fn call(tool_name: &str) -> ToolCall {
    ToolCall { call_id: "c0".to_owned(), tool_name: tool_name.to_owned(), arguments: "{}".to_owned() }
}

/// A run that asked for one call of this tool.
fn calling(tool_name: &str) -> Told {
    let mut told = Told::new("");
    told.answered("", &[(tool_name, "{}")], Finish::ToolUse);
    told
}

#[test]
fn each_way_a_call_can_end_is_counted_as_what_it_is() {
    use FailureStage::{Budget, Execution, Permission, Timeout, UnknownTool, Validation};
    // Whether it ran, and whether it is an error, an unknown tool, a call over its budget.
    for (status, stage, ran, counts) in [
        (ToolStatus::Ok, None, 1, (0, 0, 0)),
        (ToolStatus::Error, Some(Execution), 1, (1, 0, 0)),
        (ToolStatus::Timeout, Some(Timeout), 1, (1, 0, 0)),
        (ToolStatus::Cancelled, Some(Execution), 1, (0, 0, 0)),
        (ToolStatus::Cancelled, None, 0, (0, 0, 0)),
        (ToolStatus::UnknownOutcome, Some(Execution), 1, (0, 0, 0)),
        (ToolStatus::Error, Some(Validation), 0, (1, 0, 0)),
        (ToolStatus::Denied, Some(Permission), 0, (0, 0, 0)),
        (ToolStatus::Denied, Some(Budget), 0, (0, 0, 1)),
        (ToolStatus::Error, Some(UnknownTool), 0, (1, 1, 0)),
    ] {
        let mut told = calling("look");
        let events = told.finished_at(KEY, &call("look"), status, stage, None, "r");
        let state = told.run.state();
        assert_eq!(state.ran.get("look").copied().unwrap_or(0), ran, "{status} {stage:?}");
        assert_eq!((state.errors, state.unknown_tools, state.over_budget), counts, "{status} {stage:?}");
        assert_eq!((state.tool_calls, state.calls.len()), (1, 1));
        assert_eq!(state.calls[0].span, RunId::from_draw(1).span("execute_tool", 1, 0));
        assert_eq!(events.is_empty(), stage != Some(UnknownTool));
    }
}

#[test]
fn a_result_counts_for_the_call_and_the_turn_that_it_names() {
    let mut told = calling("look");
    told.finished(CallKey { turn: 2, index: 0 }, &call("look"), ToolStatus::Ok, "of another turn");
    told.finished(CallKey { turn: 1, index: 1 }, &call("look"), ToolStatus::Ok, "of no call");
    assert_eq!(told.planned(), [(0, "look".to_owned())]);
    told.finished(KEY, &call("look"), ToolStatus::Error, "broken");
    let Some(Part::ToolResult(result)) = told.run.state().messages[2].parts.first() else {
        panic!("a result")
    };
    assert_eq!((result.call_id.as_str(), result.content.as_str(), result.is_error), ("c0", "broken", true));
}

#[test]
fn the_cost_of_a_run_is_known_only_if_that_of_every_call_is() {
    let mut told = Told::new("");
    let asks = |told: &mut Told, cost_usd| {
        let call = ToolCall { arguments: told.facts.len().to_string(), ..call("look") };
        told.heard_for(Some(super::answer(vec![Part::ToolCall(call)])), None, cost_usd);
        told.work(ToolStatus::Ok, "r");
    };
    assert_eq!(told.run.state().total_cost_usd(), None);
    asks(&mut told, Some(0.5));
    asks(&mut told, Some(0.25));
    assert_eq!(told.run.state().total_cost_usd(), Some(0.75));
    asks(&mut told, None);
    assert_eq!((told.run.state().total_cost_usd(), told.run.state().cost_usd), (None, Some(0.75)));
    assert_eq!(told.run.state().last_tokens, Some(15));
}

#[test]
fn what_a_tool_said_that_ends_the_run_is_told_whole_or_not_at_all() {
    for (chars, whole) in [(300, true), (301, false)] {
        let mut told = calling("look");
        let said = "é".repeat(chars);
        let stage = Some(FailureStage::Execution);
        told.finished_at(KEY, &call("look"), ToolStatus::Error, stage, Some(FaultClass::Fatal), &said);
        let wanted = if whole { said } else { "its result says more".to_owned() };
        assert_eq!(told.outcome().evidence.detail, format!("`look` at {KEY}: {wanted}"));
    }
}

#[test]
fn time_is_counted_from_the_first_fact_in_whole_milliseconds_and_never_runs_back() {
    let mut told = Told::new("");
    told.run.feed(1_999_999, &Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    assert_eq!(told.outcome().duration_ms, 1);
    told.run.feed(5, &Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    assert_eq!(told.outcome().duration_ms, 1, "the clock went back");
    let state = State { started_at_ns: 7_000_000, idle_ns: 2_000_000, ..State::default() };
    assert_eq!([6_000_000, 9_000_000, 12_500_000].map(|at| state.elapsed_ms(at)), [0, 0, 3]);
}
