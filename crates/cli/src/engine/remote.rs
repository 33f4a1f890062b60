//! A server: writes go to it over HTTP, reads go to the store beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sortie_core::event::JournalEntry;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::ports::store::{ListFilter, Replied, StoreResult, Unblock, Undelivered};
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId};
use sortie_core::run::{Announce, ForkPoint, Lane, RunRecord, SinkAddress, Status};
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::time::Clock as _;
use sortie_protocol::client::{Client, ClientError};
use sortie_protocol::{
    ApprovalBody, ApprovalDecision, CleanBody, DeliveryAction, ForkBody, LettersBody, NewMessage,
    NewTask, Proof,
};
use sortie_runtime::{Agents, Fork, MessageReceipt, NewRun, ProcessClock};
use sortie_store::ReadStore;

use super::Stopped;
use super::feed::Feed;
use crate::lock;
use crate::problem::Problem;
use crate::serving::{self, ServerPresence};
use crate::settings::Settings;

/// A server and the store beside it.
#[derive(Debug)]
pub(crate) struct Remote {
    client: Client,
    store: Arc<ReadStore>,
    pub(super) clock: ProcessClock,
    pub(super) agents: Agents,
    home: PathBuf,
}

impl Remote {
    pub(super) fn open(settings: &Settings, client: Client) -> Result<Self, Problem> {
        let home = settings.options.home.clone();
        Ok(Self {
            client: client.with_finder(move || found(&home)),
            store: Arc::new(settings.options.read_store()?),
            clock: ProcessClock::start(),
            agents: settings.options.agents(),
            home: settings.options.home.clone(),
        })
    }

    pub(super) async fn listen(&self) -> Result<Feed, ClientError> {
        Feed::of_server(self.client.clone(), false).await
    }

    pub(super) async fn listen_with_text(&self) -> Result<Feed, ClientError> {
        Feed::of_server(self.client.clone(), true).await
    }

    /// Whether no process holds the store any more.
    pub(super) fn is_gone(&self) -> bool {
        lock::is_free(&self.home)
    }

    /// Returns a fresh idempotency key: retrying a request with the same key acts once.
    fn new_key(&self) -> String {
        self.clock.new_run_id().to_string()
    }

    pub(super) async fn get(&self, run: RunId) -> StoreResult<RunRecord> {
        self.store.get(run).await
    }

    pub(super) async fn resolve(&self, prefix: &str) -> StoreResult<RunId> {
        self.store.resolve(prefix).await
    }

    pub(super) async fn list(&self, filter: ListFilter) -> StoreResult<Vec<RunRecord>> {
        self.store.list(filter).await
    }

    pub(super) async fn undelivered(&self) -> StoreResult<Undelivered> {
        self.store.undelivered().await
    }

    pub(super) async fn requests(&self, filter: RequestFilter) -> StoreResult<Vec<OpenRequest>> {
        self.store.requests(filter).await
    }

    pub(super) async fn events(&self, run: RunId, after: Seq) -> StoreResult<Vec<JournalEntry>> {
        self.store.read(run, after).await
    }

    pub(super) async fn sessions(&self, filter: SessionFilter) -> StoreResult<Vec<SessionSummary>> {
        self.store.sessions(filter).await
    }

    pub(super) async fn send_message(&self, new: NewRun) -> Result<MessageReceipt, ClientError> {
        let budget = sortie_protocol::Budget::from(new.budget);
        let default_model = Some(new.default_model).filter(|model| !model.is_empty());
        let message = NewMessage {
            text: new.task,
            agent: new.agent,
            model: new.model.or(default_model),
            workspace: Some(new.workspace.display().to_string()),
            mode: Some(new.mode),
            thinking: new.thinking,
            budget: (budget != sortie_protocol::Budget::default()).then_some(budget),
            lang: Some(new.lang),
        };
        let key = self.new_key();
        let sent = self
            .client
            .send_message(&new.session, &message, &key)
            .await?;
        Ok(MessageReceipt {
            run: sent.task_id,
            steered: sent.steered,
        })
    }

