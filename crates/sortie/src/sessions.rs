//! Sessions: conversations that several tasks belong to.

use sortie_core::id::SessionKey;
use sortie_core::request::SessionGrant;
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_runtime::{MessageReceipt, NewRun};

use crate::error::Error;
use crate::tasks::Tasks;

/// The sessions of a [`Sortie`](crate::Sortie). A session is one conversation, keyed
/// `channel:chat_id`.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a> {
    tasks: Tasks<'a>,
}

impl<'a> Sessions<'a> {
    pub(crate) const fn new(tasks: Tasks<'a>) -> Self {
        Self { tasks }
    }

    /// Returns sessions, the one with the latest turn first.
    pub async fn list(&self, filter: SessionFilter) -> Result<Vec<SessionSummary>, Error> {
        Ok(self.tasks.runtime.sessions(filter).await?)
    }

    /// Sends a message to a session. It steers the current turn while that runs, and otherwise begins
    /// a turn that continues from the last one.
    pub async fn send(
        &self,
        session: SessionKey,
        message: impl Into<String>,
    ) -> Result<MessageReceipt, Error> {
        let request = NewRun {
            session,
            ..self.tasks.request(message)
        };
        self.send_request(request).await
    }

    /// Does the same with a whole request, whose `session` and `task` are the session and the message.
    pub async fn send_request(&self, request: NewRun) -> Result<MessageReceipt, Error> {
        self.tasks.check(&request)?;
        Ok(self.tasks.runtime.send_message(request).await?)
    }

    /// Returns the grants of a session in a folder: what an approver allowed for all its later calls.
    pub async fn grants(
        &self,
        session: &SessionKey,
        folder: &std::path::Path,
    ) -> Result<Vec<SessionGrant>, Error> {
        let session = session.in_folder(folder);
        Ok(self.tasks.runtime.grants(None, &session).await?)
    }

    /// Revokes a grant of a session in a folder, or all of them; returns how many.
    pub async fn revoke(
        &self,
        session: &SessionKey,
        folder: &std::path::Path,
        rule: Option<&str>,
    ) -> Result<u64, Error> {
        let session = session.in_folder(folder);
        Ok(self.tasks.runtime.revoke(None, &session, rule).await?)
    }
}
