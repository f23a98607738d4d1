//! Tool calls: found, validated, permitted, announced, carried out, recorded.
//!
//! Place in the flow: the machine plans a stage; here each of its calls gets exactly one result. The intent is on
//! the tape before the effect, synced first if the effect leaves the process.

use super::Driver;
use crate::hands::{Executed, error_text};
use crate::machine::{Planned, Refused};
use crate::policy::{self, Decision, Matter, Permit};
use crate::tool::ToolSpec;
use crate::tool::shown::shown;
use futures::future::join_all;
use std::borrow::Cow;
use trace::canonical::{args_hash, canonical_text, result_hash};
use trace::fact::{Fact, PersonAsked, ToolFinished, ToolStarted};
use trace::id::CallKey;
use trace::message::ToolCall;
use trace::outcome::{FailureStage, ToolStatus};
use trace::tape::TapeError;

impl<'a> Driver<'a> {
    /// Runs a stage: intents in order, then all calls together, then results in order.
    ///
    /// A call that wants a person ends the stage before it: those before it have their results when the person is
    /// asked, and those after it wait.
    pub(super) async fn run_stage(&mut self, planned: Vec<Planned>) -> Result<(), TapeError> {
        let mut prepared = Vec::with_capacity(planned.len());
        let agents = planned.iter().filter(|one| self.is_agent(&one.call.tool_name)).count();
        let allowance = (agents > 0).then(|| self.run.allowance(length(agents), length(planned.len())));
        for one in planned {
            let ready = match self.prepare(&one) {
                Err(Stopped::Ask(asked)) if prepared.is_empty() => {
                    return self.record(Fact::PersonAsked(asked));
                }
                Err(Stopped::Ask(_)) => break,
                Err(Stopped::Refused(refusal)) => Err(refusal),
                Ok((mut permit, spec)) => {
                    permit.allow(allowance.filter(|_| self.is_agent(&spec.name)));
                    self.announce(&one, &permit, spec)?;
                    Ok((permit, spec))
                }
            };
            prepared.push((one, ready));
        }
        let (hands, trace_id, run_id) = (&self.setup.hands, self.run.state().trace_id, &self.run_id);
        let results = join_all(prepared.into_iter().map(|(one, ready)| async move {
            match ready {
                Ok((permit, spec)) => {
                    let rule = format!("{}:{}", permit.verdict(), permit.rule());
                    let permit = permit.in_trace(trace_id, run_id);
                    (one, hands.carry_out(permit, spec).await, Some(rule), Some(spec))
                }
                Err(refusal) => (one, refusal.executed, refusal.permission, None),
            }
        }))
        .await;
        for (one, executed, permission, spec) in results {
            match (&executed.needs, spec) {
                (Some(needs), Some(spec)) => {
                    let asked = self.question_of_tool(&one, spec, needs);
                    self.record(Fact::PersonAsked(Box::new(asked)))?;
                }
                _ => self.finish(one.key, one.call, &executed, permission)?,
            }
        }
        Ok(())
    }

    /// Whether a tool is an agent: its call is a run of its own.
    fn is_agent(&self, tool_name: &str) -> bool {
        let tools = &self.setup.config.tools;
        tools.iter().any(|table| table.agent.is_some() && table.tool_name() == tool_name)
    }

    /// Writes the intent of a call, synced if its effect leaves the process.
    fn announce(&mut self, one: &Planned, permit: &Permit, spec: &ToolSpec) -> Result<(), TapeError> {
        let arguments = canonical_text(&one.call.arguments);
        let synced = !spec.is_concurrent();
        self.record(Fact::ToolStarted(ToolStarted {
            key: one.key,
            call_id: one.call.call_id.clone(),
            tool_name: one.call.tool_name.clone(),
            args_hash: self.args_hash(&one.call.tool_name, &canonical_text(permit.arguments())),
            arguments,
            permission: permit.verdict().to_owned(),
            permission_rule: permit.rule().to_owned(),
            idempotent: spec.is_repeatable(),
            synced,
            allowance: permit.allowance().map(|allowance| allowance.limits()),
            heard: Vec::new(),
        }))?;
        if synced { self.recorder.sync() } else { Ok(()) }
    }