    pub(super) async fn create(&self, new: NewRun) -> Result<RunId, ClientError> {
        let made = self.client.create(&new_task(new), &self.new_key()).await?;
        Ok(made.task_id)
    }

    pub(super) async fn cancel(&self, run: RunId, reason: &str) -> Result<Stopped, ClientError> {
        let done = self.client.cancel(run, reason).await?;
        Ok(Stopped {
            ended: done.cancelled,
            already_ended: done.already_ended,
        })
    }

    pub(super) async fn delete(&self, run: RunId) -> Result<u64, ClientError> {
        Ok(self.client.delete(run).await?.deleted)
    }

    pub(super) async fn clean(&self, body: &CleanBody) -> Result<u64, ClientError> {
        Ok(self.client.clean(body).await?.deleted)
    }

    pub(super) async fn unblock_letters(
        &self,
        id: Option<i64>,
        choice: Unblock,
    ) -> Result<u64, ClientError> {
        let action = match choice {
            Unblock::Retry => DeliveryAction::Retry,
            Unblock::Dismiss => DeliveryAction::Dismiss,
        };
        let body = LettersBody { action, id };
        Ok(self.client.unblock_letters(&body).await?.changed)
    }

    pub(super) async fn diff(&self, run: RunId) -> Result<String, ClientError> {
        Ok(self.client.diff(run).await?.diff)
    }

    pub(super) async fn apply(&self, run: RunId) -> Result<Vec<String>, ClientError> {
        Ok(self.client.apply(run, &self.new_key()).await?.files)
    }

    pub(super) async fn discard(&self, run: RunId) -> Result<(), ClientError> {
        self.client.discard(run, &self.new_key()).await.map(drop)
    }

    pub(super) async fn pause(&self, run: RunId) -> Result<Status, ClientError> {
        Ok(self.client.pause(run).await?.status)
    }

    pub(super) async fn unpause(&self, run: RunId) -> Result<Status, ClientError> {
        Ok(self.client.unpause(run).await?.status)
    }

    pub(super) async fn retry(&self, run: RunId) -> Result<RunId, ClientError> {
        let key = self.new_key();
        Ok(self.client.retry(run, &key).await?.task_id)
    }

