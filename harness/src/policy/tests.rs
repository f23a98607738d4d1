//! Decisions: the strictest wins, and leave is worth something for the exact action alone.

use super::*;
use crate::config::PolicyRule;
use crate::tool::Effect;
use serde_json::json;
use trace::fact::{PersonAsked, Ruling, Wants, Way};

const RUN: u64 = 1;
const KEY: CallKey = CallKey { turn: 1, index: 0 };
const ARGUMENTS: &str = "{\"n\":1}";

fn spec(risk: Risk) -> ToolSpec {
    ToolSpec {
        name: "t".to_owned(),
        description: String::new(),
        input_schema: json!({}),
        risk,
        effect: Effect::Pure,
        timeout_ms: 1,
        output_schema: None,
    }
}

fn call() -> ToolCall {
    ToolCall { call_id: "c".to_owned(), tool_name: "t".to_owned(), arguments: ARGUMENTS.to_owned() }
}

fn args_hash() -> Hash {
    trace::canonical::args_hash("t", ARGUMENTS)
}

/// A decision about the call at this time, after what people decided.
fn decided_at(
    table: &PolicyTable,
    risk: Risk,
    own: &CanUse,
    approvals: &Approvals,
    arguments: &str,
    now_ns: i64,
) -> Decision {
    let (run, call, spec) = (RunId::from_draw(RUN), call(), spec(risk));
    let args_hash = args_hash();
    let matter = Matter {
        run: &run,
        key: KEY,
        call: &call,
        spec: &spec,
        arguments,
        args_hash,
        approvals,
        spoken: None,
        now_ns,
    };
    decide(table, &matter, own)
}

fn decided(table: &PolicyTable, risk: Risk, own: &CanUse) -> Decision {
    decided_at(table, risk, own, &Approvals::default(), ARGUMENTS, 0)
}

