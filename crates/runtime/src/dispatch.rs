//! One tool call, from the model's words to the one result it gets.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sortie_agent::{CallStatus, OpenCall, bound_result};
use sortie_core::{
    Addressee, ApprovalRequest, ApprovedBy, Arguments, AuditEntry, AuditStage, Blob, BlobId,
    BlobReader, Danger, Decision, EffectId, Event, Fence, ImageRef, Layer, Mode, ParentClaim,
    Question, Reconciled, Recovery, Reply, Request, RequestKind, ResultStatus, Ruling, RunSpec,
    Seq, Timestamp, Tool, ToolAnswer, ToolCall, ToolContext, ToolOutcome, ToolReply, ToolResult,
    Touches, Worktree,
};
use sortie_policy::{AtUse, ToolFacts};
use sortie_text::{t, text, truncate_middle};

use crate::audit::{self, Auditor};
use crate::authority::{self, Authority};
use crate::inquiry;
use crate::past;
use crate::runtime::Shared;
use crate::spawner::RunSpawner;

/// How much a model reads about a call that did not run: it may quote what the model wrote.
const MAX_REFUSAL_CHARS: usize = 4_000;
/// How much of what would happen a person is shown.
const MAX_PREVIEW_CHARS: usize = 8_000;
/// The tool that looks at what the calls before it in the same answer did.
const MANAGING_TOOL: &str = "subagents";

/// Where calls of one run are dispatched.
#[derive(Clone, Copy)]
pub(crate) struct Dispatch<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) spec: &'a RunSpec,
    pub(crate) fence: Fence,
    pub(crate) authority: &'a Authority,
    pub(crate) worktree: Option<&'a Worktree>,
    /// When everything that the run starts has to be done.
    pub(crate) not_after: Option<Timestamp>,
    /// The end of the journal that asks for the calls.
    pub(crate) head: Seq,
}

/// What is to be done about a call, before anything has run.
pub(crate) enum Prepared<'a> {
    /// It already has its answer: it could not be understood, or was refused.
    Answered(Box<Finished>),
    /// Somebody has to say yes first.
    Asks(Ready<'a>),
    /// It may run beside others, any number of times.
    Free(Ready<'a>),
    /// It runs alone, after its intent is durable.
    Guarded(Ready<'a>),
}

/// A call that may run, or will once somebody has said yes.
pub(crate) struct Ready<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) tool: &'a dyn Tool,
    facts: &'a ToolFacts,
    arguments: Value,
    pub(crate) status: &'a CallStatus,
    ruling: Ruling,
}

/// What came of asking.
pub(crate) enum Asked<'a> {
    /// It has its answer: there is nobody to ask.
    Answered(Finished),
    /// The question is out; the run waits.
    Waits(Finished),
    /// It was allowed for the whole session before.
    Allowed(Prepared<'a>),
}

/// The facts that end or suspend a call.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) event: Event,
    pub(crate) blobs: Vec<Blob>,
    pub(crate) audit: Vec<AuditEntry>,
}

/// What recovery found out about a guarded call.
pub(crate) enum Settled {
    /// It has its answer.
    Answered(Finished),
    /// It has to run; this is what to write down first.
    Run(Finished),
}

