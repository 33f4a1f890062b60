//! Dispatches one tool call: from the arguments of the model to exactly one result.

mod checks;
mod hooks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sortie_agent::{CallStatus, FanOut, OpenCall, bound_result};
use sortie_core::audit::{AuditEntry, AuditStage};
use sortie_core::event::Event;
use sortie_core::hook::NewLetter;
use sortie_core::id::{BlobId, EffectId, Fence, Seq};
use sortie_core::message::{
    Arguments, Block, ImageRef, Message, ResultStatus, SharedMessage, ToolCall, ToolResult,
};
use sortie_core::policy::{ApprovedBy, Decision, Layer, Mode, Ruling};
use sortie_core::ports::store::{Blob, ParentClaim};
use sortie_core::ports::tool::{
    BlobReader, Permits, Reconciled, Recovery, Tool, ToolAnswer, ToolContext, ToolOutcome,
    ToolReply, Touches,
};
use sortie_core::request::{
    Addressee, ApprovalRequest, Danger, Question, Reply, Request, RequestKind,
};
use sortie_core::run::{RunSpec, Worktree};
use sortie_core::time::Timestamp;
use sortie_policy::ToolFacts;
use sortie_text::{t, text, truncate_middle};

use crate::audit::{self, Auditor};
use crate::authority::{self, Authority, CallPermits};
use crate::engine::{Engine, store_failed};
use crate::journal_load;
use crate::planner::Conversation;
use crate::requests;
use crate::spawn::RunSpawner;

pub(crate) use checks::{Answer, hash_inside};

/// Characters of the message about a call that did not run: it may quote the arguments.
const MAX_REFUSAL_CHARS: usize = 4_000;
/// Characters of the preview that an approver sees.
const MAX_PREVIEW_CHARS: usize = 8_000;
/// The tool whose result depends on the calls before it in the same completion.
const MANAGING_TOOL: &str = "subagents";

/// The tools that start subagents. Two identical calls of them in one completion are a slip of the
/// model, and start them once.
const SPAWNING_TOOLS: [&str; 3] = ["task", "spawn_subagent", "fan_out"];

/// Dispatches the calls of one run.
#[derive(Clone, Copy)]
pub(crate) struct Dispatch<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) spec: &'a RunSpec,
    pub(crate) fence: Fence,
    pub(crate) authority: &'a Arc<Authority>,
    pub(crate) worktree: Option<&'a Worktree>,
    /// Deadline of everything that the run starts.
    pub(crate) not_after: Option<Timestamp>,
    /// The head of the journal when the step began: the entry that requested the calls, or a later
    /// one.
    pub(crate) head: Seq,
    /// The messages of the run, and the model that it calls next: what a child can be forked with.
    pub(crate) messages: &'a [SharedMessage],
    pub(crate) model: &'a str,
}

/// How a call proceeds, before anything has run.
pub(crate) enum Prepared<'a> {
    /// It has its result: the call is invalid, or was denied.
    Resolved(Box<CallRecord>),
    /// An approver has to decide first.
    NeedsApproval(CheckedCall<'a>),
    Run(Runnable<'a>),
}

/// A call that may run now.
pub(crate) enum Runnable<'a> {
    /// It may run concurrently with others, any number of times.
    Concurrent(CheckedCall<'a>),
    /// It runs alone, after its intent is durable.
    Exclusive(CheckedCall<'a>),
}

/// A call whose tool exists, whose arguments are valid and which policy does not deny.
pub(crate) struct CheckedCall<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) tool: &'a dyn Tool,
    facts: &'a ToolFacts,
    arguments: Arc<Value>,
    pub(crate) status: &'a CallStatus,
    ruling: Ruling,
}

/// What came of an approval request.
pub(crate) enum ApprovalOutcome<'a> {
    /// The call has its result: no approver is available.
    Denied(CallRecord),
    /// The request is open; the run waits.
    Requested(CallRecord),
    /// A grant of the session allows the call.
    Granted(Runnable<'a>),
}

/// The entries that end or suspend a call.
#[derive(Debug)]
pub(crate) struct CallRecord {
    pub(crate) event: Event,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) audit: Vec<AuditEntry>,
    /// Messages for the hooks that observe the call.
    pub(crate) letters: Vec<NewLetter>,
}

