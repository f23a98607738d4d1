//! Who may do what: decisions and permits.
//!
//! Place in the flow: the driver asks for a decision after validation and before a call. Only this file can make
//! a [`Permit`], and nothing runs without one, so a side effect without a recorded decision cannot be written.
//!
//! Four verdicts, from the mildest: allow, sandbox, ask, deny. The strictest of all that speak of a call wins; where
//! deciding itself fails, the verdict is deny.

pub mod approval;

use crate::config::{PolicyTable, Verdict};
use crate::machine::Allowance;
use crate::tool::situation::Situation;
use crate::tool::{Risk, ToolSpec};
use approval::{Approvals, token};
use trace::attribute::operation;
use trace::caller::TraceParent;
use trace::id::{CallKey, Hash, RunId, TraceId};
use trace::message::ToolCall;

/// The rule's name where a tool itself decides.
pub const CAN_USE: &str = "tool.can_use";

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
    sandboxed: bool,
    spoken: Option<Spoken>,
}

/// What a person said to the question that this call came back with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    /// Whether the person agreed, or changed something.
    pub is_update: bool,
    /// The words.
    pub said: String,
}

impl Spoken {
    /// The word for tools: `accept` or `update`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        if self.is_update { "update" } else { "accept" }
    }
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

    /// The rule that allows it, and who did where a person was asked.
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

    /// Whether it may run in a sandbox only.
    #[must_use]
    pub const fn is_sandboxed(&self) -> bool {
        self.sandboxed
    }

    /// The decision in one word.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        if self.sandboxed { "sandbox" } else { "allow" }
    }

    /// What a person said to the tool's own question; `None` where it asked none.
    #[must_use]
    pub const fn spoken(&self) -> Option<&Spoken> {
        self.spoken.as_ref()
    }
}

/// What policy says about one call.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub enum Decision {
    /// It may run.
    Allow(Permit),
    /// A person must be asked first.
    Ask {
        /// The rule that says so.
        rule: String,
        /// Why, for people.
        reason: String,
    },
    /// It must not run.
    Deny {
        /// The rule that says so, and who did where a person was asked.
        rule: String,
        /// Why, for the model and for people.
        reason: String,
    },
}

/// What a tool itself says about a call of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanUse {
    /// Its verdict.
    pub verdict: Verdict,
    /// Why, for the model and for people.
    pub reason: String,
}

impl Default for CanUse {
    fn default() -> Self {
        Self { verdict: Verdict::Allow, reason: String::new() }
    }
}

/// A call and all that is known about it when the decision is made.
#[derive(Debug, Clone, Copy)]
pub struct Matter<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Which call.
    pub key: CallKey,
    /// What the model asked for.
    pub call: &'a ToolCall,
    /// The tool.
    pub spec: &'a ToolSpec,
    /// The arguments as they are kept: canonical, without secrets.
    pub arguments: &'a str,
    /// The hash of tool and arguments as they are kept.
    pub args_hash: Hash,
    /// What people decided before.
    pub approvals: &'a Approvals,
    /// What a person said to the tool's own question.
    pub spoken: Option<&'a Spoken>,
    /// The time of the last fact.
    pub now_ns: i64,
}

/// Decides about one call: the strictest of the rule for its risk, all rules for its name, and the tool itself.
#[must_use]
pub fn decide(table: &PolicyTable, matter: &Matter<'_>, own: &CanUse) -> Decision {
    let (verdict, rule, reason) = strictest(table, matter, own);
    match verdict {
        Verdict::Allow => Decision::Allow(permit(matter, rule, false)),
        Verdict::Sandbox => Decision::Allow(permit(matter, rule, true)),
        Verdict::Ask => asked(matter, rule, reason),
        Verdict::Deny => Decision::Deny {
            reason: match reason.is_empty() {
                true => format!("`{}` is not allowed ({rule})", matter.call.tool_name),
                false => reason,
            },
            rule,
        },
    }
}

fn strictest(table: &PolicyTable, matter: &Matter<'_>, own: &CanUse) -> (Verdict, String, String) {
    let by_risk = match matter.spec.risk {
        Risk::Read => (table.read, "policy.read"),
        Risk::Write => (table.write, "policy.write"),
        Risk::Execute => (table.execute, "policy.execute"),
        Risk::External => (table.external, "policy.external"),
    };
    let mut strictest = (by_risk.0, by_risk.1.to_owned(), String::new());
    let of_tool = table.rules.iter().enumerate().filter(|(_, rule)| rule.tool == matter.call.tool_name);
    for (index, rule) in of_tool {
        if rule.decision >= strictest.0 {
            strictest = (rule.decision, format!("policy.rule[{index}]"), rule.reason.clone());
        }
    }
    match own.verdict > strictest.0 {
        true => (own.verdict, CAN_USE.to_owned(), own.reason.clone()),
        false => strictest,
    }
}

/// A person must have said yes to exactly this, and not too long ago; a no in this run is not asked for again.
fn asked(matter: &Matter<'_>, rule: String, reason: String) -> Decision {
    if let Some(denial) = matter.approvals.denial(&matter.args_hash) {
        let reason = format!("{}; asked before in this run and not asked again", denial.reason);
        return Decision::Deny { rule: format!("{rule} by {}", denial.by), reason };
    }
    let approval = matter.approvals.of_call(matter.key).filter(|approval| {
        let wanted = token(matter.run, matter.key, matter.spec, matter.arguments, approval.expires_at_ns);
        approval.token == wanted && matter.now_ns <= approval.expires_at_ns
    });
    match approval {
        Some(approval) => Decision::Allow(permit(matter, format!("{rule} by {}", approval.by), false)),
        None => Decision::Ask { rule, reason },
    }
}

fn permit(matter: &Matter<'_>, rule: String, sandboxed: bool) -> Permit {
    Permit {
        key: matter.key,
        call_id: matter.call.call_id.clone(),
        tool_name: matter.call.tool_name.clone(),
        arguments: matter.call.arguments.clone(),
        idempotency_key: idempotency_key(matter.run, matter.key),
        rule,
        sandboxed,
        spoken: matter.spoken.cloned(),
        traceparent: None,
        situation: None,
        allowance: None,
    }
}

fn idempotency_key(run: &RunId, key: CallKey) -> String {
    Hash::of(format!("{run}\u{0}{}\u{0}{}", key.turn, key.index).as_bytes()).short()
}

#[cfg(test)]
pub(crate) mod tests;
