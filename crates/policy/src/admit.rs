//! What a new run may do: the meet of all layers that have a say.

use sortie_core::{Layer, Mode, Policy, PolicyLayer, Rules, ToolNarrowing, ToolSelection};

use crate::{Compiled, ToolFacts};

/// Tools that no child gets by default: session, system, login and memory tools, ways to speak to
/// people, and the usual names of ways to start further runs.
pub const DENIED_TO_CHILDREN: &[&str] = &[
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "gateway",
    "agents_list",
    "session_status",
    "cron",
    "whatsapp_login",
    "memory_search",
    "memory_get",
    "memory_save",
    "system_info",
    "file_system",
    "process_control",
    "message",
    "send_media",
    "screenshot",
    "memory_*",
    "spawn",
    "spawn_subagent",
    "task",
    "agent",
    "subagents",
];
/// Every way to start further runs, whatever it is called.
const SPAWNING: &str = "group:spawn";

/// The default deny, and whether the depth allows this run to spawn after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultDeny {
    /// A root run: nothing is denied by default.
    Root,
    /// A child that may not have children.
    Leaf,
    /// A child that an operator's depth setting lets have children.
    Nesting,
}

impl DefaultDeny {
    /// The rule for a run at `depth`, where `max_depth` is how deep runs may be.
    pub const fn at(depth: u32, max_depth: u32) -> Self {
        if depth == 0 {
            Self::Root
        } else if depth < max_depth {
            Self::Nesting
        } else {
            Self::Leaf
        }
    }
}

/// Everything that decides what a new run may do.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// Every registered tool.
    pub registered: &'a [ToolFacts],
    /// How far below the root it is.
    pub depth: u32,
    /// The run that spawns it; `None` for a root.
    pub parent: Option<Parent<'a>>,
    /// The operator's layers that speak about this run: global, provider, group, sandbox.
    pub operator: &'a [PolicyLayer],
    /// The agent that it runs.
    pub agent: AgentRules<'a>,
    /// What holds for subagents; of no effect for a root.
    pub subagents: SubagentRules<'a>,
    /// What the spawn call asked for.
    pub narrowing: &'a ToolNarrowing,
    /// The mode that was asked for; a child's is never freer than its parent's.
    pub mode: Mode,
    /// Whether commands that look dangerous are treated like all others, if the parent's are too.
    pub allow_dangerous: bool,
    /// Whether its commands run in a sandbox of the operating system.
    pub sandboxed: bool,
}

/// The run that asks for a child.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// The name of its agent.
    pub agent: &'a str,
    /// What it may do itself.
    pub policy: &'a Policy,
    /// The tools it was given.
    pub tools: &'a [String],
    /// What an operator lets children of its agent do instead of what it may do itself.
    pub delegate_ceiling: Option<&'a [String]>,
}

/// What is known about an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentRules<'a> {
    /// Its name.
    pub name: &'a str,
    /// The tools of its definition.
    pub selection: &'a ToolSelection,
    /// What an operator set for it.
    pub settings: &'a Rules,
    /// Whether it may change anything.
    pub read_only: bool,
}

/// What an operator set for all subagents.
#[derive(Clone, Copy, Debug)]
pub struct SubagentRules<'a> {
    /// What is denied by default at this depth.
    pub default_deny: DefaultDeny,
    /// Their tools. What `allow` names is not denied by default.
    pub rules: &'a Rules,
    /// Whether an agent that names no tools of its own starts with its parent's.
    pub inherit: bool,
}

/// What a new run may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Its policy.
    pub policy: Policy,
    /// The names of its tools, in registration order.
    pub tools: Vec<String>,
}

/// A run that would have no tool at all, and what took the last ones away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Each registered tool with the layer that took it away.
    pub removed: Vec<(String, Layer)>,
    /// What is wrong with the policy, as a sentence, if it could not be read.
    pub unreadable: Option<String>,
}

/// Decides what a new run may do, or says what has taken every tool away.
///
/// The policy begins with all layers of the parent and adds the run's own, so that a child can
/// never do more than its parent. Only where an operator set a `delegate_ceiling` for the parent's
/// agent does that list stand in place of what makes the parent itself narrow: its agent's rules,
/// and the allow list that it was spawned with. Everything that others are bound by stays.
pub fn admit(question: &AdmissionRequest<'_>) -> Result<Admitted, Denial> {
    let own = own_layers(question);
    let policy = policy_of(question, own.clone());
    let compiled = Compiled::new(&policy, &[]);
    let alone = Compiled::new(
        &Policy {
            layers: own,
            ..policy.clone()
        },
        &[],
    );
    let mut tools = Vec::new();
    let mut removed = Vec::new();
    for tool in question.registered {
        match removing_layer(question, tool, &alone, &compiled) {
            None => tools.push(tool.name.clone()),
            Some(layer) => removed.push((tool.name.clone(), layer)),
        }
    }
    if tools.is_empty() {
        let unreadable = compiled.unreadable().map(str::to_owned);
        return Err(Denial {
            removed,
            unreadable,
        });
    }
    Ok(Admitted { policy, tools })
}

/// Names what takes a tool away: the run's own layers first, as they are what the reader asked for.
fn removing_layer(
    question: &AdmissionRequest<'_>,
    tool: &ToolFacts,
    alone: &Compiled,
    whole: &Compiled,
) -> Option<Layer> {
    if let Err(ruling) = alone.offers(tool, question.sandboxed) {
        return Some(ruling.layer);
    }
    if question.parent.is_some_and(|parent| parent.lacks(tool)) {
        return Some(Layer::Parent);
    }
    whole
        .offers(tool, question.sandboxed)
        .err()
        .map(|ruling| ruling.layer)
}

