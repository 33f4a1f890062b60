//! The model calls of a run, and what is written of them.

use std::sync::Arc;
use std::time::Duration;

use sortie_agent::{Compaction, ModelCall, Step};
use sortie_core::budget::Amount;
use sortie_core::event::Event;
use sortie_core::id::CallId;
use sortie_core::message::{Arguments, Block, MAX_JSON_DEPTH, ToolCall, is_too_deep};
use sortie_core::notification::NotificationKind;
use sortie_core::ports::model::{
    AnswerPart, Fault, ModelAnswer, ModelError, ModelRequest, PromptOrigin, TurnOptions,
};
use sortie_core::ports::store::Blob;
use sortie_text::first_chars;

use super::charge::Reservation;
use super::{Executor, Raced};
use crate::budget;
use crate::crash::{self, Point};
use crate::hooks;
use crate::journal_writer::{JournalWriteError, NewEntries};
use crate::model_call::{CallOutcome, ModelCaller};
use crate::planner::{cache_key_of, forked_prompt};

/// Characters that are kept of arguments that the journal cannot store.
const MAX_RAW_CHARS: usize = 2_000;
impl Executor {
    pub(super) async fn call_model(&mut self, call: ModelCall) -> Result<(), JournalWriteError> {
        let (turn, model, delay_ms) = (call.turn, call.model.clone(), call.delay_ms);
        let mut request = self.request(call).await?;
        let reserved = match self.reserve(&mut request).await? {
            Reservation::Retry => return Ok(()),
            reservation @ (Reservation::Unlimited | Reservation::Reserved(_)) => {
                reservation.amount()
            }
        };
        let caller = ModelCaller {
            engine: Arc::clone(&self.engine),
            fence: self.fence,
            spec: Arc::clone(&self.spec),
            head: self.journal.state().head(),
        };
        // An interrupted model call loses nothing: it is repeated.
        let called = self
            .interruptions(Duration::ZERO)
            .race(caller.call(request, delay_ms, self.signals.clone()))
            .await;
        crash::point(Point::AfterModelAnswer);
        self.journal.flush().await?;
        match called {
            Raced::Interrupted => Ok(()),
            Raced::Done(CallOutcome::Completed(Ok(answer))) => {
                self.record_completion(turn, answer, reserved).await
            }
            Raced::Done(CallOutcome::Completed(Err(error))) => {
                self.record_model_failure(model, error, reserved).await
            }
            Raced::Done(CallOutcome::NotSent) if reserved.is_none() => Ok(()),
            Raced::Done(CallOutcome::NotSent) => {
                let free_again = NewEntries {
                    spent: Some(Amount::default()),
                    ..NewEntries::default()
                };
                self.journal.write(free_again).await
            }
        }
    }

    async fn record_completion(
        &mut self,
        turn: u32,
        answer: ModelAnswer,
        reserved: Option<Amount>,
    ) -> Result<(), JournalWriteError> {
        let spent = reserved.map(|reserved| budget::charged(&answer.usage, reserved));
        let event = answered(turn, answer);
        let letters = if let Event::Answered { blocks, .. } = &event {
            let worktree = self.journal.state().worktree();
            let folder = worktree.map_or(&self.spec.workspace, |worktree| &worktree.workspace);
            let about = (self.fence.run, &*self.spec, &**folder);
            hooks::letters_of_requests(&self.engine, about, blocks)
        } else {
            Vec::new()
        };
        self.journal
            .write(NewEntries {
                spent,
                letters,
                ..event.into()
            })
            .await?;
        if self.journal.state().awaits_children() {
            let text = self.journal.state().last_text().unwrap_or_default();
            self.notify(NotificationKind::Said { text });
        }
        Ok(())
    }

