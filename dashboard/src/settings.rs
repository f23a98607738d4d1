//! `loopdeck.toml` of the home: agents' caps, thresholds of alerts, webhooks.
//!
//! Place in the flow: read once when the server starts. An unknown key is an error that names file and key: a
//! threshold that is silently ignored is an alert that never fires.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::home::Home;
use trace::rule::{Rules, error_rate, max_turns, repeated_call, token_budget, tool_overuse};

/// Everything the file may say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `[agents.NAME]`: what is known of agents that do not tell it themselves.
    pub agents: BTreeMap<String, Agent>,
    /// `[alerts]`
    pub alerts: Alerts,
    /// `[[webhook]]`
    pub webhook: Vec<Webhook>,
}

/// Caps of an agent whose traces do not tell them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Turns a run may take.
    pub max_turns: Option<u32>,
    /// Tokens a run may use.
    pub max_tokens: Option<u64>,
}

/// When alerts fire, resolve and are told again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alerts {
    /// An alert about runs resolves when no new run showed it for this long, in seconds.
    pub resolve_after_s: u64,
    /// A firing alert is told again after this long, in seconds.
    pub repeat_after_s: u64,
    /// `[alerts.max_turns]`
    pub max_turns: max_turns::MaxTurns,
    /// `[alerts.tool_overuse]`
    pub tool_overuse: tool_overuse::ToolOveruse,
    /// `[alerts.repeated_call]`
    pub repeated_call: repeated_call::RepeatedCall,
    /// `[alerts.token_budget]`
    pub token_budget: token_budget::TokenBudget,
    /// `[alerts.error_rate]`
    pub error_rate: error_rate::ErrorRate,
}

impl Default for Alerts {
    /// An hour to resolve, four hours until told again: Alertmanager's `repeat_interval`.
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            resolve_after_s: 3600,
            repeat_after_s: 4 * 3600,
            max_turns: rules.max_turns,
            tool_overuse: rules.tool_overuse,
            repeated_call: rules.repeated_call,
            token_budget: rules.token_budget,
            error_rate: rules.error_rate,
        }
    }
}

/// Where alerts are told.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// An http or https URL that takes the body of Alertmanager's webhook, version 4.
    pub url: String,
    /// The name under which it appears as `receiver`.
    #[serde(default = "default_receiver")]
    pub name: String,
}

fn default_receiver() -> String {
    "webhook".to_owned()
}

/// The URL of a webhook often holds its secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is there and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or has a key that is not known.
    #[error("{}: {why}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Line, column and key.
        why: String,
    },
    /// A webhook has no URL that can be called.
    #[error("{}: [[webhook]] url of `{name}` must be an http or https URL", path.display())]
    Url {
        /// The file.
        path: PathBuf,
        /// The webhook.
        name: String,
    },
    /// A number that makes no sense.
    #[error("{}: {key} must be {wanted}", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it may be.
        wanted: &'static str,
    },
}

impl Settings {
    /// Reads the file of this home; without one, everything has its default.
    ///
    /// # Errors
    /// When the file cannot be read or used.
    pub fn read(home: &Home) -> Result<Self, SettingsError> {
        let path = home.settings();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(SettingsError::Read { path, source }),
        }
    }

    /// Reads the text of the file `path`.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let settings: Self = toml::from_str(text).map_err(|error| SettingsError::Toml {
            path: path.to_owned(),
            why: error.to_string().trim().to_owned(),
        })?;
        for webhook in &settings.webhook {
            let fits =
                reqwest::Url::parse(&webhook.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !fits {
                return Err(SettingsError::Url { path: path.to_owned(), name: webhook.name.clone() });
            }
        }
        let range = |key, wanted| Err(SettingsError::Range { path: path.to_owned(), key, wanted });
        if settings.alerts.error_rate.window_s == 0 {
            return range("alerts.error_rate.window_s", "at least 1");
        }
        if !(0.0..=100.0).contains(&settings.alerts.error_rate.above_percent) {
            return range("alerts.error_rate.above_percent", "between 0 and 100");
        }
        Ok(settings)
    }

    /// The rules for a run of this agent.
    #[must_use]
    pub fn rules(&self, agent: Option<&str>) -> Rules {
        let alerts = &self.alerts;
        let mut rules = Rules {
            max_turns: alerts.max_turns.clone(),
            tool_overuse: alerts.tool_overuse.clone(),
            repeated_call: alerts.repeated_call.clone(),
            token_budget: alerts.token_budget.clone(),
            error_rate: alerts.error_rate.clone(),
        };
        if let Some(known) = agent.and_then(|name| self.agents.get(name)) {
            rules.max_turns.cap = known.max_turns.or(rules.max_turns.cap);
            rules.token_budget.max_tokens = known.max_tokens.or(rules.token_budget.max_tokens);
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text, Path::new("home/loopdeck.toml"))
    }

    #[test]
    fn an_agents_cap_overrides_the_general_one() {
        let settings = parse("[agents.booker]\nmax_turns = 7\n[alerts.max_turns]\ncap = 30\n").unwrap();
        assert_eq!(settings.rules(Some("booker")).max_turns.cap, Some(7));
        assert_eq!(settings.rules(Some("other")).max_turns.cap, Some(30));
        assert_eq!(settings.rules(None).tool_overuse.max_calls, 5);
    }

    #[test]
    fn what_cannot_be_used_names_file_and_key() {
        for (text, told) in [
            ("[alert]\n", "unknown field `alert`"),
            ("[agents.booker]\nmax_turn = 7\n", "unknown field `max_turn`"),
            ("[alerts.error_rate]\nthreshold = 0.2\n", "unknown field `threshold`"),
            ("[agents.booker]\nmax_turns = \"7\"\n", "line 2"),
            ("[[webhook]]\nurl = \"ftp://x\"\n", "[[webhook]] url of `webhook` must be an http or https URL"),
            ("[alerts.error_rate]\nwindow_s = 0\n", "alerts.error_rate.window_s must be at least 1"),
            ("[[webhook]]\nname = \"pager\"\n", "missing field `url`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("home/loopdeck.toml: ") && error.contains(told), "{text} gave {error}");
        }
    }

    #[test]
    fn a_webhook_never_prints_its_url() {
        let settings = parse("[[webhook]]\nurl = \"https://hooks.example/hush\"\n").unwrap();
        assert!(!format!("{settings:?}").contains("hush"));
    }
}
