//! Starts and manages children, for the delegation tools of a run.

mod fan_out;

use std::path::Path;

use async_trait::async_trait;
use sortie_core::event::ChildWait;
use sortie_core::id::{CallId, RunId, as_handle};
use sortie_core::inbox::{InboxItem, Sender};
use sortie_core::message::ChildRef;
use sortie_core::ports::store::{
    Admission, AdmissionRefusal, Admit, ListFilter, ParentClaim, Replied, StoreError, StoreResult,
};
use sortie_core::ports::tool::{
    ManageRequest, Spawned, Spawner, ToolAnswer, ToolFailure, ToolOutcome, ToolReply,
};
use sortie_core::request::{Answerer, OpenRequest, Reply, RequestFilter, RequestKind};
use sortie_core::run::{
    Cancellation, CancelledBy, EdgeMode, Lane, Outcome, RunRecord, RunSpec, SpawnRequest, Status,
    WaitingOn,
};
use sortie_core::tenant::Quota;
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_core::worker::{WorkerRecord, WorkerState};
use sortie_text::{first_chars, outcome_error, t, text};

use crate::changes;
use crate::crash::{self, Point};
use crate::engine::{Engine, store_failed};
use crate::planner::{Conversation, Requester};
use crate::requeue;
use sortie_agent::FanOut;
use sortie_core::fan_out::FanOutRequest;

/// Characters of a child's result in a listing.
const LISTED_RESULT_CHARS: usize = 200;
/// Attempts to admit a child while the store fails, about a minute. Nothing else of the run could
/// be written meanwhile either; a cancel or a deadline ends the wait.
const MAX_ADMIT_ATTEMPTS: u32 = 64;
/// Reads of a queue position while the scheduler claims and ends runs beside them.
const MAX_POSITION_READS: u32 = 4;

/// Starts and manages children for one call of one run.
pub(crate) struct RunSpawner<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) claim: ParentClaim,
    pub(crate) spec: &'a RunSpec,
    pub(crate) call: &'a CallId,
    /// The folder that the run works in.
    pub(crate) workspace: &'a Path,
    /// Deadline of everything that the run starts.
    pub(crate) not_after: Option<Timestamp>,
    /// What a child can be forked with.
    pub(crate) conversation: Conversation<'a>,
    /// What the call has started before, if it is a fan-out.
    pub(crate) fan_out: Option<&'a FanOut>,
}

#[async_trait]
impl Spawner for RunSpawner<'_> {
    async fn spawn(&self, request: SpawnRequest) -> Result<Spawned, ToolFailure> {
        self.spawn_under(self.call, request).await
    }

    async fn fan_out(&self, request: FanOutRequest) -> ToolReply {
        self.continue_fan_out(request).await
    }

    async fn manage(&self, request: ManageRequest) -> ToolReply {
        match request {
            ManageRequest::List => self.list().await,
            ManageRequest::Get { id } => self.describe(&id).await,
            ManageRequest::Wait { ids } => self.wait(ids).await,
            ManageRequest::Steer { id, message } => self.steer(&id, message).await,
            ManageRequest::Cancel { id } => self.cancel(&id).await,
            ManageRequest::Answer { request, text } => self.answer(&request, text).await,
            ManageRequest::Diff { id } => self.diff(&id).await,
            ManageRequest::Apply { id } => self.apply(&id).await,
            ManageRequest::Discard { id } => self.discard(&id).await,
        }
    }
}