    /// Finds the tool, checks the arguments against its schema, lets the tool check them, asks policy: in this order,
    /// and the first no is the result.
    fn prepare(&self, one: &Planned) -> Result<(Permit, &'a ToolSpec), Stopped> {
        let toolbox = &self.setup.toolbox;
        let Some(spec) = toolbox.spec(&one.call.tool_name) else {
            let names: Vec<&str> = toolbox.names().collect();
            let message =
                format!("there is no tool `{}`; there are: {}", one.call.tool_name, names.join(", "));
            return Err(refused(ToolStatus::Error, FailureStage::UnknownTool, &message));
        };
        let invalid = |why: String| refused(ToolStatus::Error, FailureStage::Validation, &why);
        let one = &self.resolved(one).map_err(invalid)?;
        let arguments = toolbox.validate(&spec.name, &one.call.arguments).map_err(invalid)?;
        let own = self.setup.hands.check(one.key, spec, &arguments).map_err(invalid)?;
        let kept = self.kept(&canonical_text(&one.call.arguments));
        let state = self.run.state();
        let matter = Matter {
            run: &self.run_id,
            key: one.key,
            call: &one.call,
            spec,
            args_hash: args_hash(&spec.name, &kept),
            arguments: &kept,
            approvals: &state.people.approvals,
            spoken: state.people.spoken(one.key),
            now_ns: state.last_at_ns,
        };
        match policy::decide(&self.setup.config.policy, &matter, &own) {
            Decision::Allow(mut permit) => {
                permit.show(self.situation(one));
                Ok((permit, spec))
            }
            Decision::Ask { rule, reason } => {
                Err(Stopped::Ask(Box::new(self.approval(one, spec, rule, reason))))
            }
            Decision::Deny { rule, reason } => Err(Stopped::Refused(Refusal {
                permission: Some(format!("deny:{rule}")),
                ..Refusal::new(ToolStatus::Denied, FailureStage::Permission, &reason)
            })),
        }
    }

    pub(super) fn refuse(&mut self, refused: Vec<Refused>) -> Result<(), TapeError> {
        for one in refused {
            let kind = one.stage.map_or(one.status.as_str(), kind);
            let executed = Executed {
                status: one.status,
                content: match one.status {
                    // Only the loop's own tools end well without being run.
                    ToolStatus::Ok => one.message.clone(),
                    _ => error_text(kind, &one.message),
                },
                error_class: None,
                failure_stage: one.stage,
                attempts: 0,
                latency_ns: 0,
                child: None,
                needs: None,
            };
            self.finish(one.key, one.call, &executed, one.permission)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        key: CallKey,
        call: ToolCall,
        executed: &Executed,
        permission: Option<String>,
    ) -> Result<(), TapeError> {
        let arguments = canonical_text(&call.arguments);
        // As written where a name is none: the tool was given nothing then.
        let given = self.effective(&call).map_or_else(|_| arguments.clone(), |given| canonical_text(&given));
        let hash = self.args_hash(&call.tool_name, &given);
        // Cut as it is kept, so that no cut goes through a secret and a replay of what is kept cuts alike.
        let kept = self.recorder.redactor().text(&executed.content);
        let result_hash = result_hash(&kept);
        let content = match shown(&kept, self.run.config().budget.max_tool_result_chars) {
            Cow::Borrowed(_) => executed.content.clone(),
            Cow::Owned(cut) => cut,
        };
        let content = self.named(content, &executed.content);
        let result = self.recorder.blob(executed.content.as_bytes())?;
        let shown =
            if content == executed.content { result } else { self.recorder.blob(content.as_bytes())? };
        self.record(Fact::ToolFinished(Box::new(ToolFinished {
            key,
            call_id: call.call_id,
            args_hash: hash,
            tool_name: call.tool_name,
            arguments,
            status: executed.status,
            result,
            shown,
            content,
            result_hash,
            error_class: executed.error_class,
            failure_stage: executed.failure_stage,
            permission,
            attempts: executed.attempts,
            latency_ns: executed.latency_ns,
            child: executed.child.clone(),
        })))
    }

    /// The hash of a call as it is kept: equal secrets have equal placeholders, so repeats are still found.
    pub(super) fn args_hash(&self, tool_name: &str, arguments: &str) -> trace::id::Hash {
        args_hash(tool_name, &self.recorder.redactor().text(arguments))
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Why a call does not start.
enum Stopped {
    /// A person must be asked first.
    Ask(Box<PersonAsked>),
    /// It was refused.
    Refused(Refusal),
}

fn refused(status: ToolStatus, stage: FailureStage, message: &str) -> Stopped {
    Stopped::Refused(Refusal::new(status, stage, message))
}

/// A call that was refused before it could start.
struct Refusal {
    executed: Executed,
    permission: Option<String>,
}

impl Refusal {
    fn new(status: ToolStatus, stage: FailureStage, message: &str) -> Self {
        let executed = Executed {
            status,
            content: error_text(kind(stage), message),
            error_class: None,
            failure_stage: Some(stage),
            attempts: 0,
            latency_ns: 0,
            child: None,
            needs: None,
        };
        Self { executed, permission: None }
    }
}

/// What the model is told a refusal is.
const fn kind(stage: FailureStage) -> &'static str {
    match stage {
        FailureStage::UnknownTool => "unknown_tool",
        FailureStage::Validation => "invalid_arguments",
        FailureStage::Permission => "permission_denied",
        FailureStage::Budget => "budget_exhausted",
        FailureStage::Execution => "unknown_outcome",
        FailureStage::Timeout => "timeout",
    }
}
