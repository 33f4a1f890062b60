//! Idempotency keys: a request with a known key does not take effect again.

use async_trait::async_trait;

use crate::id::RunId;
use crate::ports::store::StoreResult;
use crate::time::Timestamp;

/// How long a key is kept. A later request with the same key is a new one.
pub const ONCE_KEPT_MS: i64 = 24 * 3_600 * 1_000;

/// Stores requests by the keys that their senders chose.
#[async_trait]
pub trait Idempotency: Send + Sync {
    /// Records that a request begins, unless its key is known. `fingerprint` identifies the
    /// request's content; `run` is reserved as the id of a run that the request may create.
    async fn begin(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
        at: Timestamp,
    ) -> StoreResult<Begun>;
    /// Records the response of a request. The first one is kept.
    async fn complete(&self, key: &str, status: u16, body: Vec<u8>) -> StoreResult<()>;
    /// Removes a request that changed nothing and has no response.
    async fn forget(&self, key: &str) -> StoreResult<()>;
}

/// What is known about a request that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key is new, and recorded now.
    Fresh,
    /// The request began before and has no response: it is in progress, or its process died.
    Running {
        /// The id reserved for it.
        run: RunId,
        at: Timestamp,
    },
    /// The request has a response.
    Done {
        status: u16,
        body: Vec<u8>,
        /// The id reserved for it.
        run: RunId,
    },
    /// The key belongs to a request with another fingerprint.
    Mismatch,
}
