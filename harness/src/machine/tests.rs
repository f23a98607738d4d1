//! The machine alone, fed by hand: order of steps, limits, stops, and the fold.

mod budget;
mod context;
mod goal;
mod interruption;
mod person;
mod precedence;
mod reserved;
mod shown;
mod state;
mod view;

use super::*;
use crate::tool::{Effect, Risk};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use trace::canonical::{args_hash, result_hash};
use trace::fact::{Fault, ModelAsked, RunEnded, Waited};
use trace::id::{Hash, RunId, TraceId};
use trace::message::{Finish, Part, Response, Usage};

const NO_HASH: Hash = Hash::new([0; 32]);

fn config(settings: &str) -> Arc<AgentConfig> {
    let text = format!("[model]\nname = \"m\"\n{settings}");
    Arc::new(AgentConfig::parse(&text, Path::new("agent.toml")).unwrap())
}

fn tool(name: &str, risk: Risk, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: serde_json::json!({}),
        risk,
        effect,
        timeout_ms: 1000,
        output_schema: None,
    }
}

/// An answer that asks for tools, and what it costs.
fn answer(parts: Vec<Part>) -> Response {
    Response {
        response_id: None,
        response_model: None,
        parts,
        finish: Finish::ToolUse,
        finish_raw: None,
        usage: Usage { input_tokens: Some(10), output_tokens: Some(5), ..Usage::default() },
    }
}

/// A machine with the facts it was fed, one second apart.
struct Told {
    run: Run,
    facts: Vec<(i64, Fact)>,
}

impl Told {
    fn new(settings: &str) -> Self {
        Self::begun(settings, Vec::new())
    }

    /// A run that goes on from what was said before.
    fn begun(settings: &str, earlier: Vec<Message>) -> Self {
        let tools = vec![
            tool("look", Risk::Read, Effect::Pure),
            tool("peek", Risk::Read, Effect::Pure),
            tool("write", Risk::Write, Effect::AtMostOnce),
        ];
        let mut told = Self { run: Run::new(config(settings), Arc::new(tools)), facts: Vec::new() };
        told.feed(Fact::RunStarted(Box::new(RunStarted {
            run_id: RunId::from_draw(1),
            trace_id: TraceId::new([1; 16]),
            parent_span_id: None,
            parent_run_id: None,
            agent: "a".to_owned(),
            service: None,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            wire: "chat".to_owned(),
            task: "do it".to_owned(),
            config: NO_HASH,
            tools: NO_HASH,
            prompt_hash: NO_HASH,
            prompt_name: None,
            prompt_version: None,
            limits: BTreeMap::new(),
            session_id: None,
            continues: None,
            history: None,
            earlier,
            user_id: None,
            environment: None,
            release: None,
            task_id: None,
            trial: None,
            tags: Vec::new(),
            replay_of: None,
            replay_mode: None,
        })));
        told
    }

    fn feed(&mut self, fact: Fact) -> Vec<Event> {
        let at_ns = i64::try_from(self.facts.len()).unwrap() * 1_000_000_000;
        let events = self.run.feed(at_ns, &fact);
        self.facts.push((at_ns, fact));
        events
    }

    fn asked(&mut self) -> (u32, u32) {
        let Step::Ask { turn, attempt } = self.run.next() else { panic!("asks, not {:?}", self.run.next()) };
        self.feed(Fact::ModelAsked(ModelAsked {
            turn,
            attempt,
            endpoint: String::new(),
            stream: false,
            said: Vec::new(),
            parent: None,
            fragments: Vec::new(),
            head: NO_HASH,
            depth: 0,
            frame: NO_HASH,
            body_bytes: 0,
            previous_response_id: None,
            body_hash: NO_HASH,
            heard: Vec::new(),
        }));
        (turn, attempt)
    }

    /// Asks and hears this.
    fn answered(&mut self, text: &str, calls: &[(&str, &str)], finish: Finish) -> Vec<Event> {
        let mut parts = vec![Part::Text { text: text.to_owned() }];
        parts.extend(calls.iter().enumerate().map(|(index, (name, arguments))| {
            Part::ToolCall(ToolCall {
                call_id: format!("c{index}"),
                tool_name: (*name).to_owned(),
                arguments: (*arguments).to_owned(),
            })
        }));
        self.heard(Some(Response { finish, ..answer(parts) }), None)
    }

