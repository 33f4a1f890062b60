//! A project and a home directory for the searches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice, ToolSelection};
use sortie_core::budget::Budget;
use sortie_definitions::{
    AgentFiles, Ceiling, Known, SearchContext, Skills, agent_places, load_agents, skill_places,
};

pub(crate) const TOOLS: [&str; 14] = [
    "read_file",
    "list_dir",
    "glob",
    "grep",
    "write_file",
    "edit_file",
    "exec",
    "todo_write",
    "task",
    "spawn_subagent",
    "subagents",
    "web_fetch",
    "web_search",
    "skill",
];

/// A repository `project` with a workspace `project/app` in it, and a `home`.
pub(crate) struct World {
    root: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = Self {
            root: tempfile::tempdir().unwrap(),
        };
        for folder in ["project/.git", "project/app", "home"] {
            fs::create_dir_all(world.path().join(folder)).unwrap();
        }
        world
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    pub(crate) fn path(&self) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(crate) fn looking<T>(
        &self,
        trusted: bool,
        look: impl FnOnce(&SearchContext<'_>) -> T,
    ) -> T {
        let workspace = self.path().join("project/app");
        let home = self.path().join("home");
        look(&SearchContext {
            workspace: &workspace,
            home: Some(&home),
            is_trusted: &|_: &Path| trusted,
        })
    }

    pub(crate) fn agents(&self, trusted: bool) -> AgentFiles {
        let places = self.looking(trusted, agent_places);
        let tools = TOOLS.map(str::to_owned);
        let known = Known {
            agents: &[built_in("explore")],
            tools: &tools,
            check_rule: &check_rule,
            is_model: &|name| name.starts_with("anthropic/") || name.starts_with("ollama/"),
            is_available: &|name| name.starts_with("anthropic/"),
            ceiling: Ceiling {
                max_iterations: Some(15),
                timeout: Some(Duration::from_secs(1_800)),
                budget: Budget::default(),
            },
        };
        load_agents(&places, &known)
    }

    pub(crate) fn skills(&self) -> Skills {
        let extra = [self.path().join("extra")];
        Skills::find(&self.looking(false, |from| skill_places(from, &extra)))
    }

    /// Returns the text without the path of this test's folder.
    pub(crate) fn shown(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.path().display()), "")
    }
}

/// A policy that accepts relative paths, commands and domains, and no other arguments.
fn check_rule(rule: &str) -> Result<(), String> {
    let (tool, argument) = rule.split_once('(').unwrap_or((rule, "x)"));
    if tool.contains([' ', ')']) || !argument.ends_with(')') {
        return Err("it is no rule".to_owned());
    }
    if argument.starts_with('/') || tool == "task" && argument != "x)" {
        return Err("it says too much".to_owned());
    }
    Ok(())
}

pub(crate) fn built_in(name: &str) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        when_to_use: "built in".to_owned(),
        prompt: "built in".to_owned(),
        model: ModelChoice::Inherit,
        tools: ToolSelection {
            allow: None,
            deny: Vec::new(),
        },
        read_only: true,
        color: None,
        source: AgentSource::BuiltIn,
        max_iterations: None,
    }
}
