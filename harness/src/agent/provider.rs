//! The models of a configuration, over HTTP: its own and those of the tiers that something asks for.
//!
//! Place in the flow: part of making an [`super::Agent`] ready.

use super::AgentError;
use crate::config::{AgentConfig, ConfigError, ModelTable};
use crate::driver::Tiers;
use crate::model::http::{Endpoint, Http};
use crate::model::{Model, wire};
use secrecy::SecretString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The models of the tiers that something asks for.
pub(super) fn tiers(
    config: &AgentConfig,
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Tiers, AgentError> {
    let mut tiers = Tiers::new();
    for (key, tier) in config.tiers_used() {
        let unknown = |why| ConfigError::Value { path: path.to_owned(), key, why };
        let table = config.model.of_tier(tier).map_err(unknown)?;
        tiers.insert(tier.to_owned(), http_model(&table, path, environment)?);
    }
    Ok(tiers)
}

/// A model over HTTP.
pub(super) fn http_model(
    table: &ModelTable,
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Model, AgentError> {
    let key = match table.key_env() {
        None => None,
        Some(name) => {
            Some(environment(name).filter(|key| !key.is_empty()).ok_or_else(|| AgentError::NoKey {
                path: path.to_owned(),
                key_env: name.to_owned(),
                provider: table.provider.clone(),
            })?)
        }
    };
    let wire = wire(&table.wire).ok_or_else(|| {
        AgentError::Config(ConfigError::Value {
            path: path.to_owned(),
            key: "model.wire".to_owned(),
            why: crate::config::no_wire(&table.wire),
        })
    })?;
    let mut endpoint = Endpoint::new(table.base_url());
    endpoint.idle_timeout = Duration::from_secs(table.timeout_seconds);
    let transport = Http::new(&endpoint, &*wire, key.map(SecretString::from).as_ref())
        .map_err(|why| AgentError::Client { path: path.to_owned(), why })?;
    Ok(Model { provider: table.provider.clone(), wire, transport: Arc::new(transport) })
}