    fn failed(&mut self, class: FaultClass) -> Vec<Event> {
        self.heard(None, Some(Fault::new(class, "no")))
    }

    fn heard(&mut self, response: Option<Response>, fault: Option<Fault>) -> Vec<Event> {
        self.heard_for(response, fault, None)
    }

    /// Asks and hears this, at this price.
    fn heard_for(
        &mut self,
        response: Option<Response>,
        fault: Option<Fault>,
        cost_usd: Option<f64>,
    ) -> Vec<Event> {
        let (turn, attempt) = self.asked();
        self.feed(Fact::ModelAnswered(Box::new(ModelAnswered {
            turn,
            attempt,
            status: Some(200),
            headers: BTreeMap::new(),
            body: None,
            recut: false,
            cut: false,
            chunks: Vec::new(),
            response,
            fault,
            latency_ns: 0,
            cost_usd,
        })))
    }

    fn finished(&mut self, key: CallKey, call: &ToolCall, status: ToolStatus, result: &str) -> Vec<Event> {
        let stage = (status != ToolStatus::Ok).then_some(FailureStage::Execution);
        self.finished_at(key, call, status, stage, None, result)
    }

    fn finished_at(
        &mut self,
        key: CallKey,
        call: &ToolCall,
        status: ToolStatus,
        failure_stage: Option<FailureStage>,
        error_class: Option<FaultClass>,
        result: &str,
    ) -> Vec<Event> {
        let fact = Self::result_of(key, call, status, failure_stage, error_class, result);
        self.feed(Fact::ToolFinished(Box::new(fact)))
    }

    fn result_of(
        key: CallKey,
        call: &ToolCall,
        status: ToolStatus,
        failure_stage: Option<FailureStage>,
        error_class: Option<FaultClass>,
        result: &str,
    ) -> ToolFinished {
        ToolFinished {
            key,
            call_id: call.call_id.clone(),
            tool_name: call.tool_name.clone(),
            arguments: call.arguments.clone(),
            args_hash: args_hash(&call.tool_name, &call.arguments),
            status,
            result: NO_HASH,
            shown: NO_HASH,
            content: result.to_owned(),
            result_hash: result_hash(result),
            error_class,
            failure_stage,
            permission: None,
            attempts: 1,
            latency_ns: 0,
            child: None,
        }
    }

    /// Runs whatever the machine plans, each with this result, until it asks again or ends.
    fn work(&mut self, status: ToolStatus, result: &str) {
        for _ in 0..99 {
            match self.run.next() {
                Step::Run(planned) => {
                    for one in planned {
                        self.finished(one.key, &one.call, status, result);
                    }
                }
                Step::Refuse(refused) => {
                    for one in refused {
                        self.finished_at(one.key, &one.call, one.status, one.stage, None, &one.message);
                    }
                }
                _ => return,
            }
        }
        panic!("the turn does not end");
    }

    fn planned(&self) -> Vec<(u32, String)> {
        match self.run.next() {
            Step::Run(planned) => {
                planned.into_iter().map(|one| (one.key.index, one.call.tool_name)).collect()
            }
            other => panic!("plans, not {other:?}"),
        }
    }

    fn outcome(&self) -> Outcome {
        match self.run.next() {
            Step::Done(outcome) => *outcome,
            other => panic!("ends, not {other:?}"),
        }
    }

    fn refolded(&self) -> Run {
        let facts = self.facts.iter().map(|(at_ns, fact)| (*at_ns, fact));
        Run::fold(self.run.config.clone(), self.run.tools.clone(), facts)
    }
}

/// The intent of a call.
fn begun(key: CallKey, call: &ToolCall) -> Fact {
    Fact::ToolStarted(trace::fact::ToolStarted {
        key,
        call_id: call.call_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments: call.arguments.clone(),
        args_hash: NO_HASH,
        permission: "allow".to_owned(),
        permission_rule: String::new(),
        idempotent: false,
        synced: true,
        allowance: None,
        heard: Vec::new(),
    })
}

