//! agent.toml becomes an agent: servers started, and agents that are its tools loaded.
//!
//! Place in the flow: prompt -> agent, the part that reads files and starts programs.

use super::{Agent, AgentError};
use crate::config::AgentConfig;
use crate::tool::{Environment, Toolbox};
use std::path::Path;
use std::sync::Arc;

/// How deep an agent is below the one that is run, and may be.
#[derive(Debug, Clone, Copy)]
struct Depth {
    at: u32,
    max: u32,
}

impl Agent {
    /// Reads agent.toml and makes everything ready, its servers included. `environment` looks up the variables of
    /// keys.
    ///
    /// # Errors
    /// Where the file, a tool, a server or a key is not as it must be; each message names the file.
    pub async fn load(path: &Path, environment: Environment<'_>) -> Result<Self, AgentError> {
        Self::load_at(path, environment, None).await
    }

    /// As [`Self::load`]; `depth` says how deep this agent is and may be, where another has it as a tool.
    async fn load_at(
        path: &Path,
        environment: Environment<'_>,
        depth: Option<Depth>,
    ) -> Result<Self, AgentError> {
        let config = AgentConfig::load(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let agent = Self::of_config(config, path, folder, environment)?;
        agent.connect_at(path, folder, environment, depth).await
    }

    /// Starts the servers of `[[mcp]]` and takes their tools in; they live as long as the agent's tools. Agents that
    /// are tools are loaded. A run without a tool that policy requires does not begin.
    ///
    /// # Errors
    /// Where a server does not start, or one of its tools cannot be used, or an agent cannot be loaded.
    pub async fn connect(
        self,
        path: &Path,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<Self, AgentError> {
        self.connect_at(path, folder, environment, None).await
    }

    async fn connect_at(
        mut self,
        path: &Path,
        folder: &Path,
        environment: Environment<'_>,
        depth: Option<Depth>,
    ) -> Result<Self, AgentError> {
        let agents: Vec<_> =
            self.config.tools.iter().filter_map(|table| Some((table, table.agent.as_ref()?))).collect();
        let wrong = |why| AgentError::Tools { path: path.to_owned(), why };
        let required = &self.config.policy.required_tools;
        if self.config.servers.is_empty() && agents.is_empty() {
            self.toolbox.has(required).map_err(wrong)?;
            return Ok(self);
        }
        let mut toolbox = Toolbox::of_config(&self.config, folder, environment).map_err(wrong)?;
        toolbox.connect(&self.config, folder, environment).await.map_err(wrong)?;
        let depth = depth.unwrap_or(Depth { at: 0, max: self.config.loop_.max_agent_depth });
        for (table, file) in agents {
            if depth.at >= depth.max {
                let (path, agent) = (path.to_owned(), file.display().to_string());
                return Err(AgentError::Depth { path, agent, max: depth.max });
            }
            let below = Depth { at: depth.at + 1, ..depth };
            let agent = Box::pin(Self::load_at(&folder.join(file), environment, Some(below))).await?;
            toolbox.employ(table, Arc::new(agent)).map_err(wrong)?;
        }
        toolbox.has(required).map_err(wrong)?;
        self.toolbox = Arc::new(toolbox);
        Ok(self)
    }
}
