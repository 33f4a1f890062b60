//! Admission of runs.

use serde::{Deserialize, Serialize};

use crate::budget::BudgetKind;
use crate::id::{Fence, RunId, Seq};
use crate::run::RunSpec;
use crate::tenant::QuotaReached;
use crate::time::Timestamp;

/// Requests the admission of a run.
#[derive(Clone, Debug)]
pub struct Admit {
    pub run: RunId,
    pub spec: RunSpec,
    pub at: Timestamp,
    /// The parent's claim, checked in the same transaction.
    pub parent: Option<ParentClaim>,
}

/// A parent's right to spawn.
#[derive(Clone, Copy, Debug)]
pub struct ParentClaim {
    pub fence: Fence,
    /// The head of the parent's journal when its step began: the parent's journal must contain it.
    pub reached: Seq,
}

/// Limits that are checked at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionCaps {
    /// All descendants that a tree ever had.
    pub max_children_per_tree: u32,
    /// Depth below the root.
    pub max_depth: u32,
}

/// The result of an admission.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    Admitted {
        /// The position of a background child in the queue, from 1. `None` for other runs: counting takes
        /// longer than the rest of an admission.
        queue_position: Option<u32>,
    },
    /// The parent's call already has this child.
    Existing { run: RunId },
    /// Refused; nothing was written.
    Refused(AdmissionRefusal),
}

/// Why a run was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionRefusal {
    TreeFull {
        max: u32,
    },
    TooDeep {
        max: u32,
    },
    /// The parent has ended or has a cancellation.
    ParentEnding,
    /// The account that it would draw from is empty.
    BudgetSpent {
        kind: BudgetKind,
    },
    /// A quota of its tenant does not allow another task.
    Quota(QuotaReached),
}
