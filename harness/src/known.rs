//! The names that an agent's surroundings give it, where its configuration gives none.
//!
//! Place in the flow: environment -> [`trace::caller`] -> **agent** -> the first fact of its runs.

use crate::agent::Agent;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Agent {
    /// The same, with service, environment and release of this OpenTelemetry resource where it has none of its own.
    #[must_use]
    pub fn known_as(mut self, resource: &BTreeMap<String, String>) -> Self {
        let named = |names: &[&str]| names.iter().find_map(|name| resource.get(*name)).cloned();
        let agent = &mut Arc::make_mut(&mut self.config).agent;
        agent.service = agent.service.take().or_else(|| named(&["service.name"]));
        agent.environment = agent
            .environment
            .take()
            .or_else(|| named(&["deployment.environment.name", "deployment.environment"]));
        agent.release = agent.release.take().or_else(|| named(&["service.version"]));
        self
    }
}
