//! Requests from outside that take effect once, by their idempotency key.

use sortie_core::{Begun, RunId};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Notes that a request begins which is to take effect once; tells what is known of its key.
    pub async fn begin_once(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
    ) -> Result<Begun, RuntimeError> {
        Ok(self
            .engine
            .store
            .begin(key, fingerprint, run, self.now())
            .await?)
    }

    /// Notes how such a request was answered.
    pub async fn complete_once(
        &self,
        key: &str,
        status: u16,
        body: Vec<u8>,
    ) -> Result<(), RuntimeError> {
        Ok(self.engine.store.complete(key, status, body).await?)
    }

    /// Forgets such a request, which changed nothing.
    pub async fn forget_once(&self, key: &str) -> Result<(), RuntimeError> {
        Ok(self.engine.store.forget(key).await?)
    }
}
