//! Properties of every policy and every call, tested on a million random ones.

use std::path::Path;

use fastrand::Rng;
use serde_json::Value;
use sortie_core::agent::ToolSelection;
use sortie_core::policy::{Decision, Layer, Mode, Policy, PolicyLayer, Rules};
use sortie_core::ports::tool::Touches;
use sortie_core::run::ToolNarrowing;
use sortie_policy::{
    AgentRules, Call, Compiled, DefaultDeny, Draft, Parent, PolicyInputs, SubagentRules, ToolFacts,
};

use crate::stage::{WORKSPACE, all_names, arguments, tool, tools};

/// The number of comparisons of two decisions.
const CHECKS: usize = 1_000_000;
/// The number of calls that each random policy decides.
const CALLS_PER_POLICY: usize = 50;
/// An arbitrary number: each run of the tests tries the same cases.
const SEED: u64 = 20_26;

const RULES: &[&str] = &[
    "*",
    "read_file",
    "write_file",
    "exec",
    "Bash",
    "task",
    "memory_*",
    "mcp__srv__*",
    "group:fs",
    "group:read",
    "group:write",
    "group:exec",
    "group:net",
    "group:spawn",
    "group:mcp",
    "exec(git *)",
    "exec(git status)",
    "bash(cargo *)",
    "exec(git push --force)",
    "exec(*)",
    "write_file(src/**)",
    "write_file(src/a.rs)",
    "read_file(docs/**)",
    "group:fs(src/**)",
    "grep(src/**)",
    "web_fetch(domain:a.com)",
    "group:net(domain:*.a.com)",
];

const CALLS: &[&str] = &[
    "todo_write",
    "memory_load",
    "task",
    "mcp__srv__get",
    "read_file src/a.rs",
    "read_file docs/a/b",
    "read_file ../x",
    "grep",
    "grep src",
    "grep src/deep",
    "write_file src/a.rs",
    "write_file SRC/b",
    "write_file src/../docs/x",
    "web_fetch https://a.com/x",
    "web_fetch https://b.a.com",
    "web_fetch https://a.com.evil.org",
    "web_fetch nonsense",
    "exec ls",
    "exec git status",
    "exec git status && cargo test",
    "exec git log; ls",
    "exec git push --force",
    "exec echo $(git status)",
    "exec $program",
    "exec echo 'open",
];

/// A call of the list, prepared for decisions.
struct Ready {
    tool: ToolFacts,
    arguments: Value,
    shown: &'static str,
}

fn ready() -> Vec<Ready> {
    let read = |text: &&'static str| {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        Ready {
            tool: tool(name),
            arguments: arguments(name, rest),
            shown: text,
        }
    };
    CALLS.iter().map(read).collect()
}

impl Ready {
    fn call<'a>(&'a self, granted: &'a [String], sandboxed: bool) -> Call<'a> {
        Call {
            tool: &self.tool,
            granted,
            arguments: &self.arguments,
            workspace: Path::new(WORKSPACE),
            sandboxed,
        }
    }
}

fn some_rules(rng: &mut Rng, most: usize) -> Vec<String> {
    let count = rng.usize(..=most);
    (0..count).map(|_| some_rule(rng)).collect()
}

fn some_rule(rng: &mut Rng) -> String {
    RULES[rng.usize(..RULES.len())].to_owned()
}

fn maybe<T>(rng: &mut Rng, percent: u8, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    (rng.u8(..100) < percent).then(|| value(rng))
}

fn some_layer(rng: &mut Rng, number: usize) -> PolicyLayer {
    let layer = Layer::ALL[rng.usize(..8)];
    PolicyLayer {
        allow: maybe(rng, 30, |rng| {
            let mut rules = some_rules(rng, 4);
            rules.extend(maybe(rng, 50, |_| "*".to_owned()));
            rules
        }),
        deny: maybe(rng, 40, |rng| some_rules(rng, 2)).unwrap_or_default(),
        except: maybe(rng, 20, |rng| some_rules(rng, 2)).unwrap_or_default(),
        ask: maybe(rng, 20, |rng| some_rules(rng, 2)).unwrap_or_default(),
        approve: maybe(rng, 40, |rng| some_rules(rng, 2)).unwrap_or_default(),
        ..PolicyLayer::new(layer, format!("rules {number}"))
    }
}

