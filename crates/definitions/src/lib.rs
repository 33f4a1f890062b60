//! Skills and agents that people keep in files.
//!
//! Other systems have such files already, and the same ones are read here: Markdown with YAML front
//! matter. Invariants: every file is opened beneath a held descriptor of its folder, so no symbolic
//! link leads out of it; everything has a bound; no file stops another from being read; what a file
//! of an untrusted folder says can only narrow; a skill is text and grants nothing.

mod agent;
mod fields;
mod folder;
mod front_matter;
mod places;
mod problem;
mod skill;

pub use agent::{
    AgentFiles, Ceiling, FileCheck, Known, LoadedAgent, McpServer, Verdict, load_agents, rule_tool,
    translate_rule,
};
pub use front_matter::{Document, FrontMatterError, MAX_FRONT_MATTER_BYTES, split};
pub use places::{Place, Scope, Where, agent_places, skill_places, workspace_skill_places};
pub use problem::{Problem, Severity};
pub use skill::{SKILL_TOOL, Skill, SkillChoice, SkillTool, Skills, narrow, skills_prompt};
