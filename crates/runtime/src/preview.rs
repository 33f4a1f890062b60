//! Previews: what would be decided about a run or a call, without writing anything.

use std::sync::Arc;

use serde_json::{Map, Value};
use sortie_core::id::{CallId, RunId};
use sortie_core::policy::{Layer, Mode, Ruling};
use sortie_core::run::{EdgeMode, Lane, RunSpec, SandboxMode, SpawnRequest};
use sortie_policy::{Compiled, Explanation, LayerView, View};
use sortie_text::t;

use crate::authority::Authority;
use crate::new_run::NewRun;
use crate::planner::{Planner, Requester};
use crate::refusal::{Refusal, RefusalReason};
use crate::runtime::RuntimeError;
use crate::runtime::{Explained, PolicyView};

impl Planner {
    /// Returns the spec that a run of this agent would be admitted with: as a child of a main run
    /// or, for the main agent, as a root.
    pub fn preview(&self, agent: &str, mut new: NewRun) -> Result<RunSpec, RuntimeError> {
        let name = agent.to_owned();
        let run = RunId::from_uuid(uuid::Uuid::nil());
        if name.eq_ignore_ascii_case(&self.agents.main().name) {
            return Ok(self.root_spec(run, new, None)?);
        }
        new.agent = None;
        new.lane = Lane::Main;
        let workspace = new.workspace.clone();
        let parent = self.root_spec(run, new, None)?;
        let request = SpawnRequest {
            agent: Some(name),
            ..SpawnRequest::new("a preview", EdgeMode::Background)
        };
        let call = CallId::new(1, 0);
        let requester = Requester {
            run,
            spec: &parent,
            call: &call,
            workspace: &workspace,
            not_after: None,
            conversation: None,
        };
        Ok(self.child_spec(requester, run, request, None)?)
    }

    /// Returns what would be decided about a call of a run with this spec, what every layer
    /// decides, and which layer removed the tool if the run does not have it.
    pub fn explained(
        &self,
        spec: RunSpec,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, RuntimeError> {
        let Some(found) = self.toolbox.find(tool, arguments) else {
            let message = t!(
                spec.lang,
                "call-unknown-tool",
                name = tool,
                known = spec.tools.join(", ")
            );
            return Err(Refusal::new(RefusalReason::UnknownTool, message).into());
        };
        let compiled = Arc::new(Compiled::new(&spec.policy, &[]));
        let spec = Arc::new(spec);
        let authority = Authority::of(Arc::clone(&spec), compiled);
        let explanation = authority.explain(found.facts, &found.arguments);
        drop(authority);
        Ok(Explained {
            removed_by: removed_by(&spec, &explanation),
            explanation,
            spec: Arc::unwrap_or_clone(spec),
        })
    }

    /// Returns what a run with this spec may do, and which layers decide so.
    pub fn policy_view(&self, spec: &RunSpec) -> PolicyView {
        let compiled = Arc::new(Compiled::new(&spec.policy, &[]));
        let sandboxed = spec.confinement.sandbox == SandboxMode::Required;
        let authority = Authority::of(Arc::new(spec.clone()), Arc::clone(&compiled));
        let nothing = Value::Object(Map::new());
        let rule = |name: &String| -> Option<(String, Ruling)> {
            let facts = self.toolbox.facts().iter().find(|it| it.name == *name)?;
            let ruling = match compiled.offers(facts, sandboxed) {
                Err(denied) => denied,
                Ok(()) => authority.rule(facts, &nothing),
            };
            Some((name.clone(), ruling))
        };
        PolicyView {
            hash: spec.policy_hash.clone(),
            mode: spec.policy.mode,
            read_only: spec.policy.read_only,
            allow_dangerous: spec.policy.allow_dangerous,
            layers: spec.policy.layers.clone(),
            tools: spec.tools.iter().filter_map(rule).collect(),
        }
    }
}

/// Returns what removed a tool from a run: the first layer that does, else the mode.
fn removed_by(spec: &RunSpec, explained: &Explanation) -> Option<String> {
    if explained.ruling.layer != Layer::Grant {
        return None;
    }
    let keeps = |layer: &&LayerView| {
        let mut opinions = layer.opinions.iter();
        opinions.any(|opinion| matches!(opinion.view, View::Denies | View::LeavesOut))
    };
    let layer = explained.layers.iter().find(keeps);
    match layer {
        Some(layer) => Some(format!("{} ({})", layer.layer, layer.source)),
        None if spec.policy.read_only => Some(format!("{} (read-only)", Layer::Agent)),
        None if spec.policy.mode == Mode::Plan => Some(format!("{} ({})", Layer::Mode, Mode::Plan)),
        None => None,
    }
}