impl Parent<'_> {
    fn lacks(&self, tool: &ToolFacts) -> bool {
        self.delegate_ceiling.is_none() && !self.tools.contains(&tool.name)
    }

    /// The layers that bind a child at `depth` from outside.
    fn ceiling(&self, depth: u32) -> Vec<PolicyLayer> {
        let Some(allowed) = self.delegate_ceiling else {
            return self.policy.layers.clone();
        };
        let own_spawn = spawn_source(depth.saturating_sub(1));
        let own_agent = [agent_source(self.agent), settings_source(self.agent)];
        let mut layers = Vec::new();
        for layer in &self.policy.layers {
            match layer.layer {
                Layer::Agent if own_agent.contains(&layer.source) => {}
                // Paths denied to the parent stay denied to its children.
                Layer::Spawn if layer.source == own_spawn => layers.push(PolicyLayer {
                    allow: None,
                    ..layer.clone()
                }),
                Layer::Global
                | Layer::Provider
                | Layer::Agent
                | Layer::Group
                | Layer::Sandbox
                | Layer::Subagent
                | Layer::Parent
                | Layer::Spawn
                | Layer::Grant
                | Layer::Mode
                | Layer::Danger
                | Layer::Session => layers.push(layer.clone()),
            }
        }
        layers.push(PolicyLayer {
            allow: Some(allowed.to_vec()),
            ..PolicyLayer::new(Layer::Parent, format!("delegate_ceiling of {}", self.agent))
        });
        layers
    }
}

fn policy_of(question: &AdmissionRequest<'_>, own: Vec<PolicyLayer>) -> Policy {
    let mut layers = question
        .parent
        .map(|parent| parent.ceiling(question.depth))
        .unwrap_or_default();
    for layer in own {
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    let parent = question.parent.map(|parent| parent.policy);
    Policy {
        layers,
        mode: parent.map_or(question.mode, |parent| question.mode.within(parent.mode)),
        read_only: question.agent.read_only || parent.is_some_and(|parent| parent.read_only),
        allow_dangerous: question.allow_dangerous
            && parent.is_none_or(|parent| parent.allow_dangerous),
    }
}

fn own_layers(question: &AdmissionRequest<'_>) -> Vec<PolicyLayer> {
    let agent = question.agent;
    let mut layers = question.operator.to_vec();
    layers.push(PolicyLayer {
        allow: agent.selection.allow.clone(),
        deny: agent.selection.deny.clone(),
        ..PolicyLayer::new(Layer::Agent, agent_source(agent.name))
    });
    let settings = agent.settings.clone();
    layers.push(settings.into_layer(Layer::Agent, settings_source(agent.name)));
    layers.extend(subagent_layers(question));
    layers.push(PolicyLayer {
        allow: question.narrowing.allow.clone(),
        deny: question.narrowing.deny.clone(),
        ..PolicyLayer::new(Layer::Spawn, spawn_source(question.depth))
    });
    layers.retain(|layer| !layer.is_empty());
    layers
}

fn subagent_layers(question: &AdmissionRequest<'_>) -> Vec<PolicyLayer> {
    let SubagentRules {
        default_deny,
        rules,
        ..
    } = question.subagents;
    let lifted = rules.allow.clone().unwrap_or_default();
    let mut layers = Vec::new();
    match default_deny {
        DefaultDeny::Root => return layers,
        DefaultDeny::Nesting => layers.push(default_layer(lifted, &[SPAWNING])),
        DefaultDeny::Leaf => {
            layers.push(default_layer(lifted, &[]));
            // The depth is a limit of its own: naming a tool does not lift it.
            layers.push(PolicyLayer {
                deny: vec![SPAWNING.to_owned()],
                ..PolicyLayer::new(Layer::Subagent, "max_depth")
            });
        }
    }
    layers.push(
        rules
            .clone()
            .into_layer(Layer::Subagent, "config subagents.tools"),
    );
    layers.extend(not_inheriting(question));
    layers
}

fn default_layer(mut lifted: Vec<String>, always: &[&str]) -> PolicyLayer {
    lifted.extend(always.iter().map(|rule| (*rule).to_owned()));
    PolicyLayer {
        deny: DENIED_TO_CHILDREN
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        except: lifted,
        ..PolicyLayer::new(Layer::Subagent, "default deny")
    }
}

/// An agent that names no tools and inherits none has only the tools that the spawn call names.
fn not_inheriting(question: &AdmissionRequest<'_>) -> Option<PolicyLayer> {
    let inherits = question.subagents.inherit && question.narrowing.inherit.unwrap_or(true);
    let agent = question.agent;
    if inherits || agent.selection.allow.is_some() || agent.settings.allow.is_some() {
        return None;
    }
    let named = [&question.subagents.rules.allow, &question.narrowing.allow];
    Some(PolicyLayer {
        allow: Some(named.into_iter().flatten().flatten().cloned().collect()),
        ..PolicyLayer::new(Layer::Subagent, "inherit_tools")
    })
}

fn agent_source(name: &str) -> String {
    format!("agent {name}")
}

fn settings_source(name: &str) -> String {
    format!("config agents.{name}")
}

fn spawn_source(depth: u32) -> String {
    format!("spawn call at depth {depth}")
}
