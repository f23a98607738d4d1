//! Tool calls: found, validated, permitted, announced, carried out, recorded.
//!
//! Place in the flow: the machine plans a stage; here each of its calls gets exactly one result. The intent is on
//! the tape before the effect, synced first if the effect leaves the process.

use super::Driver;
use crate::hands::{Executed, error_text};
use crate::machine::{Planned, Refused};
use crate::policy::{self, Decision, Permit};
use crate::tool::ToolSpec;
use crate::tool::shown::shown;
use futures::future::join_all;
use std::borrow::Cow;
use trace::canonical::{args_hash, canonical_text, result_hash};
use trace::fact::{Fact, ToolFinished, ToolStarted};
use trace::id::CallKey;
use trace::message::ToolCall;
use trace::outcome::{FailureStage, ToolStatus};
use trace::tape::TapeError;

impl Driver<'_> {
    /// Runs a stage: intents in order, then all calls together, then results in order.
    pub(super) async fn run_stage(&mut self, planned: Vec<Planned>) -> Result<(), TapeError> {
        let mut prepared = Vec::with_capacity(planned.len());
        let agents = planned.iter().filter(|one| self.is_agent(&one.call.tool_name)).count();
        let allowance = (agents > 0).then(|| self.run.allowance(length(agents), length(planned.len())));
        for one in planned {
            let mut ready = self.prepare(&one);
            if let Ok((permit, spec)) = &mut ready {
                permit.allow(allowance.filter(|_| self.is_agent(&spec.name)));
                self.announce(&one, permit, spec)?;
            }
            prepared.push((one, ready));
        }
        let (hands, trace_id, run_id) = (&self.setup.hands, self.run.state().trace_id, &self.run_id);
        let results = join_all(prepared.into_iter().map(|(one, ready)| async move {
            match ready {
                Ok((permit, spec)) => {
                    let rule = format!("allow:{}", permit.rule());
                    let permit = permit.in_trace(trace_id, run_id);
                    (one, hands.carry_out(permit, &spec).await, Some(rule))
                }
                Err(refusal) => (one, refusal.executed, refusal.permission),
            }
        }))
        .await;
        for (one, executed, permission) in results {
            self.finish(one.key, one.call, &executed, permission)?;
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
            permission: "allow".to_owned(),
            permission_rule: permit.rule().to_owned(),
            idempotent: spec.is_repeatable(),
            synced,
            allowance: permit.allowance().map(|allowance| allowance.limits()),
            heard: Vec::new(),
        }))?;
        if synced { self.recorder.sync() } else { Ok(()) }
    }

    /// Finds the tool, checks the arguments, asks policy: in this order, and the first no is the result.
    fn prepare(&self, one: &Planned) -> Result<(Permit, ToolSpec), Refusal> {
        let toolbox = &self.setup.toolbox;
        let Some(spec) = toolbox.spec(&one.call.tool_name) else {
            let names: Vec<&str> = toolbox.names().collect();
            let message =
                format!("there is no tool `{}`; there are: {}", one.call.tool_name, names.join(", "));
            return Err(Refusal::new(ToolStatus::Error, FailureStage::UnknownTool, &message));
        };
        let one = &self
            .resolved(one)
            .map_err(|why| Refusal::new(ToolStatus::Error, FailureStage::Validation, &why))?;
        if let Err(why) = toolbox.validate(&spec.name, &one.call.arguments) {
            return Err(Refusal::new(ToolStatus::Error, FailureStage::Validation, &why));
        }
        match policy::decide(&self.setup.config.policy, &self.run_id, one.key, &one.call, spec) {
            Decision::Allow(mut permit) => {
                permit.show(self.situation(one));
                Ok((permit, spec.clone()))
            }
            Decision::Deny { rule, reason, .. } => Err(Refusal {
                permission: Some(format!("deny:{rule}")),
                ..Refusal::new(ToolStatus::Denied, FailureStage::Permission, &reason)
            }),
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
            };
            self.finish(one.key, one.call, &executed, None)?;
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
            result_hash: result_hash(&self.recorder.redactor().text(&executed.content)),
            error_class: executed.error_class,
            failure_stage: executed.failure_stage,
            permission,
            attempts: executed.attempts,
            latency_ns: executed.latency_ns,
            child: executed.child.clone(),
        })))
    }

    /// The hash of a call as it is kept: equal secrets have equal placeholders, so repeats are still found.
    fn args_hash(&self, tool_name: &str, arguments: &str) -> trace::id::Hash {
        args_hash(tool_name, &self.recorder.redactor().text(arguments))
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
