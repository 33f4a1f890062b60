//! A policy that is parsed once and evaluated often.

use sortie_base::wildcard::Wildcard;
use sortie_core::policy::{Layer, Mode, Policy, PolicyLayer};

use crate::list::List;
use crate::rule::Rule;

/// The most rules of one policy, in all layers together. Each nested child adds the rules of its
/// own layers; a policy beyond this limit is a mistake, and could make every call slow.
pub const MAX_RULES: usize = 2_000;

/// A policy that is parsed once and evaluated often. If a rule could not be parsed, it denies
/// everything and reports why.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(crate) state: Result<Layers, Unreadable>,
}

/// The layers of a policy that was parsed.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) layers: Vec<Rules>,
    pub(crate) grants: List,
    pub(crate) mode: Mode,
    pub(crate) read_only: bool,
    pub(crate) allow_dangerous: bool,
    /// The agents that are started without an approval; `None` is all of them.
    pub(crate) free_agents: Option<Vec<Wildcard>>,
}

/// The rules of one layer.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) layer: Layer,
    pub(crate) source: String,
    pub(crate) allow: Option<List>,
    pub(crate) deny: List,
    pub(crate) except: List,
    pub(crate) ask: List,
    pub(crate) approve: List,
}

/// A rule that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) layer: Layer,
    pub(crate) rule: Option<String>,
    pub(crate) why: String,
}

impl Compiled {
    /// Parses a policy and the grants of the session.
    ///
    /// A grant that cannot be parsed permits nothing; any other unparsable rule makes the whole
    /// policy deny.
    pub fn new(policy: &Policy, grants: &[String]) -> Self {
        Self {
            state: read(policy, grants),
        }
    }

    /// Returns why the policy could not be parsed, as a sentence; `None` if it was parsed.
    pub fn unreadable(&self) -> Option<&str> {
        self.state
            .as_ref()
            .err()
            .map(|unreadable| unreadable.why.as_str())
    }
}

fn read(policy: &Policy, grants: &[String]) -> Result<Layers, Unreadable> {
    let mut layers = policy.layers.iter().collect::<Vec<_>>();
    // Sort by content, not by the order of assembly, so that the order of layers affects nothing,
    // not even which layer a ruling names.
    layers.sort_by(|one, other| rank(one).cmp(&rank(other)));
    check_count(&layers)?;
    let layers = layers
        .into_iter()
        .map(read_layer)
        .collect::<Result<_, _>>()?;
    let grants = grants.iter().take(MAX_RULES);
    Ok(Layers {
        layers,
        grants: List::new(grants.filter_map(|rule| rule.parse().ok()).collect()),
        mode: policy.mode,
        read_only: policy.read_only,
        allow_dangerous: policy.allow_dangerous,
        free_agents: policy
            .free_agents
            .as_ref()
            .map(|agents| agents.iter().map(|agent| Wildcard::new(agent)).collect()),
    })
}

fn rank(layer: &PolicyLayer) -> impl Ord {
    (
        layer.layer,
        &layer.source,
        &layer.allow,
        &layer.deny,
        (&layer.except, &layer.ask, &layer.approve),
    )
}

fn check_count(layers: &[&PolicyLayer]) -> Result<(), Unreadable> {
    let mut count = 0;
    for layer in layers {
        let allowed = layer.allow.as_ref().map_or(0, Vec::len);
        count += allowed + layer.deny.len() + layer.except.len();
        count += layer.ask.len() + layer.approve.len();
        if count > MAX_RULES {
            return Err(Unreadable {
                layer: layer.layer,
                rule: None,
                why: format!(
                    "{} exceeds the limit of {MAX_RULES} rules for one policy, so the policy denies everything",
                    layer.source
                ),
            });
        }
    }
    Ok(())
}

fn read_layer(layer: &PolicyLayer) -> Result<Rules, Unreadable> {
    let list = |rules: &[String]| read_list(layer, rules);
    Ok(Rules {
        layer: layer.layer,
        source: layer.source.clone(),
        allow: layer.allow.as_deref().map(list).transpose()?,
        deny: list(&layer.deny)?,
        except: list(&layer.except)?,
        ask: list(&layer.ask)?,
        approve: list(&layer.approve)?,
    })
}

fn read_list(layer: &PolicyLayer, rules: &[String]) -> Result<List, Unreadable> {
    let read = |text: &String| -> Result<Rule, Unreadable> {
        text.parse().map_err(|error| Unreadable {
            layer: layer.layer,
            rule: Some(text.clone()),
            why: format!(
                "the rule `{text}` of {} cannot be parsed, so the policy denies everything: {error}",
                layer.source
            ),
        })
    };
    Ok(List::new(rules.iter().map(read).collect::<Result<_, _>>()?))
}

impl Rules {
    /// Returns whether rules of this layer may waive approval requests: those of an operator may,
    /// those of a run never.
    pub(crate) const fn may_approve(&self) -> bool {
        match self.layer {
            Layer::Global
            | Layer::Provider
            | Layer::Agent
            | Layer::Group
            | Layer::Sandbox
            | Layer::Subagent => true,
            Layer::Parent
            | Layer::Spawn
            | Layer::Grant
            | Layer::Mode
            | Layer::Danger
            | Layer::Session
            | Layer::Hook => false,
        }
    }
}