    pub(super) async fn record_model_failure(
        &mut self,
        model: String,
        error: ModelError,
        reserved: Option<Amount>,
    ) -> Result<(), JournalWriteError> {
        let event = Event::ModelFailed {
            model,
            fault: error.fault,
            message: error.message.clone(),
            shown: error.shown,
        };
        // Only an explicit refusal by the provider is certain to cost nothing.
        let spent = reserved.map(|reserved| match error.fault {
            Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::BadRequest
                if !error.shown =>
            {
                Amount::default()
            }
            Fault::TextCall { usage } => budget::charged(&usage, reserved),
            Fault::Transient
            | Fault::RateLimited { .. }
            | Fault::Auth
            | Fault::ContextOverflow
            | Fault::ContentFilter
            | Fault::BadRequest
            | Fault::Cancelled => reserved,
        });
        self.journal
            .write(NewEntries {
                spent,
                ..event.into()
            })
            .await?;
        // Subscribers learn of every retry.
        if let Step::CallModel(next) = self
            .journal
            .state()
            .next_step(self.engine.clock.now(), None)
        {
            self.notify(NotificationKind::Retrying {
                error: error.message,
                model: next.model,
                delay_ms: next.delay_ms,
                shown: error.shown,
            });
        }
        Ok(())
    }

    pub(super) async fn compact(
        &mut self,
        compaction: Compaction,
    ) -> Result<(), JournalWriteError> {
        let Compaction { event, blobs } = compaction;
        if let Event::Compacted {
            chars_before,
            chars_after,
            ..
        } = &event
        {
            self.notify(NotificationKind::Compacted {
                chars_before: *chars_before,
                chars_after: *chars_after,
            });
        }
        let blobs = blobs.into_iter().map(Blob::from).collect();
        self.journal
            .write(NewEntries {
                blobs,
                ..event.into()
            })
            .await
    }

    async fn request(&mut self, call: ModelCall) -> Result<ModelRequest, JournalWriteError> {
        if self.images.lacks(&call.messages) {
            // The store may not have written yet the picture that a tool has just returned.
            self.journal.flush().await?;
        }
        let images = self
            .images
            .of(&self.engine, self.fence.run, &self.spec, &call.messages)
            .await;
        Ok(ModelRequest {
            origin: PromptOrigin {
                run: self.fence.run,
                root: self.spec.root,
                cache_key: cache_key_of(&self.spec),
                agent: self.spec.agent.name.clone(),
                label: self.spec.label.clone(),
                task: self.spec.task.clone(),
                depth: self.spec.depth,
                turn: call.turn,
            },
            model: call.model,
            system: Arc::clone(&self.system),
            tools: if call.with_tools {
                Arc::clone(&self.tools)
            } else {
                Arc::default()
            },
            messages: call.messages,
            images,
            options: TurnOptions {
                thinking: self.spec.thinking.clone(),
                sampling: self.spec.sampling,
                // A schema would change the beginning of a prompt that is shared with another run.
                schema: match forked_prompt(&self.spec) {
                    Some(_) => None,
                    None => self.spec.result_schema.clone(),
                },
                has_fallback: call.has_fallback,
                after_text_call: call.after_text_call,
            },
        })
    }
}

/// Makes the event of a completion, with Sortie's own id for each call. Leaves out what the journal
/// could not read back: a vendor's item, or arguments, which become an error for the model.
fn answered(turn: u32, answer: ModelAnswer) -> Event {
    let blocks = answer
        .parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| match part {
            AnswerPart::Text(text) => Block::Text { text },
            AnswerPart::Reasoning { text, native } => Block::Reasoning {
                text,
                native: native.filter(|native| !is_too_deep(native)),
            },
            AnswerPart::Call {
                provider_id,
                name,
                arguments,
            } => Block::Call(ToolCall {
                id: CallId::new(turn, index),
                provider_id,
                name,
                arguments: readable(arguments),
            }),
        })
        .collect();
    Event::Answered {
        turn,
        blocks,
        stop: answer.stop,
        usage: answer.usage,
        model: answer.model,
        held_ms: answer.held_ms,
    }
}

fn readable(arguments: Arguments) -> Arguments {
    match arguments {
        Arguments::Json(value) if is_too_deep(&value) => Arguments::Malformed {
            raw: first_chars(&value.to_string(), MAX_RAW_CHARS).to_owned(),
            error: format!("the arguments are nested deeper than {MAX_JSON_DEPTH} levels"),
        },
        arguments @ (Arguments::Json(_) | Arguments::Malformed { .. }) => arguments,
    }
}
