//! Sessions: conversations whose turns are runs.

use sortie_core::id::RunId;
use sortie_core::inbox::{InboxItem, Sender};
use sortie_core::ports::store::StoreError;
use sortie_core::run::{Lane, RunRecord, RunSpec};
use sortie_core::session::{SessionFilter, SessionSummary};

use super::tasks::check_message;
use super::{Runtime, RuntimeError};
use crate::new_run::NewRun;

/// Where a message was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageReceipt {
    /// The run that reads the message.
    pub run: RunId,
    /// Whether that run was active already.
    pub steered: bool,
}

impl Runtime {
    /// Lists conversations, the one with the latest turn first.
    pub async fn sessions(
        &self,
        filter: SessionFilter,
    ) -> Result<Vec<SessionSummary>, RuntimeError> {
        Ok(self.engine.store.sessions(filter).await?)
    }

    /// Sends a message to a conversation, as a person: to its last turn while that is active, else
    /// in a new turn that continues from it. `new.task` is the message.
    pub async fn send_message(&self, new: NewRun) -> Result<MessageReceipt, RuntimeError> {
        self.send_message_if(None, new, |_| Ok(())).await
    }

    /// The same, if the caller may continue the last turn: `may_continue` checks the spec of that turn
    /// while no other caller can start one.
    ///
    /// `turn` is the id of a new turn, if it was chosen before. Repeating the call with it creates
    /// one turn.
    pub async fn send_message_if<E: From<RuntimeError> + Send>(
        &self,
        turn: Option<RunId>,
        new: NewRun,
        may_continue: impl FnOnce(&RunSpec) -> Result<(), E> + Send,
    ) -> Result<MessageReceipt, E> {
        check_message(&new.task)?;
        let (session, tenant) = (new.session.clone(), new.tenant.clone());
        let locks = &self.engine.session_locks;
        let one_at_a_time = locks.lock(tenant.clone(), session.clone()).await;
        if let Some(turn) = turn
            && self.exists(turn).await?
        {
            return Ok(MessageReceipt {
                run: turn,
                steered: false,
            });
        }
        let last = self.engine.store.last_turn(session, tenant, None).await;
        let last = last.map_err(RuntimeError::from)?;
        if let Some(last) = last.as_ref().filter(|last| can_continue(last)) {
            may_continue(&self.spec(last.run_id).await?)?;
        }
        let turn = turn.unwrap_or_else(|| self.new_run_id());
        let receipt = self.send_now(turn, new, last).await?;
        drop(one_at_a_time);
        Ok(receipt)
    }

    async fn exists(&self, run: RunId) -> Result<bool, RuntimeError> {
        match self.get(run).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::Store(StoreError::NotFound(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send_now(
        &self,
        turn: RunId,
        new: NewRun,
        last: Option<RunRecord>,
    ) -> Result<MessageReceipt, RuntimeError> {
        if let Some(last) = last.as_ref().filter(|last| !last.status.is_terminal()) {
            let item = InboxItem::Steer {
                from: Sender::Person,
                text: new.task.clone(),
            };
            match self.engine.steer(last.run_id, item).await {
                Ok(()) => {
                    return Ok(MessageReceipt {
                        run: last.run_id,
                        steered: true,
                    });
                }
                // The turn has just ended, so this message starts the next one.
                Err(StoreError::WrongState { status, .. }) if status.is_terminal() => {}
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let continues = last.filter(can_continue).map(|last| last.run_id);
        let next = NewRun {
            continues,
            lane: Lane::Main,
            ..new
        };
        let run = self.create_as(turn, next).await?;
        Ok(MessageReceipt {
            run,
            steered: false,
        })
    }
}

/// Returns whether the history of a turn still exists.
fn can_continue(last: &RunRecord) -> bool {
    last.cleaned_at.is_none()
}
