//! Approval requests and questions: what runs wait for a person or the program to decide.

use std::time::Duration;

use sortie_core::id::RunId;
use sortie_core::notification::Notification;
use sortie_core::ports::store::Replied;
use sortie_core::request::{
    Answerer, ApprovalRequest, OpenRequest, Reply, RequestFilter, RequestId, RequestKind,
};
use sortie_core::run::RunRecord;
use sortie_runtime::Runtime;
use tokio::sync::broadcast;

use crate::error::Error;

/// How often pending requests are read when no event arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The approval requests and questions of a [`Sortie`](crate::Sortie).
///
/// A run that waits for a decision is parked: it uses no slot, and waits across restarts. The first
/// reply counts.
#[derive(Clone, Copy, Debug)]
pub struct Approvals<'a> {
    runtime: &'a Runtime,
}

impl<'a> Approvals<'a> {
    pub(crate) const fn new(runtime: &'a Runtime) -> Self {
        Self { runtime }
    }

    /// Returns the requests without a reply.
    pub async fn pending(&self) -> Result<Vec<OpenRequest>, Error> {
        self.list(RequestFilter::default()).await
    }

    /// Waits until a request is pending, and returns the one that has waited longest.
    pub async fn next(&self) -> Result<OpenRequest, Error> {
        let mut events = self.runtime.subscribe();
        loop {
            let pending = self.pending().await?;
            if let Some(first) = pending.into_iter().next() {
                return Ok(first);
            }
            changed(&mut events).await;
        }
    }

    /// Decides all approval requests of a tree until its root has ended, and returns the root's
    /// record. `decide` returns `Ok` to approve a call, or the reason for the model to deny it. The
    /// audit records `by` as the approver. Questions stay open.
    pub async fn decide(
        &self,
        root: RunId,
        by: &str,
        decide: impl Fn(&ApprovalRequest) -> Result<(), String>,
    ) -> Result<RunRecord, Error> {
        let mut events = self.runtime.subscribe();
        let filter = RequestFilter {
            root: Some(root),
            ..RequestFilter::default()
        };
        loop {
            let record = self.runtime.get(root).await?;
            if record.status.is_terminal() {
                return Ok(record);
            }
            for open in self.list(filter.clone()).await? {
                let RequestKind::Approval(call) = &open.request.kind else {
                    continue;
                };
                match decide(call) {
                    Ok(()) => self.approve(&open.request.id, by).await?,
                    Err(why) => self.deny(&open.request.id, by, Some(&why)).await?,
                };
            }
            changed(&mut events).await;
        }
    }

    /// Returns the approval requests and questions that match a filter.
    pub async fn list(&self, filter: RequestFilter) -> Result<Vec<OpenRequest>, Error> {
        Ok(self.runtime.requests(filter).await?)
    }

    /// Returns the request whose id begins with `prefix`.
    pub async fn find(&self, prefix: &str) -> Result<OpenRequest, Error> {
        Ok(self.runtime.find_request(prefix).await?)
    }

    /// Approves a call. The audit records `by` as the approver.
    pub async fn approve(&self, id: &RequestId, by: &str) -> Result<Replied, Error> {
        let by = by.to_owned();
        self.reply(id, Reply::Approved { by, lasting: None }).await
    }

    /// Denies a call. The model reads `instead` with the denial.
    pub async fn deny(
        &self,
        id: &RequestId,
        by: &str,
        instead: Option<&str>,
    ) -> Result<Replied, Error> {
        let refused = Reply::Refused {
            by: by.to_owned(),
            words: instead.map(str::to_owned),
        };
        self.reply(id, refused).await
    }

    /// Answers a question of the `ask` tool.
    pub async fn answer(&self, id: &RequestId, by: &str, text: &str) -> Result<Replied, Error> {
        let answered = Reply::Answered {
            by: Answerer::Person,
            name: Some(by.to_owned()),
            text: text.to_owned(),
        };
        self.reply(id, answered).await
    }

    /// Replies to a request, with a grant for later calls if the reply has one.
    pub async fn reply(&self, id: &RequestId, reply: Reply) -> Result<Replied, Error> {
        Ok(self.runtime.reply(id, reply).await?)
    }
}

/// Waits for the next event. Events are hints: a missed one costs a delay, never a request.
async fn changed(events: &mut broadcast::Receiver<Notification>) {
    tokio::select! {
        _ = events.recv() => {}
        () = tokio::time::sleep(POLL_INTERVAL) => {}
    }
}
