//! What one run may do, asked at the door of every call and again at the moment of use.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sortie_core::{Danger, Policy, Ruling, RunSpec, SandboxMode};
use sortie_policy::{AtUse, Call, Compiled, Explanation, ToolFacts};

/// How many policies are kept read; runs that are alive at once have few different ones.
const MAX_KEPT: usize = 256;
/// How many hashes are kept: as many as a run has different kinds of children at once.
const MAX_HASHES: usize = 8;

/// PolicyCache that were read, by their hash: siblings share one, so that ten thousand runs cost one.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(Mutex<BTreeMap<String, CachedPolicy>>);

/// A policy as it was written and as it was read.
#[derive(Debug)]
struct CachedPolicy {
    policy: Policy,
    compiled: Arc<Compiled>,
}

impl PolicyCache {
    /// The policy of a run, read. What was admitted is compared as a whole, whatever hash it names,
    /// so that nothing can pass for something else.
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

/// HashCache of policies that were made lately: siblings have the same one.
#[derive(Debug, Default)]
pub(crate) struct HashCache(Mutex<VecDeque<(Policy, String)>>);

impl HashCache {
    /// The hash of a policy.
    pub(crate) fn of(&self, policy: &Policy) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hash)) = kept.iter().find(|(known, _)| known == policy) {
            return hash.clone();
        }
        if kept.len() == MAX_HASHES {
            kept.pop_front();
        }
        let hash = sortie_policy::hash(policy);
        kept.push_back((policy.clone(), hash.clone()));
        hash
    }
}

/// What one run may do.
#[derive(Debug)]
pub(crate) struct Authority {
    compiled: Arc<Compiled>,
    spec: Arc<RunSpec>,
    /// The folder it works in, if not the one it was admitted with.
    elsewhere: Option<PathBuf>,
}

impl Authority {
    /// The authority of a run by its policy, which was read before.
    pub(crate) const fn of(spec: Arc<RunSpec>, compiled: Arc<Compiled>) -> Self {
        Self {
            compiled,
            spec,
            elsewhere: None,
        }
    }

    /// The same for a run that works in another folder.
    #[must_use]
    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.elsewhere = Some(folder.to_owned());
        self
    }

    /// The same with what persons have allowed for the whole session.
    pub(crate) fn with_grants(&self, grants: &[String]) -> Self {
        Self {
            compiled: Arc::new(Compiled::new(&self.spec.policy, grants)),
            spec: Arc::clone(&self.spec),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// What policy says about a call.
    pub(crate) fn rule(&self, tool: &ToolFacts, arguments: &Value) -> Ruling {
        self.compiled.decide(&self.call(tool, arguments))
    }

    /// What every layer says about a call.
    pub(crate) fn explain(&self, tool: &ToolFacts, arguments: &Value) -> Explanation {
        self.compiled.explain(&self.call(tool, arguments))
    }

    /// What policy says about the object that a call really uses.
    pub(crate) fn at_use<'a>(&'a self, tool: &'a ToolFacts, arguments: &'a Value) -> AtUse<'a> {
        AtUse::new(&self.compiled, self.call(tool, arguments))
    }

    /// Rules that a lasting yes to a call could have.
    pub(crate) fn suggest(&self, tool: &ToolFacts, arguments: &Value) -> Vec<String> {
        sortie_policy::suggest(&self.call(tool, arguments))
    }

    /// What a call would run, verbatim.
    pub(crate) fn exact(&self, tool: &ToolFacts, arguments: &Value) -> String {
        sortie_policy::exact(&self.call(tool, arguments))
    }

    /// What is dangerous about a call.
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

/// Who decided, and by which rule.
pub(crate) fn ruling_text(ruling: &Ruling) -> String {
    let mut words = ruling.layer.as_str().to_owned();
    if let Some(rule) = &ruling.rule {
        words.push_str(", rule ");
        words.push_str(rule);
    }
    if !ruling.why.is_empty() {
        words.push_str(": ");
        words.push_str(&ruling.why);
    }
    words
}
