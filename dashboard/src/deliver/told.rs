//! What each webhook was last told: `delivered.json` of the home.
//!
//! Place in the flow: read once, written after each delivery, beside and renamed, so it is never half. Without it
//! everything that fires is told again: a page too many, never one too few. A URL may hold a secret, so only its
//! hash is kept.

use crate::alert::Alert;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use trace::home::Home;
use trace::id::Hash;

/// An alert that was over before its webhook heard of it is still told for this long: a restart must not hide it.
const LATE_NEWS_NS: i64 = 3600 * 1_000_000_000;

/// Webhook and alert -> what was said last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    said: BTreeMap<String, BTreeMap<String, Said>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    firing: bool,
    fired_at_ns: i64,
    at_ns: i64,
}

/// The name under which a webhook is kept.
pub(super) fn webhook_key(url: &str) -> String {
    Hash::of(url.as_bytes()).short()
}

fn path(home: &Home) -> PathBuf {
    home.root().join("delivered.json")
}

impl Told {
    pub(super) fn read(home: &Home) -> Self {
        std::fs::read(path(home))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    pub(super) fn write(&self, home: &Home) -> io::Result<()> {
        let path = path(home);
        let part = path.with_extension("json.part");
        let mut file = std::fs::File::create(&part)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(part, path)
    }

    /// Whether the webhook has to hear of this alert now.
    pub(super) fn is_due(&self, webhook: &str, alert: &Alert, repeat_ns: i64, now_ns: i64) -> bool {
        let said = self.said.get(webhook).and_then(|said| said.get(&alert.problem.alert_id()));
        match said {
            Some(said) if alert.is_firing() => {
                !said.firing || said.fired_at_ns != alert.fired_at_ns || now_ns - said.at_ns >= repeat_ns
            }
            Some(said) => said.firing || said.fired_at_ns != alert.fired_at_ns,
            None => alert.is_firing() || alert.resolved_at_ns.is_some_and(|at| now_ns - at < LATE_NEWS_NS),
        }
    }

    /// Notes that the webhook heard of these alerts.
    pub(super) fn note(&mut self, webhook: &str, alerts: &[Alert], now_ns: i64) {
        let said = self.said.entry(webhook.to_owned()).or_default();
        for alert in alerts {
            let one = Said { firing: alert.is_firing(), fired_at_ns: alert.fired_at_ns, at_ns: now_ns };
            said.insert(alert.problem.alert_id(), one);
        }
    }
}
