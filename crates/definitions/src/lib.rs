//! Agents and skills from files.
//!
//! The file formats of other systems are supported: Markdown with YAML front
//! matter. Invariants: every file is opened beneath a descriptor of its folder, so no symbolic
//! link leads out of it; everything has a limit; an invalid file does not affect others; a file
//! of an untrusted folder can only restrict; a skill is text and grants nothing.

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
pub use places::{
    Scope, SearchContext, SearchFolder, agent_places, skill_places, workspace_skill_places,
};
pub use problem::{Problem, Severity};
pub use skill::{SKILL_TOOL, Skill, SkillChoice, SkillTool, Skills, narrow, skills_prompt};
