//! One tool call, from the model's words to the one result it gets.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sortie_agent::{CallStatus, OpenCall, bound_result};
use sortie_core::{
    Approval, Arguments, Ask, Blob, BlobId, BlobReader, EffectId, Event, Fence, ImageRef,
    Reconciled, Recovery, ResultStatus, RunSpec, Tool, ToolAnswer, ToolCall, ToolContext,
    ToolOutcome, ToolReply, ToolResult, Touches,
};
use sortie_policy::{CallQuestion, Decision, DefaultDeny, decide_call};
use sortie_text::{cut_middle, text};

use crate::past;
use crate::runtime::Shared;
use crate::spawner::RunSpawner;

/// How much a model reads about a call that did not run: it may quote what the model wrote.
const MAX_REFUSAL_CHARS: usize = 4_000;
/// The tool that looks at what the calls before it in the same answer did.
const MANAGING_TOOL: &str = "subagents";

/// Where calls of one run are dispatched.
#[derive(Clone, Copy)]
pub(crate) struct Dispatch<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) spec: &'a RunSpec,
    pub(crate) fence: Fence,
}

/// What is to be done about a call, before anything has run.
pub(crate) enum Prepared<'a> {
    /// It already has its answer: it could not be understood, or was refused.
    Answered(Finished),
    /// It may run beside others, any number of times.
    Free(Ready<'a>),
    /// It runs alone, after its intent is durable.
    Guarded(Ready<'a>),
}

/// A call that may run.
pub(crate) struct Ready<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) tool: &'a dyn Tool,
    pub(crate) arguments: Value,
    status: &'a CallStatus,
    needs_approval: bool,
}

/// The facts that end or suspend a call.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) event: Event,
    pub(crate) blobs: Vec<Blob>,
}

/// What recovery found out about a guarded call.
pub(crate) enum Settled {
    /// It has its answer.
    Answered(Finished),
    /// It has to run; this is what to remember first.
    Run {
        /// The intent to journal.
        intent: Event,
    },
}

