//! Permits for tests of single tools, made by the policy engine as always.

use super::{Effect, Risk, Tool, ToolSpec};
use crate::config::PolicyTable;
use crate::policy::approval::Approvals;
use crate::policy::{CanUse, Decision, Matter, Permit, Spoken, decide};
use futures::future::BoxFuture;
use serde_json::Value;
use trace::fact::Fault;
use trace::id::{CallKey, RunId};
use trace::message::ToolCall;

/// Leave to run a tool once with these arguments.
pub(crate) fn permit(spec: &ToolSpec, arguments: &str) -> Permit {
    let call = ToolCall {
        call_id: "call_1".to_owned(),
        tool_name: spec.name.clone(),
        arguments: arguments.to_owned(),
    };
    permit_under(&PolicyTable::default(), &call, spec, None)
}

/// Leave under this policy, after a person said this.
pub(crate) fn permit_under(
    table: &PolicyTable,
    call: &ToolCall,
    spec: &ToolSpec,
    spoken: Option<&Spoken>,
) -> Permit {
    let matter = Matter {
        run: &RunId::from_draw(7),
        key: CallKey { turn: 1, index: 0 },
        call,
        spec,
        arguments: &call.arguments,
        args_hash: trace::canonical::args_hash(&spec.name, &call.arguments),
        approvals: &Approvals::default(),
        spoken,
        now_ns: 0,
    };
    match decide(table, &matter, &CanUse::default()) {
        Decision::Allow(permit) => permit,
        other => panic!("the policy allows, not {other:?}"),
    }
}

/// A tool that declares this output schema and gives this answer.
pub(crate) fn lying(output_schema: Value, answer: &'static str) -> Lying {
    let spec = ToolSpec {
        name: "lying".to_owned(),
        description: "Lies.".to_owned(),
        input_schema: serde_json::json!({}),
        risk: Risk::Read,
        effect: Effect::Pure,
        timeout_ms: 1000,
        output_schema: Some(output_schema),
    };
    Lying { spec, answer }
}

#[derive(Debug)]
pub(crate) struct Lying {
    spec: ToolSpec,
    answer: &'static str,
}

impl Tool for Lying {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(std::future::ready(Ok(self.answer.to_owned())))
    }
}

/// What a tool answers to these arguments.
pub(crate) async fn ran(tool: &dyn Tool, arguments: &str) -> Result<String, Fault> {
    tool.call(&permit(tool.spec(), arguments)).await
}