impl RunSpawner<'_> {
    /// Starts a child under the id of a call: the same id always gets the same child.
    pub(crate) async fn spawn_under(
        &self,
        call: &CallId,
        request: SpawnRequest,
    ) -> Result<Spawned, ToolFailure> {
        let continues = match &request.resume {
            None => None,
            Some(id) => Some(self.ended_child(id).await?),
        };
        let requester = Requester {
            run: self.claim.fence.run,
            spec: self.spec,
            call,
            workspace: self.workspace,
            not_after: self.not_after,
            conversation: Some(self.conversation),
        };
        let run = self.engine.clock.new_run_id();
        let mode = request.mode;
        let spec = self
            .engine
            .planner
            .child_spec(requester, run, request, continues)
            .map_err(|refused| ToolFailure::new(refused.message))?;
        let child = ChildRef {
            run,
            agent: spec.agent.name.clone(),
            label: spec.label.clone(),
        };
        let announces = spec.announce.reaches_parent();
        // No await before the admission: calls of one reply run concurrently, and their order in the
        // queue is that in the reply.
        crash::point(Point::BeforeAdmit);
        let admission = self
            .admit(child.run, &spec)
            .await
            .map_err(|error| ToolFailure::new(error.to_string()))?;
        crash::point(Point::AfterAdmit);
        match admission {
            Admission::Admitted { queue_position } => {
                self.engine.publish_admission(child.run, &spec);
                let queue_position = match mode {
                    EdgeMode::Background => {
                        let at_admission = queue_position.unwrap_or(u32::MAX);
                        self.waiting_position(child.run, at_admission).await
                    }
                    // A caller that waits for the result is not told a position.
                    EdgeMode::Blocking => None,
                };
                Ok(Spawned {
                    child,
                    queue_position,
                    announces,
                })
            }
            Admission::Existing { run } => Ok(Spawned {
                child: ChildRef { run, ..child },
                queue_position: match mode {
                    EdgeMode::Background => self.waiting_position(run, u32::MAX).await,
                    EdgeMode::Blocking => None,
                },
                announces,
            }),
            Admission::Refused(refusal) => {
                Err(ToolFailure::new(refusal_text(self.spec.lang, &refusal)))
            }
        }
    }

    /// Admits a child. A commit that is reported as failed may have happened, so the same admission
    /// is repeated: the store finds what an earlier attempt wrote.
    async fn admit(&self, run: RunId, spec: &RunSpec) -> StoreResult<Admission> {
        let mut tries = 0;
        loop {
            let admitted = self.engine.store.admit(Admit {
                run,
                spec: spec.clone(),
                at: self.engine.clock.now(),
                parent: Some(self.claim),
            });
            match admitted.await {
                Err(error @ StoreError::Failed { .. }) if tries < MAX_ADMIT_ATTEMPTS => {
                    store_failed("admit a child", &error);
                    tokio::time::sleep(requeue::wait_after(tries)).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// Returns the position of a child that has to wait for a slot; `None` if it runs, or gets a slot
    /// in the next pass of the scheduler. The runs that the free slots take are not ahead of it, nor
    /// are those that were admitted after it.
    ///
    /// Free slots and position are read one after the other. If the free slots changed around the
    /// read of the position, the scheduler claimed a run or one ended, and both are read again.
    async fn waiting_position(&self, child: RunId, at_admission: u32) -> Option<u32> {
        let mut free = self.free_slots().await.ok()?;
        let mut position = self.queue_position(child).await?;
        for _ in 0..MAX_POSITION_READS {
            let after = self.free_slots().await.ok()?;
            if after == free {
                break;
            }
            free = after;
            position = self.queue_position(child).await?;
        }
        let waiting = position.min(at_admission).checked_sub(free);
        waiting.filter(|position| *position > 0)
    }

    /// Returns the position of a run in the queue of its lane, if it is queued.
    async fn queue_position(&self, run: RunId) -> Option<u32> {
        let record = self.engine.store.get(run).await.ok()?;
        record.queue_position
    }

    /// Returns how many more children of this run the scheduler would claim now.
    async fn free_slots(&self) -> StoreResult<u32> {
        let lanes = self.engine.settings().lanes;
        let counts = self.engine.store.lanes().await?;
        let claimed = counts.iter().find(|count| count.lane == Lane::Subagent);
        let claimed = claimed.map_or(0, |count| count.claimed);
        let mut free = self.slots(Lane::Subagent).await?.saturating_sub(claimed);
        let parent = ListFilter {
            parent: Some(self.claim.fence.run),
            ..ListFilter::default()
        };
        let tree = ListFilter {
            root: Some(self.spec.root),
            ..ListFilter::default()
        };
        for (limit, filter) in [(lanes.per_parent, parent), (lanes.per_tree, tree)] {
            // Otherwise the lane is full first.
            if u64::from(limit) < free.saturating_add(claimed) {
                let running = ListFilter {
                    statuses: vec![Status::Running],
                    ..filter
                };
                let running = self.engine.store.list(running).await?;
                let busy = running.iter().filter(|record| has_slot(record)).count();
                free = free.min(u64::from(limit).saturating_sub(busy as u64));
            }
        }
        Ok(u32::try_from(free).unwrap_or(u32::MAX))
    }

    /// Returns how many runs of a lane all processes that may take a child of this run execute at once.
    /// The claims that it is compared with are those of all processes too.
    async fn slots(&self, lane: Lane) -> StoreResult<u64> {
        let engine = self.engine;
        if !engine.store.is_shared() {
            return Ok(engine.worker.slots(lane));
        }
        let workers = engine.store.workers(engine.lease_now()).await?;
        let requires = &self.spec.requires;
        let takes = |record: &&WorkerRecord| {
            let labels = &record.worker.labels;
            record.state == WorkerState::Active
                && requires.iter().all(|label| labels.contains(label))
        };
        let slots = workers.iter().filter(takes);
        Ok(slots.map(|record| record.worker.slots(lane)).sum())
    }

    async fn list(&self) -> ToolReply {
        let children = self.children().await?;
        if children.is_empty() {
            return answer(text(self.spec.lang, "manage-none", &[]));
        }
        let lines: Vec<String> = children.iter().map(|child| self.line(child)).collect();
        answer(self.framed(&lines.join("\n")))
    }

    async fn describe(&self, id: &str) -> ToolReply {
        let child = self.child(id).await?;
        let result = child.outcome.as_ref().and_then(Outcome::text);
        let error = child
            .outcome
            .as_ref()
            .and_then(|outcome| outcome_error(self.spec.lang, outcome));
        let parts = [Some(self.line(&child)), error, result.map(str::to_owned)];
        let whole = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
        answer(self.framed(&whole))
    }

    async fn wait(&self, ids: Vec<String>) -> ToolReply {
        let mut chosen = Vec::new();
        if ids.is_empty() {
            chosen = self.children().await?;
        }
        for id in ids {
            chosen.push(self.child(&id).await?);
        }
        let children: Vec<RunId> = chosen
            .iter()
            .filter(|child| !child.status.is_terminal() || child.delivery != DELIVERED)
            .map(|child| child.run_id)
            .collect();
        Ok(ToolOutcome::Waits(ChildWait::Finished { children }))
    }

    async fn steer(&self, id: &str, message: String) -> ToolReply {
        let child = self.child(id).await?;
        let item = InboxItem::Steer {
            from: Sender::Parent,
            text: message,
        };
        self.engine
            .steer(child.run_id, item)
            .await
            .map_err(|error| ToolFailure::new(error.to_string()))?;
        answer(text(
            self.spec.lang,
            "manage-steered",
            &[("label", child.label.into())],
        ))
    }

    async fn cancel(&self, id: &str) -> ToolReply {
        let child = self.child(id).await?;
        let cancellation = Cancellation {
            by: CancelledBy::Parent,
            reason: "the parent no longer needs it".to_owned(),
        };
        let report = self
            .engine
            .cancel(child.run_id, cancellation)
            .await
            .map_err(|error| ToolFailure::new(error.to_string()))?;
        let key = match report.already_ended {
            Some(_) => "manage-already-ended",
            None => "manage-cancelled",
        };
        answer(text(self.spec.lang, key, &[("label", child.label.into())]))
    }

    /// Finds a question and the child that asks it, by the question's id, or by the child's id or
    /// label. A child with several open questions has to be answered by their ids.
    async fn question(&self, wanted: &str) -> Option<(OpenRequest, RunRecord)> {
        if let Ok(open_request) = self.engine.store.find_request(wanted).await
            && let Some(found) = self.of_own_child(open_request).await
        {
            return Some(found);
        }
        let filter = RequestFilter {
            run: Some(self.child(wanted).await.ok()?.run_id),
            ..RequestFilter::default()
        };
        let open = self.engine.store.requests(filter).await.ok()?;
        let mut questions = open.into_iter().filter(is_question);
        match (questions.next(), questions.next()) {
            (Some(only), None) => self.of_own_child(only).await,
            (Some(_), Some(_)) | (None, _) => None,
        }
    }

    async fn of_own_child(&self, open_request: OpenRequest) -> Option<(OpenRequest, RunRecord)> {
        let child = self.engine.store.get(open_request.task_id).await.ok()?;
        let own = child.parent == Some(self.claim.fence.run) && is_question(&open_request);
        own.then_some((open_request, child))
    }

    /// Answers a question of a child, or escalates it to a person. A parent can answer questions
    /// but never approve anything: its answer is a model's text.
    async fn answer(&self, wanted: &str, text: Option<String>) -> ToolReply {
        let found = self.question(wanted).await;
        let (open_request, child) = found
            .ok_or_else(|| ToolFailure::new(t!(self.spec.lang, "answer-unknown", id = wanted)))?;
        let Some(text) = text else {
            self.engine
                .store
                .escalate(&open_request.request.id)
                .await
                .map_err(|error| failed(&error))?;
            return answer(t!(self.spec.lang, "answer-escalated", label = child.label));
        };
        let reply = Reply::Answered {
            by: Answerer::Parent,
            name: None,
            text,
        };
        let replied = self.engine.reply(&open_request.request.id, reply).await;
        answer(match replied.map_err(|error| failed(&error))? {
            Replied::Accepted { .. } => t!(self.spec.lang, "answer-given", label = child.label),
            Replied::TooLate { .. } => t!(self.spec.lang, "answer-too-late", label = child.label),
        })
    }

    async fn diff(&self, id: &str) -> ToolReply {
        let child = self.child(id).await?;
        let changed = changes::changed(self.engine, child.run_id).await;
        let diff = changed
            .map_err(|error| ToolFailure::new(error.to_string()))?
            .diff;
        answer(self.framed(&diff))
    }

    async fn apply(&self, id: &str) -> ToolReply {
        let child = self.child(id).await?;
        let applied = changes::apply(self.engine, child.run_id).await;
        let files = applied.map_err(|error| ToolFailure::new(error.to_string()))?;
        answer(t!(
            self.spec.lang,
            "changes-applied",
            count = files.len(),
            files = files.join(", ")
        ))
    }

    async fn discard(&self, id: &str) -> ToolReply {
        let child = self.child(id).await?;
        let discarded = changes::discard(self.engine, child.run_id).await;
        discarded.map_err(|error| ToolFailure::new(error.to_string()))?;
        answer(t!(self.spec.lang, "changes-discarded", label = child.label))
    }

    /// Frames the text of children as data for their parent.
    fn framed(&self, text: &str) -> String {
        sortie_agent::frame(self.spec.lang, &self.claim.fence.run.to_string(), text)
    }

    async fn children(&self) -> Result<Vec<RunRecord>, ToolFailure> {
        self.engine
            .store
            .list(ListFilter {
                parent: Some(self.claim.fence.run),
                archived: true,
                ..ListFilter::default()
            })
            .await
            .map_err(|error| ToolFailure::new(error.to_string()))
    }

    /// Finds a child by its handle, its id, a prefix of that, or its label.
    async fn child(&self, wanted: &str) -> Result<RunRecord, ToolFailure> {
        let wanted = wanted.trim();
        let children = self.children().await?;
        let handle = as_handle(wanted);
        let mut fitting = children.into_iter().filter(|child| {
            child.label == wanted
                || handle.as_ref() == Some(&child.handle)
                || (wanted.len() >= sortie_core::id::MIN_PREFIX_CHARS
                    && child.run_id.to_string().starts_with(wanted))
        });
        match (fitting.next(), fitting.next()) {
            (Some(child), None) => Ok(child),
            (None, _) | (Some(_), Some(_)) => Err(ToolFailure::new(text(
                self.spec.lang,
                "manage-unknown",
                &[("id", wanted.into())],
            ))),
        }
    }

    async fn ended_child(&self, wanted: &str) -> Result<RunId, ToolFailure> {
        let child = self.child(wanted).await?;
        if child.status.is_terminal() {
            Ok(child.run_id)
        } else {
            Err(ToolFailure::new(text(
                self.spec.lang,
                "manage-still-running",
                &[("label", child.label.into())],
            )))
        }
    }

    fn line(&self, child: &RunRecord) -> String {
        let result = child
            .outcome
            .as_ref()
            .and_then(Outcome::text)
            .map(|result| first_chars(result, LISTED_RESULT_CHARS).replace('\n', " "))
            .unwrap_or_default();
        text(
            self.spec.lang,
            "manage-line",
            &[
                ("id", child.run_id.to_string().into()),
                ("agent", child.agent.as_str().into()),
                ("label", child.label.as_str().into()),
                ("status", child.status.as_str().into()),
                ("progress", u64::from(child.summary.progress).into()),
                ("result", result.into()),
            ],
        )
    }
}

/// Returns whether a running child occupies a slot: one that waits is parked or queued again.
fn has_slot(record: &RunRecord) -> bool {
    let waits = match record.summary.waiting_on {
        Some(WaitingOn::Children | WaitingOn::Approval | WaitingOn::Question | WaitingOn::Slot) => {
            true
        }
        Some(WaitingOn::Model | WaitingOn::Tool | WaitingOn::RateLimit) | None => false,
    };
    record.lane == Lane::Subagent && !waits
}

/// Returns why the store refused a run, as a sentence for the caller.
pub(crate) fn refusal_text(lang: Lang, refusal: &AdmissionRefusal) -> String {
    match refusal {
        AdmissionRefusal::TreeFull { max } => {
            text(lang, "spawn-tree-full", &[("max", u64::from(*max).into())])
        }
        AdmissionRefusal::TooDeep { max } => {
            text(lang, "spawn-too-deep", &[("max", u64::from(*max).into())])
        }
        AdmissionRefusal::ParentEnding => text(lang, "spawn-parent-ending", &[]),
        AdmissionRefusal::BudgetSpent { kind } => t!(lang, "spawn-no-budget", kind = kind.as_str()),
        AdmissionRefusal::Quota(reached) => {
            let quota = reached.quota;
            let key = match reached.resets_at {
                Some(_) => "quota-until",
                None => match quota {
                    Quota::Storage => "quota-storage",
                    Quota::Running
                    | Quota::Queued
                    | Quota::TokensPerDay
                    | Quota::TokensPerMonth
                    | Quota::UsdPerDay
                    | Quota::UsdPerMonth => "quota-queued",
                },
            };
            t!(
                lang,
                key,
                tenant = reached.tenant.as_str(),
                quota = quota.as_str(),
                limit = quota.show(reached.limit),
                used = quota.show(reached.used),
                until = reached
                    .resets_at
                    .map(Timestamp::to_rfc3339)
                    .unwrap_or_default()
            )
        }
    }
}

const DELIVERED: sortie_core::run::Delivery = sortie_core::run::Delivery::Delivered;

fn failed(error: &StoreError) -> ToolFailure {
    ToolFailure::new(error.to_string())
}

fn is_question(open_request: &OpenRequest) -> bool {
    matches!(open_request.request.kind, RequestKind::Question(_))
}

fn answer(text: String) -> ToolReply {
    Ok(ToolOutcome::Answer(ToolAnswer::text(text)))
}
