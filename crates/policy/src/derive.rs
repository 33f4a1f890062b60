//! Computes what a new run may do: the intersection of all layers that apply.

use sortie_core::agent::ToolSelection;
use sortie_core::policy::{Layer, Mode, Policy, PolicyLayer, Rules};
use sortie_core::run::ToolNarrowing;

use crate::{Compiled, ToolFacts};

/// The tools that a child never gets by default: session, system, login and memory tools, tools
/// that contact people, and the usual names of tools that start further runs.
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
/// The group of all tools that start further runs, whatever their names.
const SPAWNING: &str = "group:spawn";
/// The tool that applies the changes of children. A run that cannot have children has no use for it.
pub const CHANGES_OF_CHILDREN: &str = "changes";

/// The default deny at a depth, and whether a run at that depth may spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultDeny {
    /// A root run: nothing is denied by default.
    Root,
    /// A child that may not have children.
    Leaf,
    /// A child that may have children because the operator's depth setting permits it.
    Nesting,
}

impl DefaultDeny {
    /// Returns the default deny for a run at `depth`, where `max_depth` is the deepest level of
    /// runs.
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

/// Everything that determines what a new run may do.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInputs<'a> {
    /// The depth of the run below the root.
    pub depth: u32,
    /// The run that spawns the new run; `None` for a root.
    pub parent: Option<Parent<'a>>,
    /// The operator's layers that apply to this run: global, provider, group, sandbox.
    pub operator: &'a [PolicyLayer],
    /// The agent of the run.
    pub agent: AgentRules<'a>,
    /// The rules for subagents; without effect for a root.
    pub subagents: SubagentRules<'a>,
    /// The narrowing that the spawn call requests.
    pub narrowing: &'a ToolNarrowing,
    /// The requested mode; the mode of a child never permits more than that of its parent.
    pub mode: Mode,
    /// Whether dangerous commands are treated like all others, if the parent permits this too.
    pub allow_dangerous: bool,
    /// The agents that the run starts without an approval; `None` is all of them.
    pub free_agents: Option<&'a [String]>,
    /// Whether the operating system confines the commands of the run in a sandbox.
    pub sandboxed: bool,
}

/// The run that spawns a child.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// The name of the parent's agent.
    pub agent: &'a str,
    /// The policy of the parent.
    pub policy: &'a Policy,
    /// The tools that the parent was granted.
    pub tools: &'a [String],
    /// The tools that the operator grants to children of this agent, in place of the parent's own.
    pub delegate_ceiling: Option<&'a [String]>,
}

/// The rules of an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentRules<'a> {
    pub name: &'a str,
    /// The tools that its definition selects.
    pub selection: &'a ToolSelection,
    /// The rules that the operator set for it.
    pub settings: &'a Rules,
    /// Whether the agent is read-only.
    pub read_only: bool,
}

/// The rules that the operator set for all subagents.
#[derive(Clone, Copy, Debug)]
pub struct SubagentRules<'a> {
    /// The default deny at this depth.
    pub default_deny: DefaultDeny,
    /// The tool rules of subagents. `allow` lifts the default deny for the tools that it names.
    pub rules: &'a Rules,
    /// Whether an agent that names no tools starts with those of its parent.
    pub inherit: bool,
}

/// What a new run may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPolicy {
    pub policy: Policy,
    /// The names of its tools, in registration order.
    pub tools: Vec<String>,
}

/// The reason why a run would have no tool at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Each registered tool with the layer that removed it.
    pub removed: Vec<(String, Layer)>,
    /// Why the policy could not be parsed, as a sentence; `None` if it was parsed.
    pub unreadable: Option<String>,
}

/// The policy of a new run before its tools are decided. Equal drafts lead to equal decisions about
/// the same registered tools, so that siblings can share one: a decision parses every rule twice.
///
/// The policy begins with all layers of the parent and adds those of the run, so that a child can
/// never do more than its parent. The only exception is a `delegate_ceiling` that the operator set
/// for the agent of the parent: this list then replaces the layers that narrow only the parent
/// itself, which are the rules of its agent and the allow list that it was spawned with. All layers
/// that bind other runs too stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    policy: Policy,
    /// The layers of the run itself.
    own: Vec<PolicyLayer>,
    /// The tools of the parent, if they bind the run.
    within: Option<Vec<String>>,
    sandboxed: bool,
}

impl Draft {
    /// Collects the layers that apply to a new run.
    pub fn of(inputs: &PolicyInputs<'_>) -> Self {
        let own = own_layers(inputs);
        Self {
            policy: policy_of(inputs, own.clone()),
            own,
            within: inputs
                .parent
                .filter(|parent| parent.delegate_ceiling.is_none())
                .map(|parent| parent.tools.to_vec()),
            sandboxed: inputs.sandboxed,
        }
    }

    /// Decides which of the registered tools the run gets, or reports what removed every tool.
    pub fn decide(&self, registered: &[ToolFacts]) -> Result<RunPolicy, Denial> {
        let whole = Compiled::new(&self.policy, &[]);
        let alone = Compiled::new(
            &Policy {
                layers: self.own.clone(),
                ..self.policy.clone()
            },
            &[],
        );
        let mut tools = Vec::new();
        let mut removed = Vec::new();
        for tool in registered {
            match self.removing_layer(tool, &alone, &whole) {
                None => tools.push(tool.name.clone()),
                Some(layer) => removed.push((tool.name.clone(), layer)),
            }
        }
        if tools.is_empty() {
            let unreadable = whole.unreadable().map(str::to_owned);
            return Err(Denial {
                removed,
                unreadable,
            });
        }
        Ok(RunPolicy {
            policy: self.policy.clone(),
            tools,
        })
    }