/// What an exclusive call needs before it runs.
pub(crate) enum ExclusiveStep {
    /// Recovery has found its result.
    Recovered(CallRecord),
    /// It has to run, after this intent is written.
    Run(CallRecord),
}

impl<'a> Dispatch<'a> {
    /// Finds the tool, applies the policy, checks the arguments and applies the approver's reply,
    /// if there is one.
    pub(crate) fn prepare(self, open: &'a OpenCall) -> Prepared<'a> {
        let call = &open.call;
        let lang = self.spec.lang;
        let arguments = match &call.arguments {
            Arguments::Json(value) => value,
            Arguments::Malformed { raw: _, error } => {
                let message = text(lang, "call-malformed", &[("error", error.as_str().into())]);
                return Prepared::Resolved(Box::new(self.invalid_call(call, &message)));
            }
        };
        let Some(found) = self.engine.planner.toolbox.find(&call.name, arguments) else {
            let known = self.spec.tools.join(", ");
            let message = text(
                lang,
                "call-unknown-tool",
                &[("name", call.name.as_str().into()), ("known", known.into())],
            );
            return Prepared::Resolved(Box::new(self.invalid_call(call, &message)));
        };
        let mut checked = CheckedCall {
            call,
            tool: found.tool.as_ref(),
            facts: found.facts,
            ruling: self.authority.rule(found.facts, &found.arguments),
            arguments: Arc::new(found.arguments),
            status: &open.status,
        };
        if checked.ruling.decision == Decision::Deny {
            let message = self.denial_text(&checked);
            return Prepared::Resolved(Box::new(self.refused(
                &checked,
                ResultStatus::Denied,
                &message,
            )));
        }
        let problems = self
            .engine
            .planner
            .toolbox
            .problems(&checked.facts.name, &checked.arguments);
        if !problems.is_empty() {
            let message = text(
                lang,
                "call-bad-arguments",
                &[
                    ("tool", call.name.as_str().into()),
                    ("errors", problems.join("; ").into()),
                ],
            );
            return Prepared::Resolved(Box::new(self.refused(
                &checked,
                ResultStatus::Error,
                &message,
            )));
        }
        if let Some(number) = self.duplicate_of(&checked) {
            let message = t!(lang, "call-duplicate", number = number);
            let record = self.refused(&checked, ResultStatus::Ok, &message);
            return Prepared::Resolved(Box::new(record));
        }
        if let CallStatus::Replied { request, reply } = checked.status {
            match approved_by(request, reply) {
                Some(approved) => checked.ruling.approved = Some(approved),
                None => {
                    let (status, message) = requests::reply_text(lang, &call.name, request, reply);
                    return Prepared::Resolved(Box::new(self.refused(&checked, status, &message)));
                }
            }
        }
        checked.settled()
    }

    /// Returns the number of an earlier call of the same completion that starts the same subagents:
    /// the same tool, under any of its names, with the same arguments.
    fn duplicate_of(self, checked: &CheckedCall<'a>) -> Option<usize> {
        if !SPAWNING_TOOLS.contains(&checked.facts.name.as_str()) {
            return None;
        }
        let Message::Assistant { blocks } = &**self.messages.last()? else {
            return None;
        };
        let calls = blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Text { .. } | Block::Reasoning { .. } => None,
        });
        let mut before = calls.take_while(|call| call.id != checked.call.id);
        let is_same = |call: &ToolCall| {
            let Arguments::Json(arguments) = &call.arguments else {
                return false;
            };
            let found = self.engine.planner.toolbox.find(&call.name, arguments);
            found.is_some_and(|found| {
                found.facts.name == checked.facts.name && found.arguments == *checked.arguments
            })
        };
        before.position(is_same).map(|index| index + 1)
    }

    /// Looks for a grant of the session that allows the call, else opens an approval request.
    pub(crate) async fn request_approval(
        self,
        mut checked: CheckedCall<'a>,
    ) -> ApprovalOutcome<'a> {
        // A hook that requires an approval requires it every time.
        if checked.ruling.layer != Layer::Hook
            && let Some(rule) = self.find_grant(&checked).await
        {
            checked.ruling.approved = Some(ApprovedBy::Grant { rule });
            return ApprovalOutcome::Granted(checked.classified());
        }
        if !self.engine.settings().approvals.wait {
            checked.ruling.decision = Decision::Deny;
            let message = t!(
                self.spec.lang,
                "refused-no-person",
                tool = checked.call.name.as_str()
            );
            return ApprovalOutcome::Denied(self.refused(&checked, ResultStatus::Denied, &message));
        }
        let effect = EffectId::new(self.fence.run, &checked.call.id);
        let preview = self.preview(&checked, &effect).await;
        let redactor = &self.engine.redactor;
        let arguments = redactor.redact_json(&checked.arguments);
        let dangers = self.authority.dangers(checked.facts, &checked.arguments);
        let request = requests::approval(
            &effect,
            ApprovalRequest {
                tool: checked.facts.name.clone(),
                exact: self.authority.exact(checked.facts, &arguments),
                arguments,
                dangers: dangers
                    .into_iter()
                    .map(|danger| Danger {
                        command: redactor.redact(&danger.command).into_owned(),
                        ..danger
                    })
                    .collect(),
                preview,
                layer: checked.ruling.layer,
                rule: checked.ruling.rule.clone(),
                reason: authority::ruling_text(&checked.ruling),
                folder: self.spec.workspace.clone(),
                // A dangerous call is dangerous every time, and a rule that wants approval wants it
                // every time: neither can be granted for good.
                lasting: if checked.ruling.layer == Layer::Danger || checked.ruling.rule.is_some() {
                    Vec::new()
                } else {
                    self.authority.suggest(checked.facts, &checked.arguments)
                },
            },
            requests::expiry(
                self.engine.clock.now(),
                self.engine.settings().approvals.expiry,
            ),
        );
        ApprovalOutcome::Requested(self.suspended(&checked, request))
    }

    /// Runs a call concurrently with others.
    pub(crate) async fn run_concurrent(self, checked: CheckedCall<'a>) -> CallRecord {
        self.run(&checked).await
    }

    /// Recovers a call that a crash interrupted, or prepares its intent.
    pub(crate) async fn prepare_exclusive(self, checked: &CheckedCall<'a>) -> ExclusiveStep {
        if let CallStatus::Interrupted { fingerprint } | CallStatus::Intended { fingerprint } =
            checked.status
            && let Some(answered) = self.recover(checked, fingerprint).await
        {
            return ExclusiveStep::Recovered(answered);
        }
        let fingerprint = match checked.tool.recovery() {
            Recovery::Reconcilable(reconcile) => {
                let effect = EffectId::new(self.fence.run, &checked.call.id);
                let ports = self.tool_ports(checked);
                let context = self.context(checked.call, &effect, &ports);
                reconcile.fingerprint(&context, &checked.arguments).await
            }
            Recovery::Repeatable | Recovery::Once(_) => Value::Null,
        };
        ExclusiveStep::Run(CallRecord {
            event: Event::Intended {
                call: checked.call.id.clone(),
                fingerprint,
                ruling: Some(checked.ruling.clone()),
            },
            blobs: Vec::new(),
            audit: vec![self.audited(checked, AuditStage::Begun)],
            letters: Vec::new(),
        })
    }

    /// Runs a call and makes its entries.
    pub(crate) async fn run(self, checked: &CheckedCall<'a>) -> CallRecord {
        let effect = EffectId::new(self.fence.run, &checked.call.id);
        let ports = self.tool_ports(checked);
        let context = self.context(checked.call, &effect, &ports);
        let started = self.engine.clock.now();
        let reply = checked
            .tool
            .run(&context, Value::clone(&checked.arguments))
            .await;
        let elapsed_ms = self.engine.clock.now().ms_since(started);
        let record = self.finished(checked, reply, elapsed_ms);
        self.consult_after(checked, record).await
    }

    /// Returns the result of a call that a crash interrupted; `None` if it may run now.
    async fn recover(self, checked: &CheckedCall<'a>, fingerprint: &Value) -> Option<CallRecord> {
        let effect = EffectId::new(self.fence.run, &checked.call.id);
        let ports = self.tool_ports(checked);
        let context = self.context(checked.call, &effect, &ports);
        match checked.tool.recovery() {
            Recovery::Repeatable => None,
            Recovery::Once(None) => Some(self.unknown_outcome(checked)),
            Recovery::Once(Some(remains)) => {
                // Before the model continues: a process that is still running could change the
                // result it sees.
                let ended = remains.stop(&effect).await;
                tracing::info!(%effect, ended, "stopped processes that a call of a dead process left running");
                Some(self.unknown_outcome(checked))
            }
            Recovery::Reconcilable(reconcile) => {
                match reconcile
                    .reconcile(&context, &checked.arguments, fingerprint)
                    .await
                {
                    Reconciled::Happened(answer) => {
                        Some(self.finished(checked, Ok(answer.into()), 0))
                    }
                    Reconciled::NotYet => None,
                    Reconciled::Unknown => Some(self.unknown_outcome(checked)),
                }
            }
        }
    }

    /// Returns the rule by which an approver has allowed the call for the whole session.
    async fn find_grant(self, checked: &CheckedCall<'a>) -> Option<String> {
        let scope = self.spec.session.in_folder(&self.spec.workspace);
        let grants = match self
            .engine
            .store
            .grants(self.spec.tenant.as_ref(), &scope)
            .await
        {
            Ok(grants) => grants,
            Err(error) => {
                // Without the grants an approver decides once more, which does no harm.
                store_failed("read the grants of a session", &error);
                return None;
            }
        };
        if grants.is_empty() {
            return None;
        }
        let rules: Vec<String> = grants.into_iter().map(|grant| grant.rule).collect();
        let ruling = self
            .authority
            .with_grants(&rules)
            .rule(checked.facts, &checked.arguments);
        (ruling.decision == Decision::Allow && ruling.layer == Layer::Session)
            .then(|| ruling.rule.unwrap_or_default())
    }

    async fn preview(self, checked: &CheckedCall<'a>, effect: &EffectId) -> Option<String> {
        let ports = self.tool_ports(checked);
        let context = self.context(checked.call, effect, &ports);
        let preview = checked.tool.preview(&context, &checked.arguments).await?;
        let clean = self.engine.redactor.redact(&preview).into_owned();
        Some(truncate_middle(&clean, MAX_PREVIEW_CHARS, "\n…\n").text)
    }

    fn finished(self, checked: &CheckedCall<'a>, reply: ToolReply, elapsed_ms: u64) -> CallRecord {
        let (status, answer) = match reply {
            Ok(ToolOutcome::Waits(wait)) => {
                return CallRecord {
                    event: Event::Delegated {
                        call: checked.call.id.clone(),
                        wait,
                        ruling: Some(checked.ruling.clone()),
                    },
                    blobs: Vec::new(),
                    audit: vec![self.audited(checked, AuditStage::Waits)],
                    letters: Vec::new(),
                };
            }
            Ok(ToolOutcome::Asks { question, timeout }) => {
                return self.ask_question(checked, question, timeout);
            }
            Ok(ToolOutcome::Answer(answer)) => (ResultStatus::Ok, answer),
            Err(failure) => (ResultStatus::Error, ToolAnswer::text(failure.0)),
        };
        self.answered(checked, status, answer, elapsed_ms)
    }

    fn answered(
        self,
        checked: &CheckedCall<'a>,
        status: ResultStatus,
        answer: ToolAnswer,
        elapsed_ms: u64,
    ) -> CallRecord {
        let clean = self.engine.redactor.redact(&answer.text).into_owned();
        let (message, whole) = bound_result(self.spec.lang, clean);
        let mut blobs: Vec<Blob> = whole.into_iter().map(blob_of).collect();
        let full = blobs.first().map(|blob| blob.id.clone());
        let mut images = Vec::with_capacity(answer.images.len());
        for image in answer.images {
            let blob = blob_of(image.bytes);
            images.push(ImageRef {
                media_type: image.media_type,
                blob: blob.id.clone(),
            });
            blobs.push(blob);
        }
        let result = ToolResult {
            call: checked.call.id.clone(),
            provider_id: checked.call.provider_id.clone(),
            text: message,
            status,
            full,
            images,
        };
        let stage = audit::ended(&result, elapsed_ms, answer.sandbox.clone());
        CallRecord {
            letters: self.letters_of_result(checked.call, &result),
            audit: vec![self.audited(checked, stage)],
            event: Event::ToolFinished {
                result,
                elapsed_ms,
                spawned: answer.spawned,
                todos: answer.todos,
                ruling: Some(checked.ruling.clone()),
                sandbox: answer.sandbox,
            },
            blobs,
        }
    }

    /// Opens a question of the run; if no person can answer, returns its default at once.
    fn ask_question(
        self,
        checked: &CheckedCall<'a>,
        question: Question,
        timeout: Duration,
    ) -> CallRecord {
        let effect = EffectId::new(self.fence.run, &checked.call.id);
        let expires_at = requests::expiry(self.engine.clock.now(), timeout);
        let request = requests::question(&effect, self.spec, question, expires_at);
        if let RequestKind::Question(question) = &request.kind
            && question.to == Addressee::Person
            && !self.engine.settings().approvals.wait
        {
            let (status, message) = requests::unanswered(self.spec.lang, question);
            return self.refused(checked, status, &message);
        }
        self.suspended(checked, request)
    }

    fn suspended(self, checked: &CheckedCall<'a>, request: Request) -> CallRecord {
        CallRecord {
            event: Event::Asked {
                call: checked.call.id.clone(),
                request: Box::new(request),
            },
            blobs: Vec::new(),
            audit: vec![self.audited(checked, AuditStage::Waits)],
            letters: Vec::new(),
        }
    }

    fn unknown_outcome(self, checked: &CheckedCall<'a>) -> CallRecord {
        let message = text(
            self.spec.lang,
            "call-interrupted",
            &[("tool", checked.call.name.as_str().into())],
        );
        self.refused(checked, ResultStatus::Interrupted, &message)
    }

    fn denial_text(self, checked: &CheckedCall<'a>) -> String {
        let denied = text(
            self.spec.lang,
            "call-denied",
            &[
                ("tool", checked.call.name.as_str().into()),
                ("layer", authority::ruling_text(&checked.ruling).into()),
                ("known", self.spec.tools.join(", ").into()),
            ],
        );
        let prompt = self.spec.context.as_ref().and_then(|it| it.prompt.as_ref());
        let copied = prompt.is_some_and(|prompt| prompt.tools.contains(&checked.facts.name));
        if !copied || self.spec.tools.contains(&checked.facts.name) {
            return denied;
        }
        let tool = checked.call.name.as_str();
        format!(
            "{denied} {}",
            t!(self.spec.lang, "call-denied-context", tool = tool)
        )
    }

    /// Returns the result of a valid call that did not run.
    fn refused(self, checked: &CheckedCall<'a>, status: ResultStatus, message: &str) -> CallRecord {
        let message = truncate_middle(message, MAX_REFUSAL_CHARS, "…").text;
        self.answered(checked, status, ToolAnswer::text(message), 0)
    }

    /// Returns the result of a call whose tool or arguments cannot be read.
    fn invalid_call(self, call: &ToolCall, message: &str) -> CallRecord {
        let result = ToolResult::not_run(
            call,
            ResultStatus::Error,
            truncate_middle(message, MAX_REFUSAL_CHARS, "…").text,
        );
        let stage = audit::ended(&result, 0, None);
        CallRecord {
            letters: self.letters_of_result(call, &result),
            audit: vec![self.auditor().entry(call, &call.name, None, stage)],
            event: Event::ToolFinished {
                result,
                elapsed_ms: 0,
                spawned: None,
                todos: None,
                ruling: None,
                sandbox: None,
            },
            blobs: Vec::new(),
        }
    }

    fn audited(self, checked: &CheckedCall<'a>, stage: AuditStage) -> AuditEntry {
        self.auditor().entry(
            checked.call,
            &checked.facts.name,
            Some(&checked.ruling),
            stage,
        )
    }

    fn auditor(self) -> Auditor<'a> {
        Auditor {
            run: self.fence.run,
            spec: self.spec,
            redactor: &self.engine.redactor,
        }
    }

    /// Returns the folder that the run works in.
    fn workspace(self) -> &'a Path {
        self.worktree
            .map_or(&self.spec.workspace, |worktree| &worktree.workspace)
    }

    fn tool_ports<'b>(self, checked: &'b CheckedCall<'a>) -> ToolPorts<'b>
    where
        'a: 'b,
    {
        ToolPorts {
            spawner: RunSpawner {
                engine: self.engine,
                claim: ParentClaim {
                    fence: self.fence,
                    reached: self.head,
                },
                spec: self.spec,
                call: &checked.call.id,
                workspace: self.workspace(),
                not_after: self.not_after,
                fan_out: checked.fan_out(),
                conversation: Conversation {
                    run: self.fence.run,
                    spec: self.spec,
                    workspace: self.workspace(),
                    messages: self.messages,
                    model: self.model,
                },
            },
            blobs: RunBlobs {
                engine: self.engine,
                fence: self.fence,
                spec: self.spec,
            },
            permits: Arc::new(CallPermits {
                authority: Arc::clone(self.authority),
                tool: checked.facts.clone(),
                arguments: Arc::clone(&checked.arguments),
            }),
        }
    }

    fn context<'b>(
        self,
        call: &'b ToolCall,
        effect: &'b EffectId,
        ports: &'b ToolPorts<'b>,
    ) -> ToolContext<'b>
    where
        'a: 'b,
    {
        ToolContext {
            run: self.fence.run,
            call: &call.id,
            effect,
            workspace: self.workspace(),
            tenant: self.spec.tenant.as_ref(),
            lang: self.spec.lang,
            exec_timeout: Duration::from_millis(self.spec.limits.exec_timeout_ms),
            confinement: self.spec.confinement,
            // The sandbox enforces plan mode as it enforces a read-only agent.
            read_only: self.spec.policy.read_only || self.spec.policy.mode == Mode::Plan,
            worktree: self.worktree,
            skills: &self.spec.skills,
            permits: &ports.permits,
            spawner: &ports.spawner,
            blobs: &ports.blobs,
        }
    }
}