    pub(super) async fn fork(&self, fork: Fork) -> Result<RunId, Problem> {
        let key = self.new_key();
        let ForkPoint { run, at } = fork.point;
        let body = ForkBody {
            at: at.0,
            model: fork.model,
            mode: Some(fork.mode),
        };
        match self.client.fork(run, &body, &key).await {
            Ok(made) => Ok(made.task_id),
            // The caller gets the same error as without a server.
            Err(ClientError::Refused { problem, .. })
                if at.0 < 1 || at > self.store.get(run).await?.head =>
            {
                Err(Problem::Refused(problem.detail))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn steer(&self, run: RunId, text: &str) -> Result<(), ClientError> {
        let key = self.new_key();
        self.client.steer(run, text, &key).await.map(drop)
    }

    pub(super) async fn reply(
        &self,
        request: &RequestId,
        reply: Reply,
    ) -> Result<Replied, Problem> {
        let stored = self.store.find_request(request.as_str()).await?;
        let was_open = stored.reply.is_none();
        let client = &self.client;
        let sent = match reply.clone() {
            Reply::Approved { lasting, .. } => {
                let body = decision(ApprovalDecision::Approve, lasting, None);
                client.decide(request, &body).await
            }
            Reply::Refused { words, .. } => {
                let body = decision(ApprovalDecision::Deny, None, words);
                client.decide(request, &body).await
            }
            Reply::Answered { text, .. } => client.answer_question(request, &text).await,
            // A request expires by time alone.
            Reply::Expired => return Ok(Replied::TooLate { earlier: None }),
        };
        match sent {
            Ok(noted) if noted.noted => Ok(Replied::Accepted {
                run: stored.task_id,
            }),
            Ok(_) => self.too_late(request, &reply, was_open).await,
            Err(error) if error.slug() == Some("conflict") => {
                self.too_late(request, &reply, was_open).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the reply in the store. If it is this one, and the request was open before it was sent, an
    /// attempt whose response was lost has recorded it.
    async fn too_late(
        &self,
        request: &RequestId,
        reply: &Reply,
        was_open: bool,
    ) -> Result<Replied, Problem> {
        let stored = self.store.find_request(request.as_str()).await?;
        let is_same = stored
            .reply
            .as_ref()
            .is_some_and(|noted| same(noted, reply));
        if was_open && is_same {
            return Ok(Replied::Accepted {
                run: stored.task_id,
            });
        }
        Ok(Replied::TooLate {
            earlier: stored.reply,
        })
    }

    pub(super) async fn revoke(
        &self,
        session: &SessionKey,
        folder: &Path,
        rule: Option<&str>,
    ) -> Result<u64, ClientError> {
        let folder = folder.display().to_string();
        Ok(self.client.revoke(session, &folder, rule).await?.revoked)
    }
}

/// Returns the current address of the server: it may have restarted on another port.
fn found(home: &Path) -> Option<(SocketAddr, Proof)> {
    match serving::look(home) {
        Ok(ServerPresence::Listening { file, address }) => Some((address, file.proof)),
        // The next attempt looks again.
        Ok(ServerPresence::Starting(_) | ServerPresence::Absent) | Err(_) => None,
    }
}

/// Whether two replies are the same decision. The server records the API key as the approver.
fn same(noted: &Reply, sent: &Reply) -> bool {
    match (noted, sent) {
        (Reply::Approved { lasting, .. }, Reply::Approved { lasting: other, .. }) => {
            lasting == other
        }
        (Reply::Refused { words, .. }, Reply::Refused { words: other, .. }) => words == other,
        (Reply::Answered { text, .. }, Reply::Answered { text: other, .. }) => text == other,
        (Reply::Expired, Reply::Expired) => true,
        (
            Reply::Approved { .. }
            | Reply::Refused { .. }
            | Reply::Answered { .. }
            | Reply::Expired,
            _,
        ) => false,
    }
}

fn decision(
    decision: ApprovalDecision,
    lasting: Option<String>,
    words: Option<String>,
) -> ApprovalBody {
    ApprovalBody {
        decision,
        lasting,
        words,
    }
}

/// Converts a request to that of the API.
fn new_task(new: NewRun) -> NewTask {
    let budget = sortie_protocol::Budget::from(new.budget);
    NewTask {
        message: new.task,
        label: new.label,
        agent: new.agent,
        model: new.model,
        default_model: Some(new.default_model).filter(|model| !model.is_empty()),
        fallbacks: new.fallbacks,
        thinking: new.thinking,
        session_id: Some(new.session.to_string()),
        workspace: Some(new.workspace.display().to_string()),
        mode: Some(new.mode),
        priority: Some(new.priority),
        timeout_seconds: new.timeout.map(|timeout| timeout.as_secs()),
        max_iterations: new.max_iterations,
        max_depth: new.max_depth,
        budget: (budget != sortie_protocol::Budget::default()).then_some(budget),
        isolation: new.isolation,
        fork: new.fork,
        result_schema: new.result_schema,
        checks: new.checks,
        temperature: new.sampling.temperature,
        max_tokens: new.sampling.max_tokens,
        report_to: new.report_to.iter().map(sink).collect(),
        main: new.lane == Lane::Main,
        lang: Some(new.lang),
        continues: new.continues.map(|run| run.to_string()),
        announce: Some(new.announce.unwrap_or(Announce::Silent)),
        cleanup: new.cleanup,
        requires: new.requires.iter().map(ToString::to_string).collect(),
    }
}

fn sink(address: &SinkAddress) -> String {
    format!("{}:{}", address.scheme, address.target)
}
