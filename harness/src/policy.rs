//! Who may do what: decisions and permits.
//!
//! Place in the flow: the driver asks for a decision after validation and before a call. Only this file can make
//! a [`Permit`], and nothing runs without one, so a side effect without a recorded decision cannot be written.

use crate::config::{PolicyTable, Verdict};
use crate::machine::Allowance;
use crate::tool::situation::Situation;
use crate::tool::{Risk, ToolSpec};
use trace::attribute::operation;
use trace::caller::TraceParent;
use trace::id::{CallKey, Hash, RunId, TraceId};
use trace::message::ToolCall;

/// Leave to run one call, once.
#[derive(Debug)]
pub struct Permit {
    key: CallKey,
    call_id: String,
    tool_name: String,
    arguments: String,
    idempotency_key: String,
    rule: String,
    traceparent: Option<String>,
    situation: Option<Situation>,
    allowance: Option<Box<Allowance>>,
}

impl Permit {
    /// The same, with the span of the call for programs that trace what they do.
    #[must_use]
    pub(crate) fn in_trace(mut self, trace_id: Option<TraceId>, run: &RunId) -> Self {
        let span_id = run.span(operation::EXECUTE_TOOL, self.key.turn, self.key.index);
        self.traceparent = trace_id.map(|trace_id| TraceParent { trace_id, span_id }.to_string());
        self
    }

    /// The span of the call as W3C's `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// Which call.
    #[must_use]
    pub const fn key(&self) -> CallKey {
        self.key
    }

    /// The provider's id of the call.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The tool.
    #[must_use]
    pub fn tool_name(&self) -> &str {
        &self.tool_name
    }

    /// The arguments, JSON text as the model wrote it.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The same for every attempt of this call and for no other: for tools that keep keys of what they did.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The run at the moment of the call, for a tool that wants to see it (see [`crate::tool::Tool::wants_situation`]).
    #[must_use]
    pub const fn situation(&self) -> Option<&Situation> {
        self.situation.as_ref()
    }

    /// Shows the run to the tool.
    pub(crate) fn show(&mut self, situation: Option<Situation>) {
        self.situation = situation;
    }

    /// The rule that allows it.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// What the call may use up, where it is a run of its own.
    #[must_use]
    pub fn allowance(&self) -> Option<Allowance> {
        self.allowance.as_deref().copied()
    }

    /// Says what the call may use up.
    pub(crate) fn allow(&mut self, allowance: Option<Allowance>) {
        self.allowance = allowance.map(Box::new);
    }
}

/// What policy says about one call.
#[derive(Debug)]
pub enum Decision {
    /// It may run.
    Allow(Permit),
    /// It must not run.
    Deny {
        /// The rule that says so.
        rule: String,
        /// Why, for the model and for people.
        reason: String,
        /// Whether the run ends.
        terminal: bool,
    },
}

/// Decides about one call: the strictest of the rule for its risk and all rules for its name.
#[must_use]
pub fn decide(table: &PolicyTable, run: &RunId, key: CallKey, call: &ToolCall, spec: &ToolSpec) -> Decision {
    let by_risk = match spec.risk {
        Risk::Read => (table.read, "policy.read"),
        Risk::Write => (table.write, "policy.write"),
        Risk::Execute => (table.execute, "policy.execute"),
        Risk::External => (table.external, "policy.external"),
    };
    let mut strictest = (by_risk.0, by_risk.1.to_owned(), String::new());
    for (index, rule) in table.rules.iter().enumerate().filter(|(_, rule)| rule.tool == call.tool_name) {
        if rule.decision >= strictest.0 {
            strictest = (rule.decision, format!("policy.rule[{index}]"), rule.reason.clone());
        }
    }
    let (verdict, rule, reason) = strictest;
    match verdict {
        Verdict::Allow => Decision::Allow(Permit {
            key,
            call_id: call.call_id.clone(),
            tool_name: call.tool_name.clone(),
            arguments: call.arguments.clone(),
            idempotency_key: idempotency_key(run, key),
            rule,
            traceparent: None,
            situation: None,
            allowance: None,
        }),
        Verdict::Deny => Decision::Deny {
            reason: match reason.is_empty() {
                true => format!("`{}` is not allowed ({rule})", call.tool_name),
                false => reason,
            },
            rule,
            terminal: table.deny_is_terminal,
        },
    }
}

fn idempotency_key(run: &RunId, key: CallKey) -> String {
    Hash::of(format!("{run}\u{0}{}\u{0}{}", key.turn, key.index).as_bytes()).short()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PolicyRule;
    use crate::tool::Effect;
    use serde_json::json;

    fn decided(table: &PolicyTable, risk: Risk) -> Decision {
        let spec = ToolSpec {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: json!({}),
            risk,
            effect: Effect::Pure,
            timeout_ms: 1,
            output_schema: None,
        };
        let call =
            ToolCall { call_id: "c".to_owned(), tool_name: "t".to_owned(), arguments: "{}".to_owned() };
        decide(table, &RunId::from_draw(1), CallKey { turn: 1, index: 0 }, &call, &spec)
    }

    #[test]
    fn the_strictest_rule_wins_whatever_the_order() {
        let rule = |decision| PolicyRule { tool: "t".to_owned(), decision, reason: String::new() };
        for rules in
            [vec![rule(Verdict::Deny), rule(Verdict::Allow)], vec![rule(Verdict::Allow), rule(Verdict::Deny)]]
        {
            let table = PolicyTable { rules, ..PolicyTable::default() };
            assert!(matches!(decided(&table, Risk::Read), Decision::Deny { .. }));
        }
        let table =
            PolicyTable { write: Verdict::Deny, rules: vec![rule(Verdict::Allow)], ..PolicyTable::default() };
        assert!(
            matches!(decided(&table, Risk::Write), Decision::Deny { rule, .. } if rule == "policy.write")
        );
        assert!(matches!(decided(&table, Risk::Read), Decision::Allow(_)));
    }

    #[test]
    fn a_permit_has_one_key_a_call_and_run() {
        let Decision::Allow(one) = decided(&PolicyTable::default(), Risk::Read) else { panic!("allowed") };
        let Decision::Allow(two) = decided(&PolicyTable::default(), Risk::Read) else { panic!("allowed") };
        assert_eq!(one.idempotency_key(), two.idempotency_key());
        assert_ne!(one.idempotency_key(), idempotency_key(&RunId::from_draw(2), one.key()));
    }
}