fn some_policy(rng: &mut Rng) -> Policy {
    let count = rng.usize(..5);
    Policy {
        layers: (0..count).map(|number| some_layer(rng, number)).collect(),
        mode: Mode::ALL[rng.usize(..Mode::ALL.len())],
        read_only: rng.u8(..6) == 0,
        allow_dangerous: rng.bool(),
        free_agents: None,
    }
}

fn compiled(policy: &Policy) -> Compiled {
    Compiled::new(policy, &[])
}

/// Returns how strict a decision is.
fn strictness(decision: Decision) -> u8 {
    match decision {
        Decision::Allow => 0,
        Decision::Ask => 1,
        Decision::Deny => 2,
    }
}

/// Lets two policies decide random calls, and passes both rulings to `property`.
fn compare(
    rng: &mut Rng,
    calls: &[Ready],
    one: (&Compiled, &[String]),
    other: (&Compiled, &[String]),
    property: impl Fn(&Call<'_>, &sortie_core::policy::Ruling, &sortie_core::policy::Ruling) -> bool,
) -> Result<usize, String> {
    for _ in 0..CALLS_PER_POLICY {
        let ready = &calls[rng.usize(..calls.len())];
        let sandboxed = rng.bool();
        let call = ready.call(one.1, sandboxed);
        let first = one.0.decide(&call);
        let second = other.0.decide(&ready.call(other.1, sandboxed));
        if !property(&call, &first, &second) {
            let shown = ready.shown;
            return Err(format!(
                "{shown} (sandboxed: {sandboxed}): {first:?} and {second:?}"
            ));
        }
    }
    Ok(CALLS_PER_POLICY)
}

/// A random child of a random ceiling: the child's policy and tools, its own layers, the ceiling's.
struct Family {
    child: Policy,
    child_tools: Vec<String>,
    ceiling: Policy,
    ceiling_tools: Vec<String>,
    own_approvals: Vec<String>,
}

fn some_family(rng: &mut Rng) -> Option<Family> {
    let ceiling = some_policy(rng);
    let ceiling_policy = compiled(&ceiling);
    let ceiling_tools: Vec<String> = tools()
        .iter()
        .filter(|tool| ceiling_policy.offers(tool, true).is_ok())
        .map(|tool| tool.name.clone())
        .collect();
    let settings = some_operator_rules(rng);
    let subagents = some_operator_rules(rng);
    let selection = ToolSelection {
        allow: maybe(rng, 40, |rng| some_rules(rng, 4)),
        deny: some_rules(rng, 1),
    };
    let narrowing = ToolNarrowing {
        allow: maybe(rng, 30, |rng| some_rules(rng, 4)),
        deny: some_rules(rng, 1),
        inherit: maybe(rng, 20, Rng::bool),
    };
    let depth = rng.u32(1..4);
    let draft = Draft::of(&PolicyInputs {
        depth,
        parent: Some(Parent {
            agent: "parent",
            policy: &ceiling,
            tools: &ceiling_tools,
            delegate_ceiling: None,
        }),
        operator: &[],
        agent: AgentRules {
            name: "child",
            selection: &selection,
            settings: &settings,
            read_only: rng.u8(..4) == 0,
        },
        subagents: SubagentRules {
            default_deny: DefaultDeny::at(depth, rng.u32(1..4)),
            rules: &subagents,
            inherit: rng.bool(),
        },
        narrowing: &narrowing,
        mode: Mode::ALL[rng.usize(..Mode::ALL.len())],
        allow_dangerous: rng.bool(),
        free_agents: None,
        sandboxed: true,
    });
    let derived = draft.decide(&tools()).ok()?;
    Some(Family {
        child: derived.policy,
        child_tools: derived.tools,
        ceiling,
        ceiling_tools,
        own_approvals: [settings.approve, subagents.approve].concat(),
    })
}

fn some_operator_rules(rng: &mut Rng) -> Rules {
    Rules {
        allow: maybe(rng, 20, |rng| some_rules(rng, 4)),
        deny: some_rules(rng, 1),
        ask: maybe(rng, 20, |rng| some_rules(rng, 1)).unwrap_or_default(),
        approve: some_rules(rng, 1),
    }
}

/// Checks that the ceiling may do, or request approval for, whatever the child may.
///
/// An operator's waiver of approval requests counts for both. A command that the operating system
/// prevents from changing anything is compared with what the ceiling may do read-only. An approval
/// request about a danger is more than `yolo` does, which sends none, but never more authority.
fn child_within_ceiling(rng: &mut Rng, calls: &[Ready], family: &Family) -> Result<usize, String> {
    let unchanging = family.child.read_only || family.child.mode == Mode::Plan;
    let mut bound = family.ceiling.clone();
    bound.layers.push(PolicyLayer {
        approve: family.own_approvals.clone(),
        ..PolicyLayer::new(Layer::Agent, "the child's approvals")
    });
    let changing = compiled(&bound);
    bound.read_only |= unchanging;
    let read_only = compiled(&bound);
    let child = compiled(&family.child);
    let child = (&child, family.child_tools.as_slice());
    compare(
        rng,
        calls,
        child,
        (&changing, &family.ceiling_tools),
        |call, child, ceiling| {
            let ceiling = if call.tool.touches == Touches::Processes {
                let granted = &family.ceiling_tools;
                &read_only.decide(&Call { granted, ..*call })
            } else {
                ceiling
            };
            child.decision == Decision::Deny
                || ceiling.decision != Decision::Deny
                || (child.decision == Decision::Ask && ceiling.layer == Layer::Danger)
        },
    )
}

fn deny_is_monotone(rng: &mut Rng, calls: &[Ready], policy: &Policy) -> Result<usize, String> {
    let mut narrower = policy.clone();
    let rule = some_rule(rng);
    match rng.choice(narrower.layers.iter_mut()) {
        Some(layer) => layer.deny.push(rule),
        None => narrower.layers.push(PolicyLayer {
            deny: vec![rule],
            ..PolicyLayer::new(Layer::Spawn, "more")
        }),
    }
    only_narrower(rng, calls, policy, &narrower)
}

fn fewer_permissions_never_widen(
    rng: &mut Rng,
    calls: &[Ready],
    policy: &Policy,
) -> Result<usize, String> {
    let mut narrower = policy.clone();
    if let Some(layer) = rng.choice(narrower.layers.iter_mut()) {
        let lists = [
            layer.allow.as_mut(),
            Some(&mut layer.except),
            Some(&mut layer.approve),
        ];
        for list in lists.into_iter().flatten().filter(|list| !list.is_empty()) {
            list.swap_remove(rng.usize(..list.len()));
        }
    }
    only_narrower(rng, calls, policy, &narrower)
}

fn only_narrower(
    rng: &mut Rng,
    calls: &[Ready],
    policy: &Policy,
    narrower: &Policy,
) -> Result<usize, String> {
    let all = all_names();
    let (before, after) = (compiled(policy), compiled(narrower));
    compare(
        rng,
        calls,
        (&before, &all),
        (&after, &all),
        |_, before, after| strictness(after.decision) >= strictness(before.decision),
    )
}

fn order_decides_nothing(rng: &mut Rng, calls: &[Ready], policy: &Policy) -> Result<usize, String> {
    let mut mixed = policy.clone();
    rng.shuffle(&mut mixed.layers);
    for layer in &mut mixed.layers {
        let lists = [
            layer.allow.as_mut(),
            Some(&mut layer.deny),
            Some(&mut layer.except),
            Some(&mut layer.ask),
            Some(&mut layer.approve),
        ];
        for list in lists.into_iter().flatten() {
            rng.shuffle(list);
        }
    }
    let all = all_names();
    let (before, after) = (compiled(policy), compiled(&mixed));
    compare(
        rng,
        calls,
        (&before, &all),
        (&after, &all),
        |_, before, after| before == after,
    )
}

fn stricter_modes_allow_less(
    rng: &mut Rng,
    calls: &[Ready],
    policy: &Policy,
) -> Result<usize, String> {
    let at = rng.usize(1..Mode::ALL.len());
    let stricter = Policy {
        mode: Mode::ALL[rng.usize(..at)],
        ..policy.clone()
    };
    let freer = Policy {
        mode: Mode::ALL[at],
        ..policy.clone()
    };
    let all = all_names();
    let plans = stricter.mode == Mode::Plan && !stricter.read_only;
    let (first, second) = (compiled(&stricter), compiled(&freer));
    compare(
        rng,
        calls,
        (&first, &all),
        (&second, &all),
        |call, first, second| {
            // A read-only command is not comparable with one that may change something.
            let is_read_only = plans && call.tool.touches == Touches::Processes && call.sandboxed;
            // A mode without approval requests cannot send one about a danger.
            let is_danger = second.layer == Layer::Danger && first.decision == Decision::Ask;
            is_read_only || is_danger || strictness(second.decision) <= strictness(first.decision)
        },
    )
}

fn some_denies_all(rng: &mut Rng, calls: &[Ready], policy: &Policy) -> Result<usize, String> {
    let mut none = policy.clone();
    let mut layer = some_layer(rng, 99);
    if rng.bool() {
        layer.allow = Some(Vec::new());
    } else {
        layer.deny.push("group:everything".to_owned());
    }
    none.layers.push(layer);
    let all = all_names();
    let none = compiled(&none);
    compare(
        rng,
        calls,
        (&none, &all),
        (&none, &all),
        |call, first, _| {
            first.decision == Decision::Deny && none.offers(call.tool, call.sandboxed).is_err()
        },
    )
}

fn what_is_not_offered_is_denied(
    rng: &mut Rng,
    calls: &[Ready],
    policy: &Policy,
) -> Result<usize, String> {
    let all = all_names();
    let policy = compiled(policy);
    compare(
        rng,
        calls,
        (&policy, &all),
        (&policy, &all),
        |call, first, _| {
            first.decision == Decision::Deny || policy.offers(call.tool, call.sandboxed).is_ok()
        },
    )
}

#[test]
fn a_million_random_checks() {
    let mut rng = Rng::with_seed(SEED);
    let calls = ready();
    let mut checks = 0;
    let properties = [
        deny_is_monotone,
        fewer_permissions_never_widen,
        order_decides_nothing,
        stricter_modes_allow_less,
        some_denies_all,
        what_is_not_offered_is_denied,
    ];
    while checks < CHECKS {
        if let Some(family) = some_family(&mut rng) {
            let found = child_within_ceiling(&mut rng, &calls, &family);
            checks += found.unwrap_or_else(|why| {
                panic!(
                    "{why}\nchild {:#?}\nceiling {:#?}",
                    family.child, family.ceiling
                )
            });
        }
        for property in properties {
            let policy = some_policy(&mut rng);
            let found = property(&mut rng, &calls, &policy);
            checks += found.unwrap_or_else(|why| panic!("{why}\n{policy:#?}"));
        }
    }
}

/// Positive control: children that have only their own layers are caught.
#[test]
fn a_child_without_its_ceiling_is_caught() {
    let mut rng = Rng::with_seed(SEED);
    let calls = ready();
    let families = (0..1_000).filter_map(|_| some_family(&mut rng));
    let families: Vec<Family> = families.collect();
    let mut caught = 0;
    for mut family in families {
        let ceiling = &family.ceiling;
        let own = |layer: &PolicyLayer| !ceiling.layers.contains(layer);
        family.child.layers.retain(own);
        family.child_tools = all_names();
        caught += usize::from(child_within_ceiling(&mut rng, &calls, &family).is_err());
    }
    assert!(caught > 50, "only {caught} broken children were caught");
}

/// Positive control: a policy whose restrictions were removed is caught.
#[test]
fn a_lifted_deny_is_caught() {
    let mut rng = Rng::with_seed(SEED);
    let calls = ready();
    let mut caught = 0;
    for _ in 0..200 {
        let policy = some_policy(&mut rng);
        let mut wider = policy.clone();
        for layer in &mut wider.layers {
            layer.deny.clear();
            layer.allow = None;
        }
        caught += usize::from(only_narrower(&mut rng, &calls, &policy, &wider).is_err());
    }
    assert!(
        caught > 50,
        "only {caught} of 200 wider policies were caught"
    );
}
