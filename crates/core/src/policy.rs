//! Authority as data: what a run was allowed to do, and why each call was or was not.
//!
//! The rules here are kept as they were written. `policy` reads them, and refuses everything where
//! it cannot.

use serde::{Deserialize, Serialize};

use crate::request::RequestId;

words! {
    /// How calls that change something are treated.
    Mode {
        /// Nothing may change: the run only looks and plans.
        Plan = "plan",
        /// What a person would be asked about is refused.
        DontAsk = "dont-ask",
        /// A person is asked.
        Default = "default",
        /// Files of the workspace may change; a person is asked about the rest.
        AcceptEdits = "accept-edits",
        /// Nobody is asked. Rules that deny still do, and the sandbox still holds.
        Yolo = "yolo",
    }
}

impl Mode {
    /// The stricter of two: a child is never freer than its parent.
    #[must_use]
    pub fn within(self, ceiling: Self) -> Self {
        self.min(ceiling)
    }
}

words! {
    /// Who had the word about a call.
    Layer {
        /// The operator's rules for every run.
        Global = "global",
        /// The operator's rules for a vendor of models.
        Provider = "provider",
        /// The agent's definition, and what an operator set for it.
        Agent = "agent",
        /// The operator's rules for the sessions of a channel.
        Group = "group",
        /// The rules for runs whose commands are in a sandbox.
        Sandbox = "sandbox",
        /// What no subagent gets, unless an operator says so.
        Subagent = "subagent",
        /// What the parent itself may do.
        Parent = "parent",
        /// What the spawn call asked for.
        Spawn = "spawn",
        /// What the run was not given at admission.
        Grant = "grant",
        /// The mode of the run.
        Mode = "mode",
        /// The check for dangerous commands.
        Danger = "danger",
        /// What a person allowed for the whole session.
        Session = "session",
    }
}

words! {
    /// What policy says about a call.
    Decision {
        /// It runs.
        Allow = "allow",
        /// A person decides.
        Ask = "ask",
        /// It does not run.
        Deny = "deny",
    }
}

/// What a run may do: every layer that has a say, the outermost first.
///
/// A call runs only if no layer refuses it, so a child whose layers begin with all those of its
/// parent can never do more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The layers.
    pub layers: Vec<PolicyLayer>,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Whether the agent may change anything at all.
    #[serde(default)]
    pub read_only: bool,
    /// Whether commands that look dangerous are treated like all others.
    #[serde(default)]
    pub allow_dangerous: bool,
}

impl Default for Policy {
    /// No rules at all: everything that changes something asks.
    fn default() -> Self {
        Self {
            layers: Vec::new(),
            mode: Mode::Default,
            read_only: false,
            allow_dangerous: false,
        }
    }
}

/// The rules of one layer, as they were written. Deny wins in any order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLayer {
    /// Which layer.
    pub layer: Layer,
    /// Where the rules stand: `config policy`, `agent explore`.
    pub source: String,
    /// Only these calls; `None` is all, an empty list is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Not denied by this layer after all: an operator has lifted a default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// A person is asked about these, whatever the mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Nobody is asked about these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve: Vec<String>,
}

impl PolicyLayer {
    /// A layer without rules.
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

    /// Whether it has nothing to say.
    pub fn is_empty(&self) -> bool {
        self.allow.is_none()
            && self.deny.is_empty()
            && self.ask.is_empty()
            && self.approve.is_empty()
    }
}

/// The rules that an operator writes for a layer; see [`PolicyLayer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Only these calls; `None` is all, an empty list is none.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// A person is asked about these.
    pub ask: Vec<String>,
    /// Nobody is asked about these.
    pub approve: Vec<String>,
}

impl Rules {
    /// These rules as a layer.
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

/// What was decided about a call, and by whom. Journaled with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// What.
    pub decision: Decision,
    /// By which layer.
    pub layer: Layer,
    /// By which of its rules, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, as a short sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Who said yes, where somebody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovedBy>,
}

/// Who said yes to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovedBy {
    /// Somebody who was asked about this very call.
    Person {
        /// The request.
        request: RequestId,
        /// Who.
        name: String,
    },
    /// Somebody who had allowed it for the whole session.
    Grant {
        /// What was allowed.
        rule: String,
    },
}

impl Ruling {
    /// A ruling without an approval.
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
