//! Admission of runs: requests, answers and refusals.

use serde::{Deserialize, Serialize};

use crate::budget::BudgetKind;
use crate::id::{Fence, RunId, Seq};
use crate::run::RunSpec;
use crate::time::Timestamp;

/// Asks for a run.
#[derive(Clone, Debug)]
pub struct Admit {
    /// The id to give it.
    pub run: RunId,
    /// What it is admitted with.
    pub spec: RunSpec,
    /// When.
    pub at: Timestamp,
    /// The parent's right to spawn, checked in the same transaction.
    pub parent: Option<ParentClaim>,
}

/// A parent's right to spawn.
#[derive(Clone, Copy, Debug)]
pub struct ParentClaim {
    /// Its claim.
    pub fence: Fence,
    /// The entry that its journal must have: the child is a consequence of it.
    pub reached: Seq,
}

/// Caps that hold at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionCaps {
    /// Runs in one tree, over its whole life.
    pub max_children_per_tree: u32,
    /// Depth below the root.
    pub max_depth: u32,
}

/// What came of asking for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It was written.
    Admitted {
        /// Its place in the queue, from 1.
        queue_position: u32,
    },
    /// The parent's call already has this one.
    Existing {
        /// The run.
        run: RunId,
    },
    /// Nothing was written.
    Refused(Refusal),
}

/// Why a run was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The tree has had all its children.
    TreeFull {
        /// The cap.
        max: u32,
    },
    /// Too deep.
    TooDeep {
        /// The cap.
        max: u32,
    },
    /// The parent has ended or is to be cancelled.
    ParentEnding,
    /// The account that it would draw from has nothing left.
    BudgetSpent {
        /// Of what.
        kind: BudgetKind,
    },
}