impl<'a> Dispatch<'a> {
    /// Understands a call, asks policy, checks its arguments, and hears what persons said about it.
    pub(crate) fn prepare(self, open: &'a OpenCall) -> Prepared<'a> {
        let call = &open.call;
        let lang = self.spec.lang;
        let arguments = match &call.arguments {
            Arguments::Json(value) => value,
            Arguments::Malformed { raw: _, error } => {
                let words = text(lang, "call-malformed", &[("error", error.as_str().into())]);
                return Prepared::Answered(Box::new(self.not_understood(call, &words)));
            }
        };
        let Some(found) = self.shared.planner.toolbox.find(&call.name, arguments) else {
            let known = self.spec.tools.join(", ");
            let words = text(
                lang,
                "call-unknown-tool",
                &[("name", call.name.as_str().into()), ("known", known.into())],
            );
            return Prepared::Answered(Box::new(self.not_understood(call, &words)));
        };
        let mut ready = Ready {
            call,
            tool: found.tool.as_ref(),
            facts: found.facts,
            ruling: self.authority.rule(found.facts, &found.arguments),
            arguments: found.arguments,
            status: &open.status,
        };
        if ready.ruling.decision == Decision::Deny {
            let words = self.denied(&ready);
            return Prepared::Answered(Box::new(self.refused(
                &ready,
                ResultStatus::Denied,
                &words,
            )));
        }
        let problems = self
            .shared
            .planner
            .toolbox
            .problems(&ready.facts.name, &ready.arguments);
        if !problems.is_empty() {
            let words = text(
                lang,
                "call-bad-arguments",
                &[
                    ("tool", call.name.as_str().into()),
                    ("errors", problems.join("; ").into()),
                ],
            );
            return Prepared::Answered(Box::new(self.refused(&ready, ResultStatus::Error, &words)));
        }
        if let CallStatus::Replied { request, reply } = ready.status {
            match approved_by(request, reply) {
                Some(approved) => ready.ruling.approved = Some(approved),
                None => {
                    let (status, words) = inquiry::words(lang, &call.name, request, reply);
                    return Prepared::Answered(Box::new(self.refused(&ready, status, &words)));
                }
            }
        }
        if ready.ruling.decision == Decision::Ask
            && ready.ruling.approved.is_none()
            && !ready.had_begun()
        {
            return Prepared::Asks(ready);
        }
        ready.sorted()
    }

    /// Asks whoever may allow a call: what was allowed for the session before, then a person.
    pub(crate) async fn ask(self, mut ready: Ready<'a>) -> Asked<'a> {
        if let Some(rule) = self.allowed_before(&ready).await {
            ready.ruling.approved = Some(ApprovedBy::Grant { rule });
            return Asked::Allowed(ready.sorted());
        }
        if !self.shared.planner.settings.approvals.wait {
            ready.ruling.decision = Decision::Deny;
            let words = t!(
                self.spec.lang,
                "refused-no-person",
                tool = ready.call.name.as_str()
            );
            return Asked::Answered(self.refused(&ready, ResultStatus::Denied, &words));
        }
        let effect = EffectId::new(self.fence.run, &ready.call.id);
        let preview = self.preview(&ready, &effect).await;
        let redactor = &self.shared.redactor;
        let arguments = redactor.redact_json(&ready.arguments);
        let dangers = self.authority.dangers(ready.facts, &ready.arguments);
        let request = inquiry::approval(
            &effect,
            ApprovalRequest {
                tool: ready.facts.name.clone(),
                exact: self.authority.exact(ready.facts, &arguments),
                arguments,
                dangers: dangers
                    .into_iter()
                    .map(|danger| Danger {
                        command: redactor.redact(&danger.command).into_owned(),
                        ..danger
                    })
                    .collect(),
                preview,
                layer: ready.ruling.layer,
                rule: ready.ruling.rule.clone(),
                reason: authority::words(&ready.ruling),
                folder: self.spec.workspace.clone(),
                // What is dangerous once is dangerous every time, and what a rule wants to be asked
                // about is asked about every time.
                lasting: if ready.ruling.layer == Layer::Danger || ready.ruling.rule.is_some() {
                    Vec::new()
                } else {
                    self.authority.suggest(ready.facts, &ready.arguments)
                },
            },
            inquiry::expiry(
                self.shared.clock.now(),
                self.shared.planner.settings.approvals.expiry,
            ),
        );
        Asked::Waits(self.asked(&ready, request))
    }

    /// Runs a call that may run beside others.
    pub(crate) async fn run_free(self, ready: Ready<'a>) -> Finished {
        self.run(&ready).await
    }

    /// Finds out what a guarded call needs: recovery, or just its intent.
    pub(crate) async fn settle(self, ready: &Ready<'a>) -> Settled {
        if let CallStatus::Interrupted { fingerprint } | CallStatus::Intended { fingerprint } =
            ready.status
            && let Some(answered) = self.recover(ready, fingerprint).await
        {
            return Settled::Answered(answered);
        }
        let fingerprint = match ready.tool.recovery() {
            Recovery::Reconcilable(reconcile) => {
                let effect = EffectId::new(self.fence.run, &ready.call.id);
                let around = self.around(ready);
                let context = self.context(ready.call, &effect, &around);
                reconcile.fingerprint(&context, &ready.arguments).await
            }
            Recovery::Repeatable | Recovery::Once(_) => Value::Null,
        };
        Settled::Run(Finished {
            event: Event::Intended {
                call: ready.call.id.clone(),
                fingerprint,
                ruling: Some(ready.ruling.clone()),
            },
            blobs: Vec::new(),
            audit: vec![self.audited(ready, AuditStage::Begun)],
        })
    }

    /// Runs a call, and makes the fact of it.
    pub(crate) async fn run(self, ready: &Ready<'a>) -> Finished {
        let effect = EffectId::new(self.fence.run, &ready.call.id);
        let around = self.around(ready);
        let context = self.context(ready.call, &effect, &around);
        let started = self.shared.clock.now();
        let reply = ready.tool.run(&context, ready.arguments.clone()).await;
        let elapsed_ms = self.shared.clock.now().ms_since(started);
        self.finished(ready, reply, elapsed_ms)
    }

    /// What a crash left of a call; `None` if it may run now.
    async fn recover(self, ready: &Ready<'a>, fingerprint: &Value) -> Option<Finished> {
        let effect = EffectId::new(self.fence.run, &ready.call.id);
        let around = self.around(ready);
        let context = self.context(ready.call, &effect, &around);
        match ready.tool.recovery() {
            Recovery::Repeatable => None,
            Recovery::Once(None) => Some(self.unknown(ready)),
            Recovery::Once(Some(remains)) => {
                // Before the model looks: what still runs could do it behind its back.
                let ended = remains.stop(&effect).await;
                tracing::info!(%effect, ended, "ended what a call of a dead process had left running");
                Some(self.unknown(ready))
            }
            Recovery::Reconcilable(reconcile) => {
                match reconcile
                    .reconcile(&context, &ready.arguments, fingerprint)
                    .await
                {
                    Reconciled::Happened(answer) => {
                        Some(self.finished(ready, Ok(answer.into()), 0))
                    }
                    Reconciled::NotYet => None,
                    Reconciled::Unknown => Some(self.unknown(ready)),
                }
            }
        }
    }

    /// The rule by which a person has allowed a call for the whole session.
    async fn allowed_before(self, ready: &Ready<'a>) -> Option<String> {
        let scope = self.spec.session.in_folder(&self.spec.workspace);
        let grants = match self
            .shared
            .store
            .grants(self.spec.tenant.as_ref(), &scope)
            .await
        {
            Ok(grants) => grants,
            Err(error) => {
                // Without them a person is asked once more, which does no harm.
                self.shared.store_failed("reading grants", &error);
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
            .rule(ready.facts, &ready.arguments);
        (ruling.decision == Decision::Allow && ruling.layer == Layer::Session)
            .then(|| ruling.rule.unwrap_or_default())
    }

    async fn preview(self, ready: &Ready<'a>, effect: &EffectId) -> Option<String> {
        let around = self.around(ready);
        let context = self.context(ready.call, effect, &around);
        let preview = ready.tool.preview(&context, &ready.arguments).await?;
        let clean = self.shared.redactor.redact(&preview).into_owned();
        Some(truncate_middle(&clean, MAX_PREVIEW_CHARS, "\n…\n").text)
    }

    fn finished(self, ready: &Ready<'a>, reply: ToolReply, elapsed_ms: u64) -> Finished {
        let (status, answer) = match reply {
            Ok(ToolOutcome::Waits(wait)) => {
                return Finished {
                    event: Event::Delegated {
                        call: ready.call.id.clone(),
                        wait,
                        ruling: Some(ready.ruling.clone()),
                    },
                    blobs: Vec::new(),
                    audit: vec![self.audited(ready, AuditStage::Waits)],
                };
            }
            Ok(ToolOutcome::Asks { question, timeout }) => {
                return self.inquires(ready, question, timeout);
            }
            Ok(ToolOutcome::Answer(answer)) => (ResultStatus::Ok, answer),
            Err(failure) => (ResultStatus::Error, ToolAnswer::text(failure.0)),
        };
        self.answered(ready, status, answer, elapsed_ms)
    }

    fn answered(
        self,
        ready: &Ready<'a>,
        status: ResultStatus,
        answer: ToolAnswer,
        elapsed_ms: u64,
    ) -> Finished {
        let clean = self.shared.redactor.redact(&answer.text).into_owned();
        let (words, whole) = bound_result(self.spec.lang, clean);
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
            call: ready.call.id.clone(),
            provider_id: ready.call.provider_id.clone(),
            text: words,
            status,
            full,
            images,
        };
        let stage = audit::ended(&result, elapsed_ms, answer.sandbox.clone());
        Finished {
            audit: vec![self.audited(ready, stage)],
            event: Event::ToolFinished {
                result,
                elapsed_ms,
                spawned: answer.spawned,
                todos: answer.todos,
                ruling: Some(ready.ruling.clone()),
                sandbox: answer.sandbox,
            },
            blobs,
        }
    }

    /// A question of the run's own; where nobody can answer, it has its answer at once.
    fn inquires(self, ready: &Ready<'a>, question: Question, timeout: Duration) -> Finished {
        let effect = EffectId::new(self.fence.run, &ready.call.id);
        let expires_at = inquiry::expiry(self.shared.clock.now(), timeout);
        let request = inquiry::question(&effect, self.spec, question, expires_at);
        if let RequestKind::Question(question) = &request.kind
            && question.to == Addressee::Person
            && !self.shared.planner.settings.approvals.wait
        {
            let (status, words) = inquiry::unanswered(self.spec.lang, question);
            return self.refused(ready, status, &words);
        }
        self.asked(ready, request)
    }

    fn asked(self, ready: &Ready<'a>, request: Request) -> Finished {
        Finished {
            event: Event::Asked {
                call: ready.call.id.clone(),
                request: Box::new(request),
            },
            blobs: Vec::new(),
            audit: vec![self.audited(ready, AuditStage::Waits)],
        }
    }

    fn unknown(self, ready: &Ready<'a>) -> Finished {
        let words = text(
            self.spec.lang,
            "call-interrupted",
            &[("tool", ready.call.name.as_str().into())],
        );
        self.refused(ready, ResultStatus::Interrupted, &words)
    }

    fn denied(self, ready: &Ready<'a>) -> String {
        text(
            self.spec.lang,
            "call-denied",
            &[
                ("tool", ready.call.name.as_str().into()),
                ("layer", authority::words(&ready.ruling).into()),
                ("known", self.spec.tools.join(", ").into()),
            ],
        )
    }

    /// The answer to a call that nothing ran for, though it was understood.
    fn refused(self, ready: &Ready<'a>, status: ResultStatus, words: &str) -> Finished {
        let words = truncate_middle(words, MAX_REFUSAL_CHARS, "…").text;
        self.answered(ready, status, ToolAnswer::text(words), 0)
    }

    /// The answer to a call that nobody could make sense of.
    fn not_understood(self, call: &ToolCall, words: &str) -> Finished {
        let result = ToolResult::not_run(
            call,
            ResultStatus::Error,
            truncate_middle(words, MAX_REFUSAL_CHARS, "…").text,
        );
        let stage = audit::ended(&result, 0, None);
        Finished {
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

    fn audited(self, ready: &Ready<'a>, stage: AuditStage) -> AuditEntry {
        self.auditor()
            .entry(ready.call, &ready.facts.name, Some(&ready.ruling), stage)
    }

    fn auditor(self) -> Auditor<'a> {
        Auditor {
            run: self.fence.run,
            spec: self.spec,
            redactor: &self.shared.redactor,
        }
    }

    /// The folder that the run works in.
    fn workspace(self) -> &'a Path {
        self.worktree
            .map_or(&self.spec.workspace, |worktree| &worktree.workspace)
    }

    fn around<'b>(self, ready: &'b Ready<'a>) -> Around<'b>
    where
        'a: 'b,
    {
        Around {
            spawner: RunSpawner {
                shared: self.shared,
                claim: ParentClaim {
                    fence: self.fence,
                    reached: self.head,
                },
                spec: self.spec,
                call: &ready.call.id,
                workspace: self.workspace(),
                not_after: self.not_after,
            },
            blobs: RunBlobs {
                shared: self.shared,
                fence: self.fence,
                spec: self.spec,
            },
            permits: self.authority.at_use(ready.facts, &ready.arguments),
        }
    }

    fn context<'b>(
        self,
        call: &'b ToolCall,
        effect: &'b EffectId,
        around: &'b Around<'b>,
    ) -> ToolContext<'b>
    where
        'a: 'b,
    {
        ToolContext {
            run: self.fence.run,
            call: &call.id,
            effect,
            workspace: self.workspace(),
            lang: self.spec.lang,
            exec_timeout: Duration::from_millis(self.spec.limits.exec_timeout_ms),
            confinement: self.spec.confinement,
            // Who only plans is held to it by the same sandbox as who only looks.
            read_only: self.spec.policy.read_only || self.spec.policy.mode == Mode::Plan,
            worktree: self.worktree,
            skills: &self.spec.skills,
            permits: &around.permits,
            spawner: &around.spawner,
            blobs: &around.blobs,
        }
    }
}

/// What a tool may use while it runs.
struct Around<'a> {
    spawner: RunSpawner<'a>,
    blobs: RunBlobs<'a>,
    permits: AtUse<'a>,
}

impl<'a> Ready<'a> {
    /// Whether it must not run before the calls in front of it are done.
    pub(crate) fn follows_the_others(&self) -> bool {
        self.tool.spec().name == MANAGING_TOOL
    }

