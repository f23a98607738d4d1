//! Tools of servers of the Model Context Protocol, which then look like any other tool.
//!
//! Place in the flow: `[[mcp]]` of agent.toml -> [`tools`] -> [`super::Toolbox`], once, before a run starts; the
//! list is then as fixed as the tape says. A call that is dropped tells the server so (`notifications/cancelled`).
//! A server that dies during a call makes that call fail, once; the next call starts it again. Each call tells the
//! server its span, where the protocol wants it: `_meta.traceparent` (SEP-414).
//!
//! What a server says of its own tools are claims: they choose risk and effect, and where it says nothing the
//! gravest is taken. A rule of the policy by tool name is the answer to a server that lies.

mod answer;
mod server;

use super::reserved;
use super::toolbox::{Environment, ToolboxError};
use super::{Effect, Risk, Tool, ToolSpec};
use crate::config::McpTable;
use crate::policy::Permit;
use futures::future::{BoxFuture, try_join_all};
use rmcp::model::{CallToolRequestParams, RequestMetaObject, Tool as Listed, ToolAnnotations};
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// A tool of a server.
#[derive(Debug)]
struct McpTool {
    spec: ToolSpec,
    /// The server's own name for it.
    listed_as: String,
    server: Arc<Server>,
}

/// Starts the servers and gives their tools, in the order of the tables.
///
/// # Errors
/// Where a server does not start or does not list its tools, or lacks one that its table names.
pub(super) async fn tools(
    tables: &[McpTable],
    taken: &BTreeSet<String>,
    folder: &Path,
    environment: Environment<'_>,
) -> Result<Vec<Arc<dyn Tool>>, ToolboxError> {
    let listed = try_join_all(tables.iter().map(|table| list(table, folder, environment))).await?;
    let mut names: BTreeMap<&str, usize> = taken.iter().map(|name| (name.as_str(), 1)).collect();
    names.extend(reserved::NAMES.map(|name| (name, 1)));
    for (_, tools) in &listed {
        for tool in tools {
            *names.entry(&tool.name).or_default() += 1;
        }
    }
    let mut found: Vec<Arc<dyn Tool>> = Vec::new();
    for (table, (server, tools)) in tables.iter().zip(&listed) {
        for tool in tools {
            let clashes = names.get(tool.name.as_ref()).is_some_and(|count| *count > 1);
            let name = if clashes { format!("{}__{}", table.name, tool.name) } else { tool.name.to_string() };
            found.push(Arc::new(McpTool {
                spec: spec(&callable(&name), tool, table),
                listed_as: tool.name.to_string(),
                server: server.clone(),
            }));
        }
    }
    Ok(found)
}

async fn list(
    table: &McpTable,
    folder: &Path,
    environment: Environment<'_>,
) -> Result<(Arc<Server>, Vec<Listed>), ToolboxError> {
    let failed = |why: String| ToolboxError::Server { server: table.name.clone(), why };
    let server = Server::of_table(table, folder, environment)?;
    let mut tools = server.list().await.map_err(|fault| failed(fault.message))?;
    if let Some(wanted) = &table.tools {
        if let Some(missing) = wanted.iter().find(|name| !tools.iter().any(|tool| tool.name == name.as_str()))
        {
            let has: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
            return Err(failed(format!("has no tool `{missing}`; it has: {}", has.join(", "))));
        }
        tools.retain(|tool| wanted.contains(tool.name.as_ref()));
    }
    Ok((Arc::new(server), tools))
}

/// A name that providers take: other characters become `_`, and what is too long is cut.
fn callable(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect()
}

fn spec(name: &str, tool: &Listed, table: &McpTable) -> ToolSpec {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let (risk, effect) = claims(tool.annotations.as_ref());
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: tool.schema_as_json_value(),
        risk,
        effect,
        timeout_ms: table.timeout_seconds.saturating_mul(1000),
        output_schema: tool.output_schema.as_deref().map(|schema| serde_json::Value::Object(schema.clone())),
    }
}

/// Risk and effect of what a server claims. A hint that is missing is the protocol's default: not read-only,
/// destructive, not idempotent, open to the world.
fn claims(hints: Option<&ToolAnnotations>) -> (Risk, Effect) {
    let hint = |of: fn(&ToolAnnotations) -> Option<bool>, default| hints.and_then(of).unwrap_or(default);
    let reads = hint(|hints| hints.read_only_hint, false);
    let is_open = hint(|hints| hints.open_world_hint, true);
    let risk = match (is_open, reads) {
        (true, _) => Risk::External,
        (false, true) => Risk::Read,
        (false, false) => Risk::Write,
    };
    let effect = match (reads, hint(|hints| hints.idempotent_hint, false)) {
        (true, _) => Effect::Pure,
        (false, true) => Effect::Idempotent,
        (false, false) => Effect::AtMostOnce,
    };
    (risk, effect)
}

impl McpTool {
    async fn ask(&self, permit: &Permit) -> Result<String, Fault> {
        let arguments = serde_json::from_str(permit.arguments()).map_err(|why| {
            Fault::new(FaultClass::Permanent, format!("a server takes an object as arguments: {why}"))
        })?;
        let mut params = CallToolRequestParams::new(self.listed_as.clone()).with_arguments(arguments);
        params.meta = permit.traceparent().map(|parent| {
            let mut meta = RequestMetaObject::new();
            meta.set_traceparent(parent);
            meta
        });
        let result = self.server.call(params).await?;
        answer::text(result, self.spec.output_schema.is_some())
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(self.ask(permit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_become_risk_and_effect_and_silence_is_the_gravest() {
        let hints = |reads, idempotent, open| ToolAnnotations::from_raw(None, reads, None, idempotent, open);
        for (hints, wanted) in [
            (None, (Risk::External, Effect::AtMostOnce)),
            (Some(hints(None, None, None)), (Risk::External, Effect::AtMostOnce)),
            (Some(hints(Some(true), None, Some(false))), (Risk::Read, Effect::Pure)),
            (Some(hints(Some(true), None, None)), (Risk::External, Effect::Pure)),
            (Some(hints(Some(false), Some(true), Some(false))), (Risk::Write, Effect::Idempotent)),
            (Some(hints(Some(false), None, Some(false))), (Risk::Write, Effect::AtMostOnce)),
            (Some(hints(Some(false), Some(true), None)), (Risk::External, Effect::Idempotent)),
        ] {
            assert_eq!(claims(hints.as_ref()), wanted, "{hints:?}");
        }
    }

    #[test]
    fn a_name_is_made_fit_for_every_provider() {
        for (name, wanted) in [("plain_name-1", "plain_name-1"), ("a.b/c d", "a_b_c_d"), ("größe", "gr__e")]
        {
            assert_eq!(callable(name), wanted);
        }
        assert_eq!(callable(&"x".repeat(99)).len(), 64);
    }
}
