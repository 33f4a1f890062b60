//! A run that branches off another.

use sortie_core::{ForkPoint, Isolation, Lane, Mode, RunId, RunSpec, Seq};

/// Asks for a run that branches off another.
#[derive(Clone, Debug)]
pub struct Fork {
    /// Where it branches off.
    pub point: ForkPoint,
    /// The model to go on with, if not the same.
    pub model: Option<String>,
    /// What people call it.
    pub label: Option<String>,
    /// How calls that change something are treated.
    pub mode: Mode,
}

/// The new run: like the other, whose journal ends at `head`, but the first of a tree of its own. Its
/// tools stay those that the other was granted.
pub(crate) fn spec_of(
    fork: Fork,
    mut spec: RunSpec,
    head: Seq,
    run: RunId,
) -> Result<RunSpec, String> {
    let point = fork.point;
    if point.at.0 < 1 || point.at > head {
        return Err(format!(
            "{} has the events 1 to {head}; there is no event {}",
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
    // A run that could change nothing does not learn to by branching off.
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
        // The worktree of the other is gone, and the account of its tree is closed.
        isolation: Isolation::None,
        account,
        not_after: None,
        ..spec
    })
}