impl<'a> Dispatch<'a> {
    /// Understands a call, checks its arguments, and asks policy.
    pub(crate) fn prepare(self, open: &'a OpenCall) -> Prepared<'a> {
        let call = &open.call;
        let lang = self.spec.lang;
        let arguments = match &call.arguments {
            Arguments::Json(value) => value,
            Arguments::Malformed { raw: _, error } => {
                let words = text(lang, "call-malformed", &[("error", error.as_str().into())]);
                return not_run(call, ResultStatus::Error, &words);
            }
        };
        let Some(found) = self.shared.toolbox.find(&call.name, arguments) else {
            let known = self.spec.tools.join(", ");
            let words = text(
                lang,
                "call-unknown-tool",
                &[("name", call.name.as_str().into()), ("known", known.into())],
            );
            return not_run(call, ResultStatus::Error, &words);
        };
        let decision = decide_call(&CallQuestion {
            tool: found.facts,
            granted: &self.spec.tools,
            default_deny: self.default_deny(),
            read_only: self.spec.agent.read_only,
            approved: self.spec.approved,
        });
        if let Decision::Deny(layer) = decision {
            let words = text(
                lang,
                "call-denied",
                &[
                    ("tool", call.name.as_str().into()),
                    ("layer", layer.as_str().into()),
                    ("known", self.spec.tools.join(", ").into()),
                ],
            );
            return not_run(call, ResultStatus::Denied, &words);
        }
        let problems = self
            .shared
            .toolbox
            .problems(&found.facts.name, &found.arguments);
        if !problems.is_empty() {
            let words = text(
                lang,
                "call-bad-arguments",
                &[
                    ("tool", call.name.as_str().into()),
                    ("errors", problems.join("; ").into()),
                ],
            );
            return not_run(call, ResultStatus::Error, &words);
        }
        let ready = Ready {
            call,
            tool: found.tool.as_ref(),
            arguments: found.arguments,
            status: &open.status,
            needs_approval: decision == Decision::Ask,
        };
        match (ready.tool.recovery(), ready.tool.touches()) {
            (Recovery::Repeatable, Touches::Nothing | Touches::Runs) => Prepared::Free(ready),
            (Recovery::Repeatable, Touches::Files | Touches::Processes)
            | (Recovery::Reconcilable(_) | Recovery::Once(_), _) => Prepared::Guarded(ready),
        }
    }

    /// Runs a call that may run beside others.
    pub(crate) async fn run_free(self, ready: Ready<'a>) -> Finished {
        self.run(&ready).await
    }

    /// Finds out what a guarded call needs: approval, recovery, or just its intent.
    pub(crate) async fn settle(self, ready: &Ready<'a>) -> Settled {
        if let CallStatus::Interrupted { fingerprint } | CallStatus::Intended { fingerprint } =
            ready.status
            && let Some(answered) = self.recover(ready, fingerprint).await
        {
            return Settled::Answered(answered);
        }
        if ready.needs_approval
            && let Some(refused) = self.ask(ready).await
        {
            return Settled::Answered(refused);
        }
        let fingerprint = match ready.tool.recovery() {
            Recovery::Reconcilable(reconcile) => {
                let effect = EffectId::new(self.fence.run, &ready.call.id);
                let spawner = self.spawner(ready.call);
                let blobs = self.blobs();
                let context = self.context(ready.call, &effect, &spawner, &blobs);
                reconcile.fingerprint(&context, &ready.arguments).await
            }
            Recovery::Repeatable | Recovery::Once(_) => Value::Null,
        };
        Settled::Run {
            intent: Event::Intended {
                call: ready.call.id.clone(),
                fingerprint,
            },
        }
    }

    /// Runs a call, and makes the fact of it.
    pub(crate) async fn run(self, ready: &Ready<'a>) -> Finished {
        let effect = EffectId::new(self.fence.run, &ready.call.id);
        let spawner = self.spawner(ready.call);
        let blobs = self.blobs();
        let context = self.context(ready.call, &effect, &spawner, &blobs);
        let started = self.shared.clock.now();
        let reply = ready.tool.run(&context, ready.arguments.clone()).await;
        let elapsed_ms = self.shared.clock.now().ms_since(started);
        self.finished(ready.call, reply, elapsed_ms)
    }

    /// What a crash left of a call; `None` if it may run now.
    async fn recover(self, ready: &Ready<'a>, fingerprint: &Value) -> Option<Finished> {
        match ready.tool.recovery() {
            Recovery::Repeatable => None,
            Recovery::Once(None) => Some(self.unknown(ready.call)),
            Recovery::Once(Some(remains)) => {
                let effect = EffectId::new(self.fence.run, &ready.call.id);
                let spawner = self.spawner(ready.call);
                let blobs = self.blobs();
                let context = self.context(ready.call, &effect, &spawner, &blobs);
                // Before the model looks: what still runs could do it behind its back.
                let ended = remains.stop(&context).await;
                tracing::info!(%effect, ended, "ended what a call of a dead process had left running");
                Some(self.unknown(ready.call))
            }
            Recovery::Reconcilable(reconcile) => {
                let effect = EffectId::new(self.fence.run, &ready.call.id);
                let spawner = self.spawner(ready.call);
                let blobs = self.blobs();
                let context = self.context(ready.call, &effect, &spawner, &blobs);
                match reconcile
                    .reconcile(&context, &ready.arguments, fingerprint)
                    .await
                {
                    Reconciled::Happened(answer) => {
                        Some(self.finished(ready.call, Ok(answer.into()), 0))
                    }
                    Reconciled::NotYet => None,
                    Reconciled::Unknown => Some(self.unknown(ready.call)),
                }
            }
        }
    }

    async fn ask(self, ready: &Ready<'a>) -> Option<Finished> {
        let approval = self
            .shared
            .approver
            .approve(&Ask {
                run: self.fence.run,
                agent: self.spec.agent.name.clone(),
                label: self.spec.label.clone(),
                tool: ready.call.name.clone(),
                arguments: ready.arguments.clone(),
            })
            .await;
        match approval {
            Approval::Granted => None,
            Approval::Refused(words) => {
                Some(Finished::not_run(ready.call, ResultStatus::Denied, &words))
            }
        }
    }

    fn finished(self, call: &ToolCall, reply: ToolReply, elapsed_ms: u64) -> Finished {
        let (status, answer) = match reply {
            Ok(ToolOutcome::Waits(wait)) => {
                return Finished {
                    event: Event::Delegated {
                        call: call.id.clone(),
                        wait,
                    },
                    blobs: Vec::new(),
                };
            }
            Ok(ToolOutcome::Answer(answer)) => (ResultStatus::Ok, answer),
            Err(failure) => (ResultStatus::Error, ToolAnswer::text(failure.0)),
        };
        let (words, whole) = bound_result(self.spec.lang, answer.text);
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
        Finished {
            event: Event::ToolFinished {
                result: ToolResult {
                    call: call.id.clone(),
                    provider_id: call.provider_id.clone(),
                    text: words,
                    status,
                    full,
                    images,
                },
                elapsed_ms,
                spawned: answer.spawned,
                todos: answer.todos,
            },
            blobs,
        }
    }

    fn unknown(self, call: &ToolCall) -> Finished {
        let words = text(
            self.spec.lang,
            "call-interrupted",
            &[("tool", call.name.as_str().into())],
        );
        Finished::not_run(call, ResultStatus::Interrupted, &words)
    }

    fn default_deny(self) -> DefaultDeny {
        match self.spec.lane {
            sortie_core::Lane::Main => DefaultDeny::Root,
            sortie_core::Lane::Subagent if self.spec.depth == 0 => DefaultDeny::Leaf,
            sortie_core::Lane::Subagent => {
                DefaultDeny::at(self.spec.depth, self.spec.caps.max_depth)
            }
        }
    }

    const fn spawner(self, call: &'a ToolCall) -> RunSpawner<'a> {
        RunSpawner {
            shared: self.shared,
            fence: self.fence,
            spec: self.spec,
            call: &call.id,
        }
    }

    const fn blobs(self) -> RunBlobs<'a> {
        RunBlobs {
            shared: self.shared,
            fence: self.fence,
            spec: self.spec,
        }
    }

    fn context<'b>(
        self,
        call: &'b ToolCall,
        effect: &'b EffectId,
        spawner: &'b RunSpawner<'a>,
        blobs: &'b RunBlobs<'a>,
    ) -> ToolContext<'b>
    where
        'a: 'b,
    {
        ToolContext {
            run: self.fence.run,
            call: &call.id,
            effect,
            workspace: &self.spec.workspace,
            lang: self.spec.lang,
            exec_timeout: Duration::from_millis(self.spec.limits.exec_timeout_ms),
            spawner,
            blobs,
        }
    }
}

impl Ready<'_> {
    /// Whether it must not run before the calls in front of it are done.
    pub(crate) fn follows_the_others(&self) -> bool {
        self.tool.spec().name == MANAGING_TOOL
    }
}

impl Finished {
    fn not_run(call: &ToolCall, status: ResultStatus, words: &str) -> Self {
        Self {
            event: Event::ToolFinished {
                result: ToolResult::not_run(
                    call,
                    status,
                    cut_middle(words, MAX_REFUSAL_CHARS, "…").text,
                ),
                elapsed_ms: 0,
                spawned: None,
                todos: None,
            },
            blobs: Vec::new(),
        }
    }
}

fn not_run<'a>(call: &ToolCall, status: ResultStatus, words: &str) -> Prepared<'a> {
    Prepared::Answered(Finished::not_run(call, status, words))
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
