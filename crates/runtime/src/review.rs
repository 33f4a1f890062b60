//! What people look at and decide: requests of runs, the audit, and changes in worktrees.

use sortie_core::{
    AuditFilter, AuditLine, AuditReport, Changes, ChangesFate, Event, NotificationKind,
    OpenRequest, Replied, Reply, ReplyTo, RequestFilter, RequestId, RunId, Seq, SessionGrant,
    SessionKey, StoreResult, Tenant, Worktree,
};

use crate::runtime::{Runtime, RuntimeError, Shared};

/// What a run changed in its worktree.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) worktree: Worktree,
    pub(crate) changes: Changes,
    pub(crate) diff: String,
}

impl Runtime {
    /// What runs ask and nobody has replied to, or all of it.
    pub async fn requests(&self, filter: RequestFilter) -> Result<Vec<OpenRequest>, RuntimeError> {
        Ok(self.shared.store.requests(filter).await?)
    }

    /// The request that a person means by the beginning of its id.
    pub async fn find_request(&self, prefix: &str) -> Result<OpenRequest, RuntimeError> {
        Ok(self.shared.store.find_request(prefix).await?)
    }

    /// Replies to a request, as a person. The first reply holds.
    pub async fn reply(&self, request: &RequestId, reply: Reply) -> Result<Replied, RuntimeError> {
        Ok(self.shared.reply(request, reply).await?)
    }

    /// What persons have allowed for a session.
    pub async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> Result<Vec<SessionGrant>, RuntimeError> {
        Ok(self.shared.store.grants(tenant, session).await?)
    }

    /// Takes back what a person allowed; all of it if no rule is named.
    pub async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> Result<u64, RuntimeError> {
        Ok(self.shared.store.revoke(tenant, session, rule).await?)
    }

    /// What happened to calls.
    pub async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, RuntimeError> {
        Ok(self.shared.store.audit(filter).await?)
    }

    /// Checks the whole audit.
    pub async fn verify_audit(&self) -> Result<AuditReport, RuntimeError> {
        Ok(self.shared.store.verify_audit().await?)
    }

    /// What a run changed in its worktree, as a diff.
    pub async fn diff(&self, run: RunId) -> Result<String, RuntimeError> {
        Ok(self.shared.changed(run).await?.diff)
    }

    /// Brings what a run changed into the checkout it came from; returns the files.
    pub async fn apply(&self, run: RunId) -> Result<Vec<String>, RuntimeError> {
        self.shared.apply(run).await
    }

    /// Throws away what a run changed.
    pub async fn discard(&self, run: RunId) -> Result<(), RuntimeError> {
        self.shared.discard(run).await
    }
}

impl Shared {
    pub(crate) async fn reply(&self, request: &RequestId, reply: Reply) -> StoreResult<Replied> {
        let replied = self
            .store
            .reply(ReplyTo {
                request: request.clone(),
                reply,
                at: self.clock.now(),
            })
            .await?;
        if let Replied::Accepted { run } = replied {
            self.replied(run, request.clone()).await;
        }
        Ok(replied)
    }

    /// Wakes a run that somebody has replied to, and tells the world.
    pub(crate) async fn replied(&self, run: RunId, request: RequestId) {
        self.live.signal(run, |signals| signals.inbox = true);
        self.hint.notify_one();
        self.tell(run, |_record| NotificationKind::Replied { request })
            .await;
    }

    /// Brings what a run changed into the checkout it came from; returns the files.
    pub(crate) async fn apply(&self, run: RunId) -> Result<Vec<String>, RuntimeError> {
        let Changed {
            worktree, changes, ..
        } = self.changed(run).await?;
        let applied = self.worktrees.apply(&worktree, &changes).await;
        let files = applied.map_err(RuntimeError::Refused)?;
        self.decided(run, ChangesFate::Applied).await?;
        Ok(files)
    }

    /// Throws away what a run changed.
    pub(crate) async fn discard(&self, run: RunId) -> Result<(), RuntimeError> {
        let Changed {
            worktree, changes, ..
        } = self.changed(run).await?;
        let discarded = self.worktrees.discard(&worktree, &changes).await;
        discarded.map_err(RuntimeError::Refused)?;
        self.decided(run, ChangesFate::Discarded).await?;
        Ok(())
    }

    async fn decided(&self, run: RunId, fate: ChangesFate) -> StoreResult<()> {
        self.store.set_changes_fate(run, fate).await?;
        self.record_changed(run).await;
        Ok(())
    }

    /// What a run changed in its worktree. One that was never collected is collected now.
    pub(crate) async fn changed(&self, run: RunId) -> Result<Changed, RuntimeError> {
        let entries = self.store.read(run, Seq(0)).await?;
        let mut worktree = None;
        let mut collected = None;
        for entry in entries {
            match entry.event {
                Event::Isolated { worktree: made } => worktree = Some(made),
                Event::Collected { changes } => collected = Some(changes),
                Event::Admitted { .. }
                | Event::Updated { .. }
                | Event::Paused
                | Event::Resumed
                | Event::Claimed { .. }
                | Event::InboxTaken { .. }
                | Event::Answered { .. }
                | Event::ModelFailed { .. }
                | Event::Compacted { .. }
                | Event::Intended { .. }
                | Event::Asked { .. }
                | Event::Delegated { .. }
                | Event::ToolFinished { .. }
                | Event::BudgetLow { .. }
                | Event::BudgetSpent { .. }
                | Event::Finished { .. } => {}
            }
        }
        let Some(worktree) = worktree else {
            return Err(RuntimeError::Refused(format!(
                "task {run} has no worktree of its own: it worked in the workspace itself"
            )));
        };
        match collected {
            Some(Some(changes)) => {
                let diff = self
                    .store
                    .blob(run, &changes.diff)
                    .await?
                    .unwrap_or_default();
                Ok(Changed {
                    worktree,
                    changes,
                    diff: String::from_utf8_lossy(&diff).into_owned(),
                })
            }
            Some(None) => Err(RuntimeError::Refused(format!(
                "task {run} changed nothing in its worktree"
            ))),
            None => self.collect_late(run, worktree).await,
        }
    }

    /// A run that was stopped by the store itself, or whose process died, left its worktree behind.
    async fn collect_late(&self, run: RunId, worktree: Worktree) -> Result<Changed, RuntimeError> {
        if !self.store.get(run).await?.status.is_terminal() {
            return Err(RuntimeError::Refused(format!(
                "task {run} is still at work in its worktree; wait for it, or cancel it first"
            )));
        }
        let collected = self.worktrees.collect(run).await;
        match collected.map_err(RuntimeError::Refused)? {
            None => Err(RuntimeError::Refused(format!(
                "task {run} changed nothing in its worktree"
            ))),
            Some(collected) => Ok(Changed {
                worktree,
                changes: collected.changes,
                diff: String::from_utf8_lossy(&collected.diff).into_owned(),
            }),
        }
    }
}
