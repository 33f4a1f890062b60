//! Pure decisions about authority: may this run spawn, with which tools, and may it make this call.
//!
//! [`admit()`] makes the policy of a new run, [`Compiled`] decides about its calls, [`AtUse`] about
//! the files and servers that they really use. A policy is a list of layers, each of which can only
//! narrow; a child's begins with its parent's. Deny wins in any order, an empty list means none,
//! and what cannot be understood is refused.

mod admit;
mod at_use;
mod command;
mod compiled;
mod decide;
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

pub use admit::{
    AdmissionRequest, Admitted, AgentRules, DENIED_TO_CHILDREN, DefaultDeny, Denial, Parent,
    SubagentRules, admit,
};
pub use at_use::AtUse;
pub use compiled::{Compiled, MAX_RULES};
pub use explain::{Explanation, LayerView, Opinion, View};
pub use hash::hash;
pub use rule::{MAX_RULE_CHARS, Rule, RuleError};
pub use shown::{dangers, exact};
pub use suggest::suggest;
pub use tool::ToolFacts;

/// One call that is decided about.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a ToolFacts,
    /// The names of the tools that the run was given at admission.
    pub granted: &'a [String],
    /// The arguments, under the names that the tool itself gives them.
    pub arguments: &'a Value,
    /// The folder that relative paths are relative to.
    pub workspace: &'a Path,
    /// Whether commands really run in a sandbox of the operating system, which makes those of
    /// read-only runs unable to change anything.
    pub sandboxed: bool,
}
