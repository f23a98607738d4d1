//! Telling webhooks what fires and what is over.
//!
//! Place in the flow: alert -> **notification** -> webhook. There is no queue to lose: every second the alerts are
//! compared with what each webhook was last told (`delivered.json`), and the difference is sent. So a crash, a
//! restart or a webhook that is down for a night delays a page and never drops it. A silence holds pages back; what
//! still fires when it ends is told then.

mod told;
mod webhook;

use crate::alert::Alert;
use crate::clock;
use crate::server::Server;
use crate::settings::Webhook;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use told::{Told, webhook_key};
use trace::question;
use trace::store::QueryError;

const ROUND: Duration = Duration::from_secs(1);
const SECOND_NS: i64 = 1_000_000_000;
/// The pause after a first failure; it doubles up to [`LONGEST_PAUSE_NS`].
const FIRST_PAUSE_NS: i64 = SECOND_NS;
const LONGEST_PAUSE_NS: i64 = 300 * SECOND_NS;

/// Alerts that are told together: those of one rule and agent, as Alertmanager groups by labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    rule: String,
    agent: Option<String>,
}

/// When a group may be tried again after failures.
#[derive(Debug, Clone, Copy, Default)]
struct Backoff {
    failures: u32,
    not_before_ns: i64,
}

/// A silence that holds now.
#[derive(Debug, Deserialize)]
struct Silence {
    rule: Option<String>,
    agent: Option<String>,
}

/// Delivers until it is stopped; a notification that is under way then is sent again after the next start.
pub(crate) async fn deliver(server: Arc<Server>, stop: CancellationToken) {
    if server.settings.webhook.is_empty() {
        return stop.cancelled().await;
    }
    let client = match webhook::client() {
        Ok(client) => client,
        Err(why) => {
            tracing::error!(%why, "no HTTP client: nothing can be delivered");
            return stop.cancelled().await;
        }
    };
    let mut told = Told::read(&server.home);
    let mut backoffs: HashMap<(String, Group), Backoff> = HashMap::new();
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        round(&server, &client, &mut told, &mut backoffs).await;
    }
}

async fn round(
    server: &Arc<Server>,
    client: &reqwest::Client,
    told: &mut Told,
    backoffs: &mut HashMap<(String, Group), Backoff>,
) {
    let now_ns = clock::now_ns();
    let alerts: Vec<Alert> = server.board().alerts().cloned().collect();
    let silences = silences(server, now_ns).await.unwrap_or_default();
    let heard: Vec<Alert> = alerts.into_iter().filter(|alert| !is_silenced(alert, &silences)).collect();
    let mut pending = 0;
    for webhook in &server.settings.webhook {
        let key = webhook_key(&webhook.url);
        let repeat_ns =
            i64::try_from(server.settings.alerts.repeat_after_s).unwrap_or(i64::MAX / SECOND_NS) * SECOND_NS;
        for (group, members) in due(&heard, told, &key, repeat_ns, now_ns) {
            let backoff = backoffs.entry((key.clone(), group.clone())).or_default();
            if now_ns < backoff.not_before_ns {
                pending += 1;
                continue;
            }
            match tell(server, client, webhook, &group, &members).await {
                Ok(()) => {
                    *backoff = Backoff::default();
                    server.counters.deliveries.add(1);
                    told.note(&key, &members, now_ns);
                    if let Err(why) = told.write(&server.home) {
                        tracing::error!(%why, "what was delivered cannot be noted: it will be told again");
                    }
                }
                Err(why) => {
                    pending += 1;
                    backoff.fail(now_ns);
                    server.counters.delivery_failures.add(1);
                    tracing::warn!(webhook = %webhook.name, %why, "a notification will be sent again");
                }
            }
        }
    }
    server.counters.deliveries_pending.set(pending);
}

async fn tell(
    server: &Server,
    client: &reqwest::Client,
    webhook: &Webhook,
    group: &Group,
    members: &[Alert],
) -> Result<(), String> {
    let body = webhook::body(&webhook.name, group, members, &format!("http://{}", server.pages));
    webhook::send(client, &webhook.url, &body).await
}

impl Backoff {
    fn fail(&mut self, now_ns: i64) {
        let pause = FIRST_PAUSE_NS.saturating_mul(1 << self.failures.min(20)).min(LONGEST_PAUSE_NS);
        self.failures += 1;
        self.not_before_ns = now_ns + pause;
    }
}

/// The groups of which this webhook has something to hear: what is new or over, with all else that fires there.
fn due(
    alerts: &[Alert],
    told: &Told,
    webhook: &str,
    repeat_ns: i64,
    now_ns: i64,
) -> Vec<(Group, Vec<Alert>)> {
    let mut groups: BTreeMap<Group, (bool, Vec<Alert>)> = BTreeMap::new();
    for alert in alerts {
        let is_due = told.is_due(webhook, alert, repeat_ns, now_ns);
        if !is_due && !alert.is_firing() {
            continue;
        }
        let group = Group { rule: alert.problem.rule.clone(), agent: alert.problem.agent.clone() };
        let (any, members) = groups.entry(group).or_default();
        *any |= is_due;
        members.push(alert.clone());
    }
    groups.into_iter().filter(|(_, (any, _))| *any).map(|(group, (_, members))| (group, members)).collect()
}

fn is_silenced(alert: &Alert, silences: &[Silence]) -> bool {
    silences.iter().any(|silence| {
        silence.rule.as_ref().is_none_or(|rule| *rule == alert.problem.rule)
            && silence.agent.as_ref().is_none_or(|agent| Some(agent) == alert.problem.agent.as_ref())
    })
}

async fn silences(server: &Arc<Server>, now_ns: i64) -> Option<Vec<Silence>> {
    let server = Arc::clone(server);
    let work = move || -> Result<Vec<Silence>, QueryError> {
        Ok(server.store.ask(&question::active_silences(now_ns))?.read().unwrap_or_default())
    };
    tokio::task::spawn_blocking(work).await.ok()?.ok()
}

#[cfg(test)]
mod tests;
