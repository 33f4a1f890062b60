//! Forks: runs that branch off another after one of its entries.

use sortie_core::id::{RunId, Seq};
use sortie_core::policy::Mode;
use sortie_core::run::{ForkPoint, Isolation, Lane, RunSpec};

/// A request for a run that branches off another.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The run and the entry after which the new run branches off.
    pub point: ForkPoint,
    /// The model of the new run, if not the same.
    pub model: Option<String>,
    /// The name that people see.
    pub label: Option<String>,
    /// How calls that change something are treated.
    pub mode: Mode,
}

/// Returns the spec of a fork: like that of the other run, whose journal ends at `head`, but the
/// root of its own tree. Its tools stay those that the other run was granted.
pub(crate) fn spec_of(
    fork: Fork,
    mut spec: RunSpec,
    head: Seq,
    run: RunId,
) -> Result<RunSpec, String> {
    let point = fork.point;
    if point.at.0 < 1 || point.at > head {
        return Err(format!(
            "task {} has the events 1 to {head}, but no event {}",
            point.run, point.at
        ));
    }
    spec.label = fork
        .label
        .unwrap_or_else(|| format!("{} (from {})", spec.label, point.at));
    if let Some(model) = fork.model {
        spec.model = model;
        spec.fallbacks.clear();
    }
    // A fork of a run that could change nothing cannot change anything either.
    spec.policy.mode = match spec.policy.mode {
        Mode::Plan => Mode::Plan,
        Mode::DontAsk | Mode::Default | Mode::AcceptEdits | Mode::Yolo => fork.mode,
    };
    spec.policy_hash = sortie_policy::hash(&spec.policy);
    let account = spec.limits.budget.needs_account().then_some(run);
    Ok(RunSpec {
        parent: None,
        root: run,
        depth: 0,
        lane: if spec.parent.is_some() {
            Lane::Subagent
        } else {
            spec.lane
        },
        continues: None,
        fork: Some(point),
        report_to: Vec::new(),
        // The worktree of the other run is gone, and the account of its tree is closed.
        isolation: Isolation::None,
        account,
        not_after: None,
        ..spec
    })
}