fn rule(decision: Verdict) -> PolicyRule {
    PolicyRule { tool: "t".to_owned(), decision, reason: String::new() }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow(permit) => permit.verdict(),
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

#[test]
fn the_strictest_of_all_verdicts_wins_whatever_the_order() {
    let all = [Verdict::Allow, Verdict::Sandbox, Verdict::Ask, Verdict::Deny];
    let words = ["allow", "sandbox", "ask", "deny"];
    for (by_risk, _) in all.iter().zip(words) {
        for by_rule in all {
            for own in all {
                let table =
                    PolicyTable { write: *by_risk, rules: vec![rule(by_rule)], ..PolicyTable::default() };
                let own = CanUse { verdict: own, reason: String::new() };
                let wanted = [*by_risk, by_rule, own.verdict].into_iter().max().unwrap();
                let wanted = words[all.iter().position(|one| *one == wanted).unwrap()];
                assert_eq!(word(&decided(&table, Risk::Write, &own)), wanted, "{table:?} {own:?}");
            }
        }
    }
    for rules in [[Verdict::Deny, Verdict::Allow], [Verdict::Allow, Verdict::Deny]] {
        let table = PolicyTable { rules: rules.map(rule).to_vec(), ..PolicyTable::default() };
        assert_eq!(word(&decided(&table, Risk::Read, &CanUse::default())), "deny");
    }
}

#[test]
fn the_rule_that_decided_is_named() {
    let table =
        PolicyTable { write: Verdict::Deny, rules: vec![rule(Verdict::Allow)], ..PolicyTable::default() };
    let denied = decided(&table, Risk::Write, &CanUse::default());
    assert!(matches!(denied, Decision::Deny { rule, .. } if rule == "policy.write"));
    let own = CanUse { verdict: Verdict::Deny, reason: "closed on Sundays".to_owned() };
    let denied = decided(&PolicyTable::default(), Risk::Read, &own);
    assert!(
        matches!(denied, Decision::Deny { rule, reason } if rule == CAN_USE && reason == "closed on Sundays")
    );
}

#[test]
fn a_permit_has_one_key_a_call_and_run() {
    let permit = || match decided(&PolicyTable::default(), Risk::Read, &CanUse::default()) {
        Decision::Allow(permit) => permit,
        other => panic!("allowed, not {other:?}"),
    };
    assert_eq!(permit().idempotency_key(), permit().idempotency_key());
    assert_eq!(permit().idempotency_key(), idempotency_key(&RunId::from_draw(RUN), KEY));
    let others = [
        idempotency_key(&RunId::from_draw(2), KEY),
        idempotency_key(&RunId::from_draw(RUN), CallKey { turn: 2, ..KEY }),
        idempotency_key(&RunId::from_draw(RUN), CallKey { index: 1, ..KEY }),
    ];
    assert!(!others.contains(&permit().idempotency_key().to_owned()), "{others:?}");
}

#[test]
fn of_equally_strict_rules_the_last_says_why_and_the_tool_comes_after_them() {
    let reasoned = |reason: &str| PolicyRule { reason: reason.to_owned(), ..rule(Verdict::Deny) };
    let other = PolicyRule { tool: "other".to_owned(), ..reasoned("not this one") };
    let table =
        PolicyTable { rules: vec![reasoned("first"), reasoned("last"), other], ..PolicyTable::default() };
    let own = CanUse { verdict: Verdict::Deny, reason: "own".to_owned() };
    let Decision::Deny { rule, reason } = decided(&table, Risk::Read, &own) else { panic!("denied") };
    assert_eq!((rule.as_str(), reason.as_str()), ("policy.rule[1]", "last"));
    let table = PolicyTable { external: Verdict::Deny, ..PolicyTable::default() };
    let Decision::Deny { reason, .. } = decided(&table, Risk::External, &own) else { panic!("denied") };
    assert_eq!(reason, "`t` is not allowed (policy.external)");
}

#[test]
fn each_risk_has_a_rule_of_its_own() {
    let deny = Verdict::Deny;
    for (risk, table) in [
        (Risk::Read, PolicyTable { read: deny, ..PolicyTable::default() }),
        (Risk::Write, PolicyTable { write: deny, ..PolicyTable::default() }),
        (Risk::Execute, PolicyTable { execute: deny, ..PolicyTable::default() }),
        (Risk::External, PolicyTable { external: deny, ..PolicyTable::default() }),
    ] {
        for other in [Risk::Read, Risk::Write, Risk::Execute, Risk::External] {
            let wanted = if other == risk { "deny" } else { "allow" };
            assert_eq!(word(&decided(&table, other, &CanUse::default())), wanted, "{risk:?} {other:?}");
        }
    }
}

#[test]
fn a_permit_tells_what_may_be_done_and_on_whose_word() {
    let permit = |verdict| {
        let table = PolicyTable { write: verdict, ..PolicyTable::default() };
        match decided(&table, Risk::Write, &CanUse::default()) {
            Decision::Allow(permit) => permit,
            other => panic!("allowed, not {other:?}"),
        }
    };
    let sandboxed = permit(Verdict::Sandbox);
    assert_eq!((sandboxed.is_sandboxed(), sandboxed.verdict()), (true, "sandbox"));
    let mut plain = permit(Verdict::Allow);
    assert_eq!((plain.is_sandboxed(), plain.verdict(), plain.rule()), (false, "allow", "policy.write"));
    assert_eq!(
        (plain.key(), plain.call_id(), plain.tool_name(), plain.arguments()),
        (KEY, "c", "t", ARGUMENTS)
    );
    assert_eq!((plain.spoken(), plain.allowance(), plain.traceparent()), (None, None, None));
    assert!(plain.situation().is_none());

    let allowance = Allowance {
        tool_calls: 1,
        wall_ms: 2,
        input_tokens: None,
        output_tokens: None,
        total_tokens: Some(3),
        cost_usd: None,
    };
    plain.allow(Some(allowance));
    let run = RunId::from_draw(RUN);
    plain.show(Some(Situation {
        run_id: run.clone(),
        turn: 7,
        messages: Vec::new(),
        references: std::collections::BTreeMap::new(),
    }));
    assert_eq!(plain.allowance(), Some(allowance));
    assert_eq!(plain.situation().map(Situation::turn), Some(7));
    let traced = plain.in_trace(Some(TraceId::new([1; 16])), &run);
    let span = run.span("execute_tool", 1, 0);
    assert_eq!(traced.traceparent(), Some(format!("00-{}-{span}-01", "01".repeat(16)).as_str()));
}

#[test]
fn what_a_person_said_is_an_agreement_or_a_change() {
    let (run, call, spec) = (RunId::from_draw(RUN), call(), spec(Risk::Read));
    for (is_update, word) in [(false, "accept"), (true, "update")] {
        let spoken = Spoken { is_update, said: "three".to_owned() };
        let matter = Matter {
            run: &run,
            key: KEY,
            call: &call,
            spec: &spec,
            arguments: ARGUMENTS,
            args_hash: args_hash(),
            approvals: &Approvals::default(),
            spoken: Some(&spoken),
            now_ns: 0,
        };
        let decision = decide(&PolicyTable::default(), &matter, &CanUse::default());
        let Decision::Allow(permit) = decision else { panic!("allowed, not {decision:?}") };
        assert_eq!((permit.spoken(), spoken.word()), (Some(&spoken), word), "the tool hears it");
    }
}

#[test]
fn a_no_is_told_with_its_reason_where_one_was_given() {
    let asked = question(RUN, ARGUMENTS, 100);
    for (reason, wanted) in [
        (None, "ada (page) does not allow this call of `t`"),
        (Some(" \n"), "ada (page) does not allow this call of `t`"),
        (Some(" too dear "), "ada (page) does not allow this call of `t`: too dear"),
    ] {
        let mut answer = asked.answered("ada", Way::Page, 1);
        answer.reason = reason.map(str::to_owned);
        assert_eq!(Approvals::default().deny(&asked, &answer).reason, wanted);
    }
}

fn question(run: u64, arguments: &str, expires_at_ns: i64) -> PersonAsked {
    PersonAsked {
        key: KEY,
        call_id: "c".to_owned(),
        tool_name: "t".to_owned(),
        arguments: arguments.to_owned(),
        args_hash: args_hash(),
        wants: Wants::Approval,
        prompt: String::new(),
        rule: "policy.write".to_owned(),
        token: token(&RunId::from_draw(run), KEY, &spec(Risk::Write), arguments, expires_at_ns),
        expires_at_ns,
        heard: Vec::new(),
    }
}

#[test]
fn leave_is_for_the_exact_action_and_expires() {
    let table = PolicyTable { write: Verdict::Ask, ..PolicyTable::default() };
    let own = CanUse::default();
    let cases = [
        ("exactly this", question(RUN, ARGUMENTS, 100), 50, "allow"),
        ("in the last moment", question(RUN, ARGUMENTS, 100), 100, "allow"),
        ("too late", question(RUN, ARGUMENTS, 100), 101, "ask"),
        ("another argument", question(RUN, "{\"n\":2}", 100), 50, "ask"),
        ("another run", question(2, ARGUMENTS, 100), 50, "ask"),
    ];
    for (case, asked, now_ns, wanted) in cases {
        let mut approvals = Approvals::default();
        let mut answer = asked.answered("ada", Way::Terminal, 1);
        answer.ruling = Some(Ruling::Allow);
        approvals.give(&asked, &answer);
        let decision = decided_at(&table, Risk::Write, &own, &approvals, ARGUMENTS, now_ns);
        assert_eq!(word(&decision), wanted, "{case}");
        if let Decision::Allow(permit) = decision {
            assert_eq!(permit.rule(), "policy.write by ada (terminal)");
        }
        approvals.spend(KEY);
        let again = decided_at(&table, Risk::Write, &own, &approvals, ARGUMENTS, now_ns);
        assert_eq!(word(&again), "ask", "{case}: once");
    }
}

#[test]
fn a_no_is_remembered_and_leave_does_not_make_a_deny_an_allow() {
    let asked = question(RUN, ARGUMENTS, 100);
    let mut approvals = Approvals::default();
    approvals.give(&asked, &asked.answered("ada", Way::Page, 1));
    let denying = PolicyTable { write: Verdict::Deny, ..PolicyTable::default() };
    let decision = decided_at(&denying, Risk::Write, &CanUse::default(), &approvals, ARGUMENTS, 1);
    assert_eq!(word(&decision), "deny");
    approvals.deny(&asked, &asked.answered("ada", Way::Page, 1));
    let asking = PolicyTable { write: Verdict::Ask, ..PolicyTable::default() };
    match decided_at(&asking, Risk::Write, &CanUse::default(), &approvals, ARGUMENTS, 1) {
        Decision::Deny { rule, reason } => {
            assert_eq!(rule, "policy.write by ada (page)");
            assert!(reason.contains("not asked again"), "{reason}");
        }
        other => panic!("denied, not {other:?}"),
    }
}
