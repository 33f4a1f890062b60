//! Authority as data: what a run may do, and why each call was or was not allowed.
//!
//! Rules are stored as they were written. The policy crate interprets them, and denies every call
//! if it cannot.

use serde::{Deserialize, Serialize};

use crate::request::RequestId;

words! {
    /// How calls that change something are decided.
    Mode {
        /// Only calls that change nothing are allowed.
        Plan = "plan",
        /// Calls that need an approval are denied.
        DontAsk = "dont-ask",
        /// Calls that change something need an approval.
        Default = "default",
        /// Changes to files of the workspace are allowed; the rest needs an approval.
        AcceptEdits = "accept-edits",
        /// No approval is needed. Deny rules and the sandbox still apply.
        Yolo = "yolo",
    }
}

impl Mode {
    /// Returns the stricter of two modes: a child is never freer than its parent.
    #[must_use]
    pub fn within(self, ceiling: Self) -> Self {
        self.min(ceiling)
    }
}

words! {
    /// Which agents an approver has to allow before they are started as subagents.
    ApproveSpawn {
        /// Those that can change something, unless the mode prevents or permits changes anyway.
        Changing = "changing",
        /// All, in every mode except `yolo`.
        Always = "always",
        Never = "never",
    }
}

words! {
    /// The layer that decided a call.
    Layer {
        /// The operator's rules for all runs.
        Global = "global",
        /// The operator's rules for a model vendor.
        Provider = "provider",
        /// The agent definition and the operator's rules for that agent.
        Agent = "agent",
        /// The operator's rules for the sessions of a channel.
        Group = "group",
        /// The rules for runs whose commands are sandboxed.
        Sandbox = "sandbox",
        /// What subagents are denied unless the operator allows it.
        Subagent = "subagent",
        /// The parent's own policy.
        Parent = "parent",
        /// The narrowing in the spawn call.
        Spawn = "spawn",
        /// Tools that the run was not given at admission.
        Grant = "grant",
        Mode = "mode",
        /// The check for dangerous commands.
        Danger = "danger",
        /// Grants of an approver for the whole session.
        Session = "session",
        /// A hook of the operator.
        Hook = "hook",
    }
}

words! {
    /// The decision of policy about a call.
    Decision {
        Allow = "allow",
        /// An approver decides the call.
        Ask = "ask",
        Deny = "deny",
    }
}

/// The policy of a run: all layers, the outermost first.
///
/// A call runs only if no layer denies it, so a child whose layers begin with its parent's can
/// never do more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub layers: Vec<PolicyLayer>,
    pub mode: Mode,
    /// Whether calls that change something are denied.
    #[serde(default)]
    pub read_only: bool,
    /// Whether dangerous commands need no separate approval.
    #[serde(default)]
    pub allow_dangerous: bool,
    /// The agents that are started without an approval; `None` is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_agents: Option<Vec<String>>,
}

impl Default for Policy {
    /// Returns a policy without rules: every call that changes something needs an approval.
    fn default() -> Self {
        Self {
            layers: Vec::new(),
            mode: Mode::Default,
            read_only: false,
            allow_dangerous: false,
            free_agents: None,
        }
    }
}

/// The rules of one layer, as they were written. Deny wins in any order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLayer {
    pub layer: Layer,
    /// Where the rules are defined: `config policy`, `agent explore`.
    pub source: String,
    /// Only these calls are allowed. `None` allows all, an empty list none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Exceptions from `deny`: defaults that an operator lifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// These need an approval in every mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// These need no approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve: Vec<String>,
}

impl PolicyLayer {
    /// Returns a layer without rules.
    pub fn new(layer: Layer, source: impl Into<String>) -> Self {
        Self {
            layer,
            source: source.into(),
            allow: None,
            deny: Vec::new(),
            except: Vec::new(),
            ask: Vec::new(),
            approve: Vec::new(),
        }
    }

    /// Whether it has no rules.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none()
            && self.deny.is_empty()
            && self.ask.is_empty()
            && self.approve.is_empty()
    }
}

/// The rules that an operator writes for a layer; see [`PolicyLayer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rules {
    /// Allows only these calls. Unset: all calls. An empty list: no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Denies these calls in every mode.
    pub deny: Vec<String>,
    /// Requires an approval for these calls.
    pub ask: Vec<String>,
    /// Lets these calls run without an approval.
    pub approve: Vec<String>,
}

impl Rules {
    pub fn into_layer(self, layer: Layer, source: impl Into<String>) -> PolicyLayer {
        PolicyLayer {
            allow: self.allow,
            deny: self.deny,
            ask: self.ask,
            approve: self.approve,
            ..PolicyLayer::new(layer, source)
        }
    }
}

/// The decision about a call and where it came from. Journaled with the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    pub decision: Decision,
    pub layer: Layer,
    /// The rule that decided, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Reason of the decision, as a short sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Who approved the call, if an approval was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovedBy>,
}

/// Who approved a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovedBy {
    /// An approver, for this call.
    Person { request: RequestId, name: String },
    /// A grant for the whole session.
    Grant { rule: String },
}

impl Ruling {
    /// Returns a ruling without an approval.
    pub fn new(
        decision: Decision,
        layer: Layer,
        rule: Option<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            decision,
            layer,
            rule,
            why: why.into(),
            approved: None,
        }
    }
}
