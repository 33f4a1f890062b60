//! Requests from outside that take effect once, by their idempotency key.

use sortie_core::id::RunId;
use sortie_core::ports::store::Begun;

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Records that a request with an idempotency key begins; returns what is known of the key.
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

    /// Records the response to such a request.
    pub async fn complete_once(
        &self,
        key: &str,
        status: u16,
        body: Vec<u8>,
    ) -> Result<(), RuntimeError> {
        Ok(self.engine.store.complete(key, status, body).await?)
    }

    /// Removes the record of such a request, which changed nothing.
    pub async fn forget_once(&self, key: &str) -> Result<(), RuntimeError> {
        Ok(self.engine.store.forget(key).await?)
    }
}
