//! What runs are made from: for the runtime, and for commands that only look.

use std::sync::Arc;

use sortie_core::{Lang, Tool};
use sortie_definitions::AgentFiles;
use sortie_mcp::Pool;
use sortie_runtime::{Agents, Planner};
use sortie_sandbox::Sandbox;
use sortie_text::t;

use crate::problem::Problem;
use crate::settings::Settings;
use crate::wiring::{self, Wishes};
use crate::workplace::{self, SkillFolders};
use crate::workshop;

/// Tools, agents, and what was set about them, as a run of this folder would get them.
#[derive(Debug)]
pub(crate) struct Equipment {
    /// What holds commands.
    pub(crate) sandbox: Arc<Sandbox>,
    /// The tools that need no server.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// All agents, those of files among them.
    pub(crate) agents: Agents,
    /// The files that agents were looked for in.
    pub(crate) files: AgentFiles,
    /// What was configured, with what agent files say beneath it.
    pub(crate) runtime: sortie_runtime::Settings,
}

impl Equipment {
    /// Reads everything; starts nothing.
    pub(crate) fn of(settings: &Settings, wishes: Wishes) -> Result<Self, Problem> {
        let sandbox = Arc::new(workshop::sandbox(settings)?);
        let tools = workshop::tools(settings, &sandbox)?;
        let mut agents = Agents::built_in(settings.lang);
        let mut runtime = wiring::runtime_settings(settings, wishes);
        let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
        let files = workplace::agent_files(settings, &agents, &names);
        workplace::add_agents(&files, &mut agents, &mut runtime);
        Ok(Self {
            sandbox,
            tools,
            agents,
            files,
            runtime,
        })
    }

    /// Configured rules that are about no tool: each does nothing, so that its author should learn.
    pub(crate) fn unknown_tools(&self, lang: Lang) -> Vec<String> {
        sortie_runtime::unknown_tools_of(&self.runtime, &self.tools)
            .into_iter()
            .map(|(key, unknown)| match unknown.nearest {
                Some(nearest) => t!(
                    lang,
                    "config-unknown-tool-near",
                    key = key,
                    rule = unknown.rule,
                    nearest = nearest
                ),
                None => t!(lang, "config-unknown-tool", key = key, rule = unknown.rule),
            })
            .collect()
    }

    /// Starts the servers of tools that are configured, and adds what they offer. They end with the
    /// pool.
    pub(crate) async fn add_servers(
        &mut self,
        settings: &Settings,
    ) -> Result<Option<Pool>, Problem> {
        let servers = workshop::mcp_servers(settings, &self.files).await?;
        self.tools.extend(servers.iter().flat_map(Pool::tools));
        Ok(servers)
    }

    /// Decides like a runtime, without a store.
    pub(crate) fn into_planner(self, settings: &Settings) -> Result<Planner, Problem> {
        let skills = Arc::new(SkillFolders::of(settings));
        Planner::new(self.tools, self.agents, self.runtime, skills)
            .map_err(|error| Problem::Runtime(error.into()))
    }
}
