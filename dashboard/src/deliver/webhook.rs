//! The body of Alertmanager's webhook, version 4, and its way out.
//!
//! Place in the flow: the last step of a page. Whatever takes Alertmanager's notifications takes these.
//! Source: alertmanager, docs/configuration.md, `<webhook_config>`.

use super::Group;
use crate::alert::Alert;
use crate::clock;
use serde_json::{Map, Value, json};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Alertmanager's word for an alert that goes on.
const NO_END: &str = "0001-01-01T00:00:00Z";

/// A client that follows no redirect: it would carry a page to a place that nobody named.
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT).build()
}

/// Sends a body once.
pub(super) async fn send(client: &reqwest::Client, url: &str, body: &Value) -> Result<(), String> {
    match client.post(url).json(body).send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("it answered {}", answer.status())),
        // The URL may hold a secret, so it stays out of the log.
        Err(error) => Err(error.without_url().to_string()),
    }
}

/// What is told of a group.
pub(super) fn body(receiver: &str, group: &Group, alerts: &[Alert], pages: &str) -> Value {
    let firing = alerts.iter().any(Alert::is_firing);
    let labels: Vec<Map<String, Value>> = alerts.iter().map(labels).collect();
    let annotations: Vec<Map<String, Value>> = alerts.iter().map(annotations).collect();
    let mut group_labels = Map::from_iter([("alertname".to_owned(), json!(group.rule))]);
    group_labels.extend(group.agent.iter().map(|agent| ("agent".to_owned(), json!(agent))));
    json!({
        "version": "4",
        "groupKey": group_key(group),
        "truncatedAlerts": 0,
        "status": word(firing),
        "receiver": receiver,
        "groupLabels": group_labels,
        "commonLabels": common(&labels),
        "commonAnnotations": common(&annotations),
        "externalURL": pages,
        "alerts": alerts.iter().zip(&labels).zip(&annotations).map(|((alert, labels), annotations)| json!({
            "status": word(alert.is_firing()),
            "labels": labels,
            "annotations": annotations,
            "startsAt": clock::spelled(alert.fired_at_ns),
            "endsAt": alert.resolved_at_ns.map_or_else(|| NO_END.to_owned(), clock::spelled),
            "generatorURL": generator(alert, pages),
            "fingerprint": alert.problem.alert_id(),
        })).collect::<Vec<_>>(),
    })
}

fn word(firing: bool) -> &'static str {
    if firing { "firing" } else { "resolved" }
}

fn group_key(group: &Group) -> String {
    match &group.agent {
        Some(agent) => format!("{{}}:{{agent={agent:?}, alertname={:?}}}", group.rule),
        None => format!("{{}}:{{alertname={:?}}}", group.rule),
    }
}

/// Only what identifies the alert: a label that changes would make it another alert.
fn labels(alert: &Alert) -> Map<String, Value> {
    let problem = &alert.problem;
    let named =
        [("agent", &problem.agent), ("tool_name", &problem.tool_name), ("args_hash", &problem.args_hash)];
    let mut labels = Map::from_iter([("alertname".to_owned(), json!(problem.rule))]);
    labels.extend(
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))),
    );
    labels
}

fn annotations(alert: &Alert) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut say = |name: &str, text: String| annotations.insert(name.to_owned(), Value::String(text));
    if let Some(evidence) = &alert.evidence {
        say("summary", evidence.detail.clone());
        if let Some(next) = &evidence.next_safe_action {
            say("next_safe_action", next.clone());
        }
        if let Some(tokens) = evidence.tokens_wasted {
            say("tokens_wasted", tokens.to_string());
        }
    }
    if !alert.runs.is_empty() {
        say("runs", alert.runs.len().to_string());
    }
    if let Some(run) = alert.runs.last() {
        say("latest_run", run.to_string());
    }
    annotations
}

/// The members that all have with the same value.
fn common(maps: &[Map<String, Value>]) -> Map<String, Value> {
    let Some((first, rest)) = maps.split_first() else { return Map::new() };
    first
        .iter()
        .filter(|(name, value)| rest.iter().all(|map| map.get(*name) == Some(*value)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The page that shows it: the latest run, else the list of alerts.
fn generator(alert: &Alert, pages: &str) -> String {
    match alert.runs.last() {
        Some(run) => format!("{pages}/runs/{}", crate::page::path_segment(run.as_str())),
        None => format!("{pages}/alerts"),
    }
}
