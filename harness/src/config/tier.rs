//! `[model.tiers.NAME]` of agent.toml: models by their role, such as `plan` or `summary`.
//!
//! Place in the flow: whoever needs another model than the run's own names a tier; [`ModelTable::of_tier`] says
//! which model that is. What a tier leaves out is as in `[model]`.

use super::{ModelTable, Price};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `[model.tiers.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierTable {
    /// The model asked for.
    pub name: String,
    /// A name for people and spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Where the provider is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key; empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Whether answers are streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Longest silence of the provider, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Cap on output tokens of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Prices, where the table of prices knows the model or the file gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Further members of the request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Map<String, Value>>,
}

impl ModelTable {
    /// The model of a tier.
    ///
    /// # Errors
    /// Names the tiers there are, where this is none of them.
    pub fn of_tier(&self, tier: &str) -> Result<Self, String> {
        let Some(table) = self.tiers.get(tier) else {
            let known: Vec<&str> = self.tiers.keys().map(String::as_str).collect();
            return Err(match known.is_empty() {
                true => format!("there is no tier `{tier}`: write a table [model.tiers.{tier}]"),
                false => format!("there is no tier `{tier}`; there are: {}", known.join(", ")),
            });
        };
        let wire = table.wire.clone().unwrap_or_else(|| self.wire.clone());
        // Address and key belong to a provider: a tier on another wire does not share them.
        let same = wire == self.wire;
        let shared = |own: &Option<String>, of_model: &Option<String>| {
            own.clone().or_else(|| of_model.clone().filter(|_| same))
        };
        Ok(Self {
            provider: table.provider.clone().unwrap_or_else(|| self.provider.clone()),
            name: table.name.clone(),
            base_url: shared(&table.base_url, &self.base_url),
            key_env: shared(&table.key_env, &self.key_env),
            stream: table.stream.unwrap_or(self.stream),
            timeout_seconds: table.timeout_seconds.unwrap_or(self.timeout_seconds),
            max_output_tokens: table.max_output_tokens.or(self.max_output_tokens),
            temperature: table.temperature.or(self.temperature),
            price: table.price.or_else(|| crate::price::of_model(&table.name)),
            extra: table.extra.clone().unwrap_or_else(|| self.extra.clone()),
            wire,
            ..self.clone()
        })
    }

    /// What cannot work in the tiers: the key, and why.
    pub(super) fn check_tiers(&self) -> Result<(), (String, String)> {
        for (tier, table) in &self.tiers {
            let key = |field: &str| format!("model.tiers.{tier}.{field}");
            if table.name.is_empty() {
                return Err((key("name"), "is empty; name a model, for example gpt-4o-mini".to_owned()));
            }
            if let Some(wire) = &table.wire
                && crate::model::wire(wire).is_none()
            {
                return Err((key("wire"), super::no_wire(wire)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::AgentConfig;
    use std::path::Path;

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse(text, Path::new("agent.toml")).map_err(|why| why.to_string())
    }

    const TIERS: &str = "[model]\nname = \"big\"\nkey_env = \"MY_KEY\"\ntemperature = 0.5\n[model.tiers.plan]\nname = \
                         \"small\"\n[model.tiers.summary]\nname = \"other\"\nwire = \"messages\"\n";

    #[test]
    fn a_tier_names_a_model_by_its_role_and_takes_the_rest_from_the_model() {
        let config = parse(TIERS).unwrap();
        let plan = config.model.of_tier("plan").unwrap();
        assert_eq!((plan.name.as_str(), plan.temperature), ("small", Some(0.5)));
        assert_eq!(plan.key_env.as_deref(), Some("MY_KEY"));
        let summary = config.model.of_tier("summary").unwrap();
        assert_eq!((summary.name.as_str(), summary.wire.as_str()), ("other", "messages"));
        assert_eq!(summary.key_env, None, "another provider's key is not sent along");
        let of_tier = parse(&TIERS.replace("name = \"big\"", "tier = \"plan\"")).unwrap();
        assert_eq!(of_tier.model.name, "small");
    }

    #[test]
    fn an_unknown_tier_is_an_error_that_names_the_key_and_the_tiers_there_are() {
        for (text, key) in [
            (TIERS.replace("name = \"big\"", "tier = \"thought\""), "model.tier"),
            (format!("{TIERS}[context]\ntier = \"thought\""), "context.tier"),
        ] {
            let why = parse(&text).unwrap_err();
            assert!(
                why.contains(&format!("`{key}`: there is no tier `thought`; there are: plan, summary")),
                "{why}"
            );
        }
        let why = parse("[model]\nname = \"m\"\n[context]\ntier = \"t\"").unwrap_err();
        assert!(why.contains("write a table [model.tiers.t]"), "{why}");
        let why = parse(&TIERS.replace("\"messages\"", "\"soap\"")).unwrap_err();
        assert!(why.contains("model.tiers.summary.wire"), "{why}");
    }
}