    /// Returns the layer that removes a tool. The layers of the run itself come first, because the
    /// caller asked for them.
    fn removing_layer(
        &self,
        tool: &ToolFacts,
        alone: &Compiled,
        whole: &Compiled,
    ) -> Option<Layer> {
        if let Err(ruling) = alone.offers(tool, self.sandboxed) {
            return Some(ruling.layer);
        }
        if let Some(within) = &self.within
            && !within.contains(&tool.name)
        {
            return Some(Layer::Parent);
        }
        whole
            .offers(tool, self.sandboxed)
            .err()
            .map(|ruling| ruling.layer)
    }
}

impl Parent<'_> {
    /// Returns the layers that bind a child at `depth` from outside.
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
                | Layer::Session
                | Layer::Hook => layers.push(layer.clone()),
            }
        }
        layers.push(PolicyLayer {
            allow: Some(allowed.to_vec()),
            ..PolicyLayer::new(Layer::Parent, format!("delegate_ceiling of {}", self.agent))
        });
        layers
    }
}

fn policy_of(inputs: &PolicyInputs<'_>, own: Vec<PolicyLayer>) -> Policy {
    let mut layers = inputs
        .parent
        .map(|parent| parent.ceiling(inputs.depth))
        .unwrap_or_default();
    for layer in own {
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    let parent = inputs.parent.map(|parent| parent.policy);
    Policy {
        layers,
        mode: parent.map_or(inputs.mode, |parent| inputs.mode.within(parent.mode)),
        read_only: inputs.agent.read_only || parent.is_some_and(|parent| parent.read_only),
        allow_dangerous: inputs.allow_dangerous
            && parent.is_none_or(|parent| parent.allow_dangerous),
        free_agents: free_agents(inputs, parent),
    }
}

/// Returns the agents that a run starts without an approval: never more than its parent does.
fn free_agents(inputs: &PolicyInputs<'_>, parent: Option<&Policy>) -> Option<Vec<String>> {
    let own = inputs.free_agents.map(<[String]>::to_vec);
    let Some(ceiling) = parent.and_then(|parent| parent.free_agents.as_ref()) else {
        return own;
    };
    let mut free = own.unwrap_or_else(|| ceiling.clone());
    free.retain(|agent| ceiling.contains(agent));
    Some(free)
}

fn own_layers(inputs: &PolicyInputs<'_>) -> Vec<PolicyLayer> {
    let agent = inputs.agent;
    let mut layers = inputs.operator.to_vec();
    layers.push(PolicyLayer {
        allow: agent.selection.allow.clone(),
        deny: agent.selection.deny.clone(),
        ..PolicyLayer::new(Layer::Agent, agent_source(agent.name))
    });
    let settings = agent.settings.clone();
    layers.push(settings.into_layer(Layer::Agent, settings_source(agent.name)));
    layers.extend(subagent_layers(inputs));
    layers.push(PolicyLayer {
        allow: inputs.narrowing.allow.clone(),
        deny: inputs.narrowing.deny.clone(),
        ..PolicyLayer::new(Layer::Spawn, spawn_source(inputs.depth))
    });
    layers.retain(|layer| !layer.is_empty());
    layers
}

fn subagent_layers(inputs: &PolicyInputs<'_>) -> Vec<PolicyLayer> {
    let SubagentRules {
        default_deny,
        rules,
        ..
    } = inputs.subagents;
    let lifted = rules.allow.clone().unwrap_or_default();
    let mut layers = Vec::new();
    match default_deny {
        DefaultDeny::Root => return layers,
        DefaultDeny::Nesting => layers.push(default_layer(lifted, &[SPAWNING])),
        DefaultDeny::Leaf => {
            layers.push(default_layer(lifted, &[]));
            // The depth is a separate limit: naming a tool does not lift it.
            layers.push(PolicyLayer {
                deny: vec![SPAWNING.to_owned(), CHANGES_OF_CHILDREN.to_owned()],
                ..PolicyLayer::new(Layer::Subagent, "max_depth")
            });
        }
    }
    layers.push(
        rules
            .clone()
            .into_layer(Layer::Subagent, "config subagents.tools"),
    );
    layers.extend(not_inheriting(inputs));
    layers
}

/// Returns the layer of the default deny. A tool of an MCP server is denied by its last part, so that
/// a server cannot bring back under `mcp__server__memory_save` what is denied as `memory_save`. To
/// lift that, the operator has to name the tool with its server.
fn default_layer(mut lifted: Vec<String>, always: &[&str]) -> PolicyLayer {
    lifted.extend(always.iter().map(|rule| (*rule).to_owned()));
    let names = DENIED_TO_CHILDREN.iter();
    PolicyLayer {
        deny: names
            .flat_map(|name| [(*name).to_owned(), format!("mcp__*__{name}")])
            .collect(),
        except: lifted,
        ..PolicyLayer::new(Layer::Subagent, "default deny")
    }
}

/// Returns the layer of an agent that names no tools and inherits none: it has only the tools that
/// the spawn call or the subagent rules name.
fn not_inheriting(inputs: &PolicyInputs<'_>) -> Option<PolicyLayer> {
    let inherits = inputs.subagents.inherit && inputs.narrowing.inherit.unwrap_or(true);
    let agent = inputs.agent;
    if inherits || agent.selection.allow.is_some() || agent.settings.allow.is_some() {
        return None;
    }
    let named = [&inputs.subagents.rules.allow, &inputs.narrowing.allow];
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