/// What a tool can use while it runs.
struct ToolPorts<'a> {
    spawner: RunSpawner<'a>,
    blobs: RunBlobs<'a>,
    permits: Arc<dyn Permits>,
}

impl<'a> CheckedCall<'a> {
    /// Returns whether it must run after the calls before it.
    pub(crate) fn runs_after_others(&self) -> bool {
        self.tool.spec().name == MANAGING_TOOL
    }

    /// Returns the progress of a fan-out that was started before.
    fn fan_out(&self) -> Option<&'a FanOut> {
        match self.status {
            CallStatus::FanningOut(fan_out) => Some(fan_out),
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::AwaitingReply(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => None,
        }
    }

    /// Returns whether it was started before, and so was approved then.
    const fn was_started(&self) -> bool {
        matches!(
            self.status,
            CallStatus::Intended { .. }
                | CallStatus::Interrupted { .. }
                | CallStatus::FanningOut(_)
        )
    }

    /// Returns whether it waits for an approval or may run.
    fn settled(self) -> Prepared<'a> {
        if self.ruling.decision == Decision::Ask
            && self.ruling.approved.is_none()
            && !self.was_started()
        {
            return Prepared::NeedsApproval(self);
        }
        Prepared::Run(self.classified())
    }

    /// Decides whether it may run concurrently.
    fn classified(self) -> Runnable<'a> {
        match (self.tool.recovery(), self.tool.touches()) {
            (
                Recovery::Repeatable,
                Touches::Nothing | Touches::Reads | Touches::Network | Touches::Runs,
            ) => Runnable::Concurrent(self),
            (Recovery::Repeatable, Touches::Files | Touches::Processes | Touches::Services)
            | (Recovery::Reconcilable(_) | Recovery::Once(_), _) => Runnable::Exclusive(self),
        }
    }
}

/// Returns the approver, if the reply approves.
fn approved_by(request: &Request, reply: &Reply) -> Option<ApprovedBy> {
    match (&request.kind, reply) {
        (RequestKind::Approval(_), Reply::Approved { by, .. }) => Some(ApprovedBy::Person {
            request: request.id.clone(),
            name: by.clone(),
        }),
        (
            RequestKind::Approval(_),
            Reply::Refused { .. } | Reply::Answered { .. } | Reply::Expired,
        )
        | (RequestKind::Question(_), _) => None,
    }
}

/// Reads the long outputs of one run.
struct RunBlobs<'a> {
    engine: &'a Engine,
    fence: Fence,
    spec: &'a RunSpec,
}

#[async_trait]
impl BlobReader for RunBlobs<'_> {
    async fn read_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        journal_load::blob(self.engine, self.fence.run, self.spec, id).await
    }
}

fn blob_of(bytes: Vec<u8>) -> Blob {
    Blob {
        id: BlobId::of(&bytes),
        bytes,
    }
}
