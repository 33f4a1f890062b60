//! Filters of queries, and the report of a check.

use crate::id::{RunId, SessionKey};
use crate::run::Status;
use crate::tenant::Tenant;

/// Which lines of the audit.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of this run and all below it.
    pub run: Option<RunId>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// After this place.
    pub after: u64,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// Which runs.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Of this session.
    pub session: Option<SessionKey>,
    /// In one of these states; any if there are none.
    pub statuses: Vec<Status>,
    /// Children of this run.
    pub parent: Option<RunId>,
    /// Of this tree.
    pub root: Option<RunId>,
    /// Only the first runs of trees.
    pub roots_only: bool,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// With this text in label or task, or with an id that begins with it.
    pub text: Option<String>,
    /// Made before this one.
    pub before: Option<RunId>,
    /// Made after this one.
    pub after: Option<RunId>,
    /// The oldest are first, not the newest.
    pub oldest_first: bool,
    /// One of these; any if there are none.
    pub runs: Vec<RunId>,
    /// Archived ones too.
    pub archived: bool,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// What a check of the store found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyReport {
    /// Journals read.
    pub runs: u64,
    /// Entries read.
    pub entries: u64,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}
