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
    assert_ne!(permit().idempotency_key(), idempotency_key(&RunId::from_draw(2), KEY));
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