fn stop_of(told: &Told) -> (StopReason, String) {
    let outcome = told.outcome();
    (outcome.stop_reason, outcome.trigger)
}

#[test]
fn an_answer_without_calls_completes_after_one_model_call() {
    let mut told = Told::new("");
    told.answered("done", &[], Finish::EndTurn);
    let outcome = told.outcome();
    assert_eq!(
        (outcome.stop_reason, outcome.turns, outcome.answer.as_deref()),
        (StopReason::Completed, 1, Some("done"))
    );
    assert_eq!(outcome.duration_ms, 2000);
    assert_eq!(outcome.evidence.next_safe_action, None);
}

#[test]
fn tool_rounds_cost_one_model_call_each_and_one_for_the_answer() {
    let mut told = Told::new("");
    for round in 0..3 {
        told.answered("", &[("look", &format!("{{\"n\":{round}}}"))], Finish::ToolUse);
        told.work(ToolStatus::Ok, &format!("r{round}"));
    }
    told.answered("done", &[], Finish::EndTurn);
    assert_eq!((told.outcome().turns, told.outcome().tool_calls), (4, 3));
}

#[test]
fn each_limit_names_itself_with_its_figures() {
    let cases = [
        ("[budget]\nmax_model_turns = 2", StopReason::MaxTurns, "max_model_turns", 2.0, 2.0),
        ("[budget]\nmax_total_tokens = 30", StopReason::BudgetExceeded, "max_total_tokens", 30.0, 30.0),
        ("[budget]\nmax_input_tokens = 15", StopReason::BudgetExceeded, "max_input_tokens", 15.0, 20.0),
        ("[budget]\nmax_output_tokens = 7", StopReason::BudgetExceeded, "max_output_tokens", 7.0, 10.0),
        ("[budget]\nmax_wall_time_seconds = 5", StopReason::Timeout, "max_wall_time_seconds", 5.0, 6.0),
    ];
    for (settings, reason, trigger, threshold, observed) in cases {
        let mut told = Told::new(settings);
        for round in 0..2 {
            told.answered("", &[("look", &format!("{{\"n\":{round}}}"))], Finish::ToolUse);
            told.work(ToolStatus::Ok, &format!("r{round}"));
        }
        let outcome = told.outcome();
        assert_eq!((outcome.stop_reason, outcome.trigger.as_str()), (reason, trigger), "{settings}");
        let evidence = outcome.evidence;
        assert_eq!((evidence.threshold, evidence.observed), (Some(threshold), Some(observed)), "{settings}");
        assert!(evidence.resumable && evidence.next_safe_action.is_some() && evidence.spans.len() == 1);
    }
}

#[test]
fn a_budget_of_nothing_asks_nothing() {
    for settings in
        ["max_model_turns = 0", "max_total_tokens = 0", "max_total_cost = 0.0", "max_wall_time_seconds = 0"]
    {
        let told = Told::new(&format!("[budget]\n{settings}"));
        assert_eq!(told.outcome().turns, 0, "{settings}");
    }
}

