//! `/alerts`: what fires, what is over, and which runs show it.
//!
//! Place in the flow: the alerts of this process, which are those of the ops log.

use super::spell::{self, path_segment};
use super::{Foot, PageError};
use crate::alert::Alert;
use crate::clock;
use crate::server::Server;
use askama::Template;

/// Alerts shown; the rest is in the view `alerts`.
const SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    lines: Vec<AlertLine>,
    hidden: usize,
    webhooks: usize,
    foot: Foot,
}

/// One alert as pages show it.
pub(super) struct AlertLine {
    pub(super) is_firing: bool,
    pub(super) rule: String,
    pub(super) agent: String,
    pub(super) tool_name: String,
    pub(super) detail: String,
    pub(super) next: String,
    pub(super) wasted: String,
    pub(super) since: String,
    pub(super) ago: String,
    pub(super) until: String,
    pub(super) runs: usize,
    pub(super) run_href: Option<String>,
}

/// The page.
pub(super) fn render(server: &Server, now_ns: i64) -> Result<String, PageError> {
    let mut lines = lines(server, now_ns);
    let hidden = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    let webhooks = server.settings.webhook.len();
    Ok(Alerts { lines, hidden, webhooks, foot: Foot::of(server, now_ns) }.render()?)
}

/// All alerts: those that fire first, then by time.
pub(super) fn lines(server: &Server, now_ns: i64) -> Vec<AlertLine> {
    let mut alerts: Vec<Alert> = server.board().alerts().cloned().collect();
    alerts.sort_by_key(|alert| (!alert.is_firing(), std::cmp::Reverse(alert.fired_at_ns)));
    alerts.iter().map(|alert| line(alert, now_ns)).collect()
}

fn line(alert: &Alert, now_ns: i64) -> AlertLine {
    let evidence = alert.evidence.as_ref();
    AlertLine {
        is_firing: alert.is_firing(),
        rule: alert.problem.rule.clone(),
        agent: spell::text(alert.problem.agent.as_deref()),
        tool_name: spell::text(alert.problem.tool_name.as_deref()),
        detail: spell::text(evidence.map(|evidence| evidence.detail.as_str())),
        next: spell::text(evidence.and_then(|evidence| evidence.next_safe_action.as_deref())),
        wasted: spell::count(evidence.and_then(|evidence| evidence.tokens_wasted)),
        since: clock::spelled(alert.fired_at_ns),
        ago: spell::ago(alert.fired_at_ns, now_ns),
        until: alert.resolved_at_ns.map_or_else(|| spell::UNKNOWN.to_owned(), clock::spelled),
        runs: alert.runs.len(),
        run_href: alert.runs.last().map(|run| format!("/runs/{}", path_segment(run.as_str()))),
    }
}
