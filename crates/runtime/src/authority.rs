//! What one run may do: checked when a call is dispatched, and again when its tool uses the object.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sortie_core::policy::{Policy, Ruling};
use sortie_core::ports::tool::Permits;
use sortie_core::request::Danger;
use sortie_core::run::{RunSpec, SandboxMode};
use sortie_policy::{AtUse, Call, Compiled, Denial, Draft, Explanation, ToolFacts};

/// Compiled policies in the cache; runs that execute at once have few different ones.
const MAX_KEPT: usize = 256;
/// Decisions in the cache: as many as a run has different kinds of children at once.
const MAX_DECISIONS: usize = 8;

/// Compiled policies by their hash: siblings share one, so that ten thousand runs cost one.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(Mutex<BTreeMap<String, CachedPolicy>>);

/// A policy as it was admitted, and compiled.
#[derive(Debug)]
struct CachedPolicy {
    policy: Policy,
    compiled: Arc<Compiled>,
}

impl PolicyCache {
    /// Returns the compiled policy of a run. Compares the admitted policy as a whole, whatever hash
    /// the spec names, so that no policy passes for another.
    pub(crate) fn of(&self, spec: &RunSpec) -> Arc<Compiled> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&spec.policy_hash)
            && known.policy == spec.policy
        {
            return Arc::clone(&known.compiled);
        }
        if kept.len() == MAX_KEPT {
            kept.clear();
        }
        let compiled = Arc::new(Compiled::new(&spec.policy, &[]));
        let known = CachedPolicy {
            policy: spec.policy.clone(),
            compiled: Arc::clone(&compiled),
        };
        kept.insert(spec.policy_hash.clone(), known);
        compiled
    }
}

/// Recent decisions about the tools of new runs: siblings have the same one.
#[derive(Debug, Default)]
pub(crate) struct DecisionCache(Mutex<VecDeque<(Draft, DecidedPolicy)>>);

/// What a new run may do, and the hash of its policy.
#[derive(Clone, Debug)]
pub(crate) struct DecidedPolicy {
    pub(crate) policy: Policy,
    pub(crate) hash: String,
    /// The names of its tools.
    pub(crate) tools: Vec<String>,
}

impl DecisionCache {
    /// Decides about a draft. `registered` must be the same at every call. Denials are not kept: they
    /// are rare.
    pub(crate) fn of(
        &self,
        draft: Draft,
        registered: &[ToolFacts],
    ) -> Result<DecidedPolicy, Denial> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, decided)) = kept.iter().find(|(known, _)| *known == draft) {
            return Ok(decided.clone());
        }
        let derived = draft.decide(registered)?;
        let decided = DecidedPolicy {
            hash: sortie_policy::hash(&derived.policy),
            policy: derived.policy,
            tools: derived.tools,
        };
        if kept.len() == MAX_DECISIONS {
            kept.pop_front();
        }
        kept.push_back((draft, decided.clone()));
        Ok(decided)
    }
}

/// The authority of one run.
#[derive(Debug)]
pub(crate) struct Authority {
    compiled: Arc<Compiled>,
    spec: Arc<RunSpec>,
    /// The folder that the run works in, if not the one it was admitted with.
    elsewhere: Option<PathBuf>,
}

impl Authority {
    /// Creates the authority of a run with its compiled policy.
    pub(crate) const fn of(spec: Arc<RunSpec>, compiled: Arc<Compiled>) -> Self {
        Self {
            compiled,
            spec,
            elsewhere: None,
        }
    }

    /// Replaces the folder that the run works in.
    #[must_use]
    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.elsewhere = Some(folder.to_owned());
        self
    }

    /// Returns the same authority with the grants of the session.
    pub(crate) fn with_grants(&self, grants: &[String]) -> Self {
        Self {
            compiled: Arc::new(Compiled::new(&self.spec.policy, grants)),
            spec: Arc::clone(&self.spec),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// Decides about a call.
    pub(crate) fn rule(&self, tool: &ToolFacts, arguments: &Value) -> Ruling {
        self.compiled.decide(&self.call(tool, arguments))
    }

    /// Returns what every layer decides about a call.
    pub(crate) fn explain(&self, tool: &ToolFacts, arguments: &Value) -> Explanation {
        self.compiled.explain(&self.call(tool, arguments))
    }

    /// Returns the check of the object that a call really uses.
    fn at_use<'a>(&'a self, tool: &'a ToolFacts, arguments: &'a Value) -> AtUse<'a> {
        AtUse::new(&self.compiled, self.call(tool, arguments))
    }

    /// Returns the rules that an approver could grant for good.
    pub(crate) fn suggest(&self, tool: &ToolFacts, arguments: &Value) -> Vec<String> {
        sortie_policy::suggest(&self.call(tool, arguments))
    }

    /// Returns verbatim what a call would run.
    pub(crate) fn exact(&self, tool: &ToolFacts, arguments: &Value) -> String {
        sortie_policy::exact(&self.call(tool, arguments))
    }

    /// Returns what is dangerous about a call.
    pub(crate) fn dangers(&self, tool: &ToolFacts, arguments: &Value) -> Vec<Danger> {
        sortie_policy::dangers(&self.call(tool, arguments))
    }

    fn call<'a>(&'a self, tool: &'a ToolFacts, arguments: &'a Value) -> Call<'a> {
        Call {
            tool,
            granted: &self.spec.tools,
            arguments,
            sandboxed: self.spec.confinement.sandbox == SandboxMode::Required,
            workspace: self.elsewhere.as_deref().unwrap_or(&self.spec.workspace),
        }
    }
}

/// Checks the objects that one call really uses. Owns what it needs: file work runs on another
/// thread and may outlive its call.
#[derive(Debug)]
pub(crate) struct CallPermits {
    pub(crate) authority: Arc<Authority>,
    pub(crate) tool: ToolFacts,
    pub(crate) arguments: Arc<Value>,
}

impl CallPermits {
    fn at_use(&self) -> AtUse<'_> {
        self.authority.at_use(&self.tool, &self.arguments)
    }
}

impl Permits for CallPermits {
    fn path(&self, path: &Path) -> Result<(), String> {
        self.at_use().path(path)
    }

    fn host(&self, host: &str) -> Result<(), String> {
        self.at_use().host(host)
    }
}

/// Returns the layer, the rule and the reason of a ruling.
pub(crate) fn ruling_text(ruling: &Ruling) -> String {
    let mut explanation = ruling.layer.as_str().to_owned();
    if let Some(rule) = &ruling.rule {
        explanation.push_str(", rule ");
        explanation.push_str(rule);
    }
    if !ruling.why.is_empty() {
        explanation.push_str(": ");
        explanation.push_str(&ruling.why);
    }
    explanation
}