#[test]
fn of_limits_that_hold_at_once_the_stronger_is_told() {
    let mut told = Told::new("[budget]\nmax_model_turns = 1\nmax_total_tokens = 15");
    told.answered("", &[("look", "{}")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    assert_eq!(stop_of(&told).0, StopReason::MaxTurns, "turns come before tokens");
}

#[test]
fn completion_wins_over_a_limit_reached_in_the_same_step() {
    let mut told = Told::new("[budget]\nmax_model_turns = 1\nmax_total_tokens = 15");
    told.answered("done", &[], Finish::EndTurn);
    assert_eq!(stop_of(&told).0, StopReason::Completed);
}

#[test]
fn reads_run_together_up_to_the_cap_and_writes_alone() {
    let mut told = Told::new("[budget]\nmax_parallel_tool_calls = 2");
    let calls = [("look", "1"), ("peek", "2"), ("look", "3"), ("write", "4"), ("write", "5"), ("look", "6")];
    told.answered("", &calls, Finish::ToolUse);
    let mut stages = Vec::new();
    while let (Step::Run(planned), true) = (told.run.next(), stages.len() < 9) {
        stages.push(planned.iter().map(|one| one.key.index).collect::<Vec<_>>());
        for one in planned {
            told.finished(one.key, &one.call, ToolStatus::Ok, &one.call.arguments);
        }
    }
    assert_eq!(stages, [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
}

#[test]
fn results_go_back_in_call_order_whatever_order_they_came_in() {
    let mut told = Told::new("");
    told.answered("", &[("look", "1"), ("peek", "2")], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    for one in planned.iter().rev() {
        told.finished(one.key, &one.call, ToolStatus::Ok, &one.call.arguments);
    }
    let last = told.run.state().messages.last().unwrap();
    let ids = last.parts.iter().map(|part| match part {
        Part::ToolResult(result) => (result.call_id.as_str(), result.content.as_str()),
        other => panic!("a result, not {other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [("c0", "1"), ("c1", "2")]);
}

#[test]
fn a_second_result_for_a_call_changes_nothing() {
    let mut told = Told::new("");
    told.answered("", &[("look", "1"), ("write", "2")], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "first");
    let before = told.run.state().calls.len();
    told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "second");
    assert_eq!(told.run.state().calls.len(), before);
}

#[test]
fn three_equal_calls_with_equal_results_stop_the_run_and_a_changing_result_does_not() {
    let mut same = Told::new("");
    let mut changing = Told::new("");
    for round in 0..3 {
        same.answered("", &[("look", "{}")], Finish::ToolUse);
        same.work(ToolStatus::Ok, "still 7");
        if round < 2 {
            assert!(matches!(same.run.next(), Step::Ask { .. }), "not before the third");
        }
        changing.answered("", &[("look", "{}")], Finish::ToolUse);
        changing.work(ToolStatus::Ok, &format!("now {round}"));
    }
    assert_eq!(stop_of(&same), (StopReason::RepeatedCalls, "repeated_call".to_owned()));
    let evidence = same.outcome().evidence;
    let of_turn = |turn| RunId::from_draw(1).span("execute_tool", turn, 0);
    assert_eq!(
        evidence.detail,
        "`look` was called 3 times in a row with the same arguments and the same result"
    );
    assert_eq!((evidence.threshold, evidence.observed), (Some(3.0), Some(3.0)));
    assert_eq!((evidence.spans, evidence.tokens_wasted), ((1..=3).map(of_turn).collect(), Some(30)));
    assert!(evidence.next_safe_action.unwrap().starts_with("tell the model why"));
    assert!(matches!(changing.run.next(), Step::Ask { .. }));
}

#[test]
fn a_polling_tool_may_repeat_and_a_threshold_of_zero_switches_the_rule_off() {
    for settings in ["[loop]\npolling_tools = [\"look\"]", "[loop]\nmax_identical_calls = 0"] {
        let mut told = Told::new(settings);
        for _ in 0..4 {
            told.answered("", &[("look", "{}")], Finish::ToolUse);
            told.work(ToolStatus::Ok, "still 7");
        }
        assert!(matches!(told.run.next(), Step::Ask { .. }), "{settings}");
    }
}

#[test]
fn calls_over_a_tools_budget_are_refused_and_the_run_goes_on() {
    for name in ["write", "peek"] {
        let mut told = Told::new("[budget]\nmax_calls_per_tool = 1");
        told.answered("", &[(name, "1"), (name, "2"), ("look", "3")], Finish::ToolUse);
        assert_eq!(told.planned(), [(0, name.to_owned())], "what may run runs first");
        let Step::Run(planned) = told.run.next() else { panic!("runs") };
        told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "r");
        let Step::Refuse(refused) = told.run.next() else { panic!("refuses") };
        assert_eq!((refused[0].key.index, refused[0].stage), (1, Some(FailureStage::Budget)));
        assert!(refused[0].message.contains("Use a different approach"));
        told.work(ToolStatus::Ok, "r");
        assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }));
    }
}

#[test]
fn the_runs_budget_of_tool_calls_ends_the_run_after_every_call_has_its_result() {
    let mut told = Told::new("[budget]\nmax_tool_calls = 1");
    told.answered("", &[("write", "1"), ("write", "2")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    assert_eq!(stop_of(&told), (StopReason::BudgetExceeded, "max_tool_calls".to_owned()));
    assert_eq!(told.outcome().tool_calls, 2);

    let mut told = Told::new("[budget]\nmax_tool_calls = 2");
    told.answered("", &[("write", "1"), ("write", "2")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }), "the last call that there is may be used");
}

/// The run ends as it must, and goes on with what a person says.
fn end_and_resume(told: &mut Told) {
    let outcome = told.outcome();
    told.feed(Fact::RunEnded(Box::new(RunEnded { outcome, heard: Vec::new() })));
    let resumed = Resumed { budget: None, limits: BTreeMap::new(), children: Vec::new(), heard: Vec::new() };
    told.feed(Fact::Resumed(Box::new(resumed)));
}

#[test]
fn a_run_that_a_rule_stopped_goes_on_with_fresh_counts() {
    let mut told = Told::new("[budget]\nmax_errors = 0");
    told.answered("", &[("look", "1"), ("nope", "2")], Finish::ToolUse);
    told.work(ToolStatus::Error, "no");
    assert_eq!(stop_of(&told).0, StopReason::ErrorBudget);
    end_and_resume(&mut told);
    let state = told.run.state();
    assert_eq!((state.errors, state.unknown_tools, state.calls.len(), state.turns), (0, 0, 0, 1));
    assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }), "{:?}", told.run.next());
    told.answered("", &[("look", "1")], Finish::ToolUse);
    told.work(ToolStatus::Error, "no");
    assert_eq!(stop_of(&told).0, StopReason::ErrorBudget, "and under the same rules");
}

#[test]
fn an_attempt_that_was_cancelled_is_no_failure_of_the_model() {
    let mut told = Told::new("");
    assert_eq!(told.failed(FaultClass::Cancelled), []);
    assert!(!told.run.is_stopping(), "why it was cancelled is the next fact");
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    assert_eq!(stop_of(&told), (StopReason::Aborted, "interrupt".to_owned()));
}

#[test]
fn calls_that_never_began_are_not_charged_to_a_run_that_goes_on() {
    let mut told = Told::new("[budget]\nmax_tool_calls = 1");
    told.answered("", &[("write", "1")], Finish::ToolUse);
    told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
    told.work(ToolStatus::Ok, "r");
    assert_eq!((stop_of(&told).0, told.run.state().ran.len()), (StopReason::Aborted, 0));
    end_and_resume(&mut told);
    told.answered("", &[("write", "1")], Finish::ToolUse);
    assert_eq!(told.planned(), [(0, "write".to_owned())]);
}

#[test]
fn a_truncated_answer_runs_nothing_and_a_second_one_stops() {
    let mut told = Told::new("");
    told.answered("", &[("write", "{\"a\":")], Finish::Length);
    let Step::Refuse(refused) = told.run.next() else { panic!("refuses") };
    assert_eq!(refused[0].stage, Some(FailureStage::Validation));
    told.work(ToolStatus::Ok, "");
    told.answered("", &[("write", "{\"a\":")], Finish::Length);
    told.work(ToolStatus::Ok, "");
    assert_eq!(stop_of(&told).0, StopReason::OutputTruncated);
    assert_eq!(told.outcome().tool_calls, 2, "both calls have their result");
}

#[test]
fn errors_over_the_budget_stop_and_unknown_tools_have_their_own() {
    let mut told = Told::new("[budget]\nmax_errors = 2");
    for round in 0..3 {
        told.answered("", &[("look", &format!("{round}"))], Finish::ToolUse);
        told.work(ToolStatus::Error, "no");
    }
    assert_eq!(stop_of(&told), (StopReason::ErrorBudget, "max_errors".to_owned()));

    let mut told = Told::new("[loop]\nmax_unknown_tools = 1");
    for n in 0..2 {
        told.answered("", &[("nope", &format!("{n}"))], Finish::ToolUse);
        let Step::Run(planned) = told.run.next() else { panic!("runs: one is forgiven") };
        let stage = Some(FailureStage::UnknownTool);
        let (key, call) = (planned[0].key, &planned[0].call);
        let events = told.finished_at(key, call, ToolStatus::Error, stage, None, "no such tool");
        assert!(events.contains(&Event::UnknownTool { tool_name: "nope".to_owned() }));
    }
    assert_eq!(stop_of(&told), (StopReason::ErrorBudget, "max_unknown_tools".to_owned()));
}

#[test]
fn a_fatal_tool_error_stops_after_the_siblings_have_their_results() {
    let mut told = Told::new("");
    told.answered("", &[("write", "1"), ("write", "2")], Finish::ToolUse);
    let Step::Run(planned) = told.run.next() else { panic!("runs") };
    let (key, call) = (planned[0].key, planned[0].call.clone());
    told.finished_at(
        key,
        &call,
        ToolStatus::Error,
        Some(FailureStage::Execution),
        Some(FaultClass::Fatal),
        "broken",
    );
    let Step::Refuse(refused) = told.run.next() else { panic!("refuses the sibling") };
    assert_eq!(refused[0].status, ToolStatus::Cancelled);
    told.work(ToolStatus::Ok, "");
    assert_eq!(stop_of(&told).0, StopReason::FatalToolError);
    let evidence = told.outcome().evidence;
    assert!(evidence.detail.contains("broken"));
    assert_eq!(evidence.spans, [RunId::from_draw(1).span("execute_tool", key.turn, key.index)]);
}

#[test]
fn transient_faults_wait_and_retry_and_others_stop() {
    let mut told = Told::new("");
    for ms in retry::TRANSIENT_MS {
        told.failed(FaultClass::Transient);
        let Step::Wait { turn, attempt, ms: wanted } = told.run.next() else { panic!("waits") };
        assert_eq!((turn, wanted), (1, ms));
        told.feed(Fact::Waited(Waited { turn, attempt, ms }));
    }
    told.failed(FaultClass::Transient);
    assert_eq!(stop_of(&told), (StopReason::ModelError, "retries_exhausted".to_owned()));

    for (class, reason) in [
        (FaultClass::Auth, StopReason::AuthRequired),
        (FaultClass::Permanent, StopReason::ModelError),
        (FaultClass::Overflow, StopReason::ContextExhausted),
    ] {
        let mut told = Told::new("");
        told.failed(class);
        assert_eq!(stop_of(&told).0, reason);
    }
}

#[test]
fn a_cancelled_run_gives_every_open_call_a_result_and_then_ends() {
    for (by, reason) in [("interrupt", StopReason::Aborted), (crate::port::DEADLINE, StopReason::Timeout)] {
        let mut told = Told::new("");
        told.answered("", &[("write", "1"), ("write", "2")], Finish::ToolUse);
        let Step::Run(planned) = told.run.next() else { panic!("runs") };
        told.finished(planned[0].key, &planned[0].call, ToolStatus::Ok, "r");
        told.feed(Fact::Cancelled(Cancelled { by: by.to_owned() }));
        let Step::Refuse(refused) = told.run.next() else { panic!("refuses") };
        assert_eq!((refused.len(), refused[0].status), (1, ToolStatus::Cancelled));
        told.work(ToolStatus::Ok, "");
        assert_eq!(stop_of(&told).0, reason);
    }
}

#[test]
fn an_empty_answer_is_reminded_once_and_then_stops() {
    let mut told = Told::new("");
    assert_eq!(told.answered("", &[], Finish::EndTurn), [Event::Nudged { turn: 1 }]);
    assert_eq!(told.run.state().said.len(), 1);
    told.answered("", &[], Finish::EndTurn);
    assert_eq!(stop_of(&told).0, StopReason::NoFinalAnswer);
}

#[test]
fn a_resumed_run_goes_on_where_it_was_with_the_new_budget_and_without_the_time_between() {
    let mut told = Told::new("[budget]\nmax_model_turns = 1\nmax_wall_time_seconds = 60");
    told.answered("", &[("look", "{}")], Finish::ToolUse);
    told.work(ToolStatus::Ok, "r");
    let outcome = told.outcome();
    told.feed(Fact::RunEnded(Box::new(RunEnded { outcome, heard: Vec::new() })));
    let budget = serde_json::json!({ "max_model_turns": 5, "max_wall_time_seconds": 60 });
    let resumed =
        Resumed { budget: Some(budget), limits: BTreeMap::new(), children: Vec::new(), heard: Vec::new() };
    let late_ns = 3_600_000_000_000;
    told.run.feed(late_ns, &Fact::Resumed(Box::new(resumed)));
    assert!(matches!(told.run.next(), Step::Ask { turn: 2, .. }), "{:?}", told.run.next());
    assert_eq!(told.run.state().elapsed_ms(late_ns), 4000);
}

#[test]
fn after_a_crash_a_started_call_is_unknown_unless_it_may_be_repeated() {
    for (name, repeats) in [("write", false), ("look", true)] {
        let mut told = Told::new("");
        told.answered("", &[(name, "{}")], Finish::ToolUse);
        let Step::Run(planned) = told.run.next() else { panic!("runs") };
        told.feed(begun(planned[0].key, &planned[0].call));
        match told.refolded().next() {
            Step::Run(_) => assert!(repeats, "{name} must not run twice"),
            Step::Refuse(refused) => {
                assert!(!repeats);
                assert_eq!(refused[0].status, ToolStatus::UnknownOutcome);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What a scripted world does next, for properties.
#[derive(Debug, Clone)]
enum World {
    Says(String, Vec<(usize, u8)>, u8),
    Fails(u8),
    Cancels,
}

fn world() -> impl Strategy<Value = World> {
    let calls = prop::collection::vec((0..4_usize, 0..3_u8), 0..4);
    prop_oneof![
        6 => ("[a-z]{0,3}", calls, 0..6_u8).prop_map(|(text, calls, finish)| World::Says(text, calls, finish)),
        2 => (0..5_u8).prop_map(World::Fails),
        1 => Just(World::Cancels),
    ]
}

fn play(told: &mut Told, world: &World) {
    let names = ["look", "peek", "write", "nope"];
    match world {
        World::Says(text, calls, finish) => {
            let arguments: Vec<String> = calls.iter().map(|(_, n)| format!("{{\"n\":{n}}}")).collect();
            let calls: Vec<(&str, &str)> = calls
                .iter()
                .zip(&arguments)
                .map(|((tool, _), arguments)| (names[*tool], arguments.as_str()))
                .collect();
            let finish = match finish {
                0 | 1 => Finish::ToolUse,
                2 => Finish::EndTurn,
                3 => Finish::Length,
                4 => Finish::PauseTurn,
                _ => Finish::Other("x".to_owned()),
            };
            told.answered(text, &calls, finish);
        }
        World::Fails(class) => {
            told.failed(FaultClass::ALL[*class as usize]);
        }
        World::Cancels => {
            told.feed(Fact::Cancelled(Cancelled { by: "interrupt".to_owned() }));
        }
    }
}

proptest! {
    #[test]
    fn any_world_ends_within_its_limits_with_one_result_per_call_and_folds_to_the_same_state(
        worlds in prop::collection::vec(world(), 1..40),
        strategy in prop::sample::select(vec!["none", "prune", "summarise", "selective"]),
        max_tokens in 5..60_u64,
    ) {
        let mut told = Told::new(&format!(
            "[budget]\nmax_model_turns = 6\nmax_tool_calls = 8\n\
             [context]\nstrategy = \"{strategy}\"\nmax_tokens = {max_tokens}\nkeep_turns = 2"
        ));
        for world in &worlds {
            match told.run.next() {
                Step::Ask { .. } => play(&mut told, world),
                Step::Wait { turn, attempt, ms } => { told.feed(Fact::Waited(Waited { turn, attempt, ms })); }
                Step::Run(_) | Step::Refuse(_) => told.work(ToolStatus::Ok, "r"),
                Step::Summarise { .. } | Step::Compact(_) => told.make_room(Some("so far so good")),
                Step::Done(_) | Step::Person { .. } => break,
            }
            let refolded = told.refolded();
            prop_assert_eq!(refolded.state(), told.run.state());
        }
        prop_assert!(told.run.state().turns <= 6);
        let calls: usize = told.run.state().messages.iter().map(|message| message.tool_calls().count()).sum();
        let results = told.run.state().messages.iter().flat_map(|message| &message.parts);
        let results = results.filter(|part| matches!(part, Part::ToolResult(_))).count();
        if !matches!(told.run.next(), Step::Run(_) | Step::Refuse(_)) {
            prop_assert_eq!(calls, results);
        }
    }
}
