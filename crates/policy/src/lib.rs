//! Pure decisions about authority: whether a run may spawn, with which tools, and whether it may
//! make a call.
//!
//! [`Draft`] creates the policy of a new run, [`Compiled`] decides about its calls, [`AtUse`]
//! about the files and servers that they really use. A policy is a list of layers, each of which
//! can only narrow; the policy of a child begins with that of its parent. Deny wins in any order,
//! an empty list means none, and what cannot be understood is denied.

mod at_use;
mod command;
mod compiled;
mod decide;
mod derive;
mod explain;
mod hash;
mod host;
mod list;
mod object;
mod place;
mod rule;
mod shown;
mod suggest;
mod tool;

use std::path::Path;

use serde_json::Value;

pub use at_use::AtUse;
pub use compiled::{Compiled, MAX_RULES};
pub use derive::{
    AgentRules, CHANGES_OF_CHILDREN, DENIED_TO_CHILDREN, DefaultDeny, Denial, Draft, Parent,
    PolicyInputs, RunPolicy, SubagentRules,
};
pub use explain::{Explanation, LayerView, Opinion, View};
pub use hash::hash;
pub use rule::{MAX_RULE_CHARS, Rule, RuleError};
pub use shown::{dangers, exact};
pub use suggest::suggest;
pub use tool::ToolFacts;

/// The call to decide about.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub tool: &'a ToolFacts,
    /// The names of the tools that the run was granted at admission.
    pub granted: &'a [String],
    /// The arguments, under the parameter names of the tool itself.
    pub arguments: &'a Value,
    /// The folder that relative paths are relative to.
    pub workspace: &'a Path,
    /// Whether the operating system really confines commands in a sandbox, so that those of
    /// read-only runs cannot change anything.
    pub sandboxed: bool,
}
