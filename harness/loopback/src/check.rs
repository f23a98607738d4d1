//! What a real provider would refuse: pure checks of a request body, one file a wire.
//!
//! Place in the flow: [`crate::server`] checks every request before the script sees it. The checks hold the
//! loop's promises about wires: every call has its one result under its exact id, nothing is empty, tools are
//! well-formed. Two messages of one role in a row are no violation: the providers join them.

pub mod chat;
pub mod gemini;
pub mod messages;
pub mod responses;

use crate::request::RequestSeen;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with a request; empty where nothing is.
#[must_use]
pub fn violations(request: &RequestSeen) -> Vec<String> {
    let (body, mut found) = (&request.json, Vec::new());
    if !body.is_object() {
        return vec!["the body is not a JSON object".to_owned()];
    }
    if request.model().is_empty() {
        found.push("`model` is missing".to_owned());
    }
    let list = harness::model::wire(request.wire).map_or("messages", |wire| wire.list());
    if body[list].as_array().is_none_or(Vec::is_empty) {
        found.push(format!("`{list}` is missing or empty"));
    }
    match request.wire {
        "chat" => chat::check(body, &mut found),
        "responses" => responses::check(body, &mut found),
        "gemini" => gemini::check(body, &mut found),
        _ => messages::check(body, &mut found),
    }
    found
}

/// Checks a tool's name, description and schema, and that no name comes twice.
fn tool(at: usize, name: &Value, schema: &Value, seen: &mut BTreeSet<String>, found: &mut Vec<String>) {
    let name = name.as_str().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        found.push(format!("tools[{at}]: the name `{name}` is not 1 to 64 of a-z, A-Z, 0-9, _ and -"));
    }
    if !seen.insert(name.to_owned()) {
        found.push(format!("tools[{at}]: the name `{name}` comes twice"));
    }
    if schema["type"] != "object" {
        found.push(format!("tools[{at}]: the schema of `{name}` is not of type object"));
    }
}

/// Ids with how often each is there, so that re-used ids are compared too.
type Ids = BTreeMap<String, usize>;

fn ids<'a>(values: impl Iterator<Item = &'a Value>) -> Ids {
    values.fold(Ids::new(), |mut ids, id| {
        *ids.entry(id.as_str().unwrap_or_default().to_owned()).or_default() += 1;
        ids
    })
}

/// Compares the calls of an assistant message with the results that follow it.
fn pairing(place: &str, calls: &Ids, results: &Ids, found: &mut Vec<String>) {
    if calls != results {
        let list =
            |ids: &Ids| ids.iter().map(|(id, times)| format!("{id} x{times}")).collect::<Vec<_>>().join(", ");
        found.push(format!(
            "{place}: the results after it are for [{}], its calls are [{}]",
            list(results),
            list(calls)
        ));
    }
}

#[cfg(test)]
mod tests;
