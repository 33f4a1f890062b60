//! Filters of queries, and the report of a check.

use crate::id::{RunId, SessionKey};
use crate::run::Status;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// Selects lines of the audit.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// This run and its descendants.
    pub run: Option<RunId>,
    pub tenant: Option<Tenant>,
    /// Lines after this position.
    pub after: u64,
    /// The page size; 0 is unlimited.
    pub limit: u32,
}

#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    pub session: Option<SessionKey>,
    /// Any of these; all if empty.
    pub statuses: Vec<Status>,
    pub parent: Option<RunId>,
    pub root: Option<RunId>,
    pub roots_only: bool,
    pub agent: Option<String>,
    pub tenant: Option<Tenant>,
    /// Runs with this text in label or task, or with an id that begins with it.
    pub text: Option<String>,
    /// Runs created before this one.
    pub before: Option<RunId>,
    /// Runs created after this one.
    pub after: Option<RunId>,
    /// Sorts the oldest first instead of the newest.
    pub oldest_first: bool,
    /// Any of these; all if empty.
    pub runs: Vec<RunId>,
    /// Includes archived runs as well.
    pub archived: bool,
    /// The page size; 0 is unlimited.
    pub limit: u32,
}

/// Selects trees of ended runs to delete. Status, agent and tenant are those of the root.
#[derive(Clone, Debug)]
pub struct RetentionRule {
    /// Every run of the tree ended before this moment.
    pub before: Timestamp,
    /// Any of these; all if empty.
    pub statuses: Vec<Status>,
    pub agent: Option<String>,
    pub tenant: Option<Tenant>,
}

impl RetentionRule {
    /// Selects all trees that ended before `before`.
    #[must_use]
    pub const fn before(before: Timestamp) -> Self {
        Self {
            before,
            statuses: Vec::new(),
            agent: None,
            tenant: None,
        }
    }
}

/// The result of checking the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyReport {
    /// The number of journals read.
    pub runs: u64,
    /// The number of entries read.
    pub entries: u64,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}
