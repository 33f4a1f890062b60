//! Requests that take effect once, however often they are sent.

use async_trait::async_trait;

use crate::id::RunId;
use crate::ports::store::StoreResult;
use crate::time::Timestamp;

/// How long an answer is kept: whoever sends the same request later means a new one.
pub const ONCE_KEPT_MS: i64 = 24 * 3_600 * 1_000;

/// Remembers requests by a key that their sender chose.
#[async_trait]
pub trait Idempotency: Send + Sync {
    /// Notes that a request begins, unless its key is known. `fingerprint` stands for everything
    /// that must be the same for it to be the same request; `run` is the id that a run gets if the
    /// request makes one.
    async fn begin(
        &self,
        key: &str,
        fingerprint: &str,
        run: RunId,
        at: Timestamp,
    ) -> StoreResult<Begun>;
    /// Notes how a request was answered. The first answer holds.
    async fn complete(&self, key: &str, status: u16, body: Vec<u8>) -> StoreResult<()>;
    /// Forgets a request that changed nothing and was not answered.
    async fn forget(&self, key: &str) -> StoreResult<()>;
}

/// What is known about a request that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: it is new, and noted now.
    Fresh,
    /// It began before, and nobody has noted an answer: it is under way, or its process died.
    Running {
        /// The id that was set aside for it.
        run: RunId,
        /// When it began.
        at: Timestamp,
    },
    /// It was answered.
    Done {
        /// The status of the answer.
        status: u16,
        /// The answer.
        body: Vec<u8>,
        /// The id that was set aside for it.
        run: RunId,
    },
    /// The key belongs to another request.
    Mismatch,
}