    /// Whether it was allowed to run before, by whoever was asked then.
    const fn had_begun(&self) -> bool {
        match self.status {
            CallStatus::Intended { .. } | CallStatus::Interrupted { .. } => true,
            CallStatus::Requested
            | CallStatus::Asking(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => false,
        }
    }

    /// Whether it may run beside others, or has to run alone.
    fn sorted(self) -> Prepared<'a> {
        match (self.tool.recovery(), self.tool.touches()) {
            (
                Recovery::Repeatable,
                Touches::Nothing | Touches::Reads | Touches::Network | Touches::Runs,
            ) => Prepared::Free(self),
            (Recovery::Repeatable, Touches::Files | Touches::Processes | Touches::Services)
            | (Recovery::Reconcilable(_) | Recovery::Once(_), _) => Prepared::Guarded(self),
        }
    }
}

/// Who approved, if the reply is a yes.
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
    shared: &'a Shared,
    fence: Fence,
    spec: &'a RunSpec,
}

#[async_trait]
impl BlobReader for RunBlobs<'_> {
    async fn read_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        past::blob(self.shared, self.fence.run, self.spec, id).await
    }
}

fn blob_of(bytes: Vec<u8>) -> Blob {
    Blob {
        id: BlobId::of(&bytes),
        bytes,
    }
}
