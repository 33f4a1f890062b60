//! One lock for each conversation, so that its messages find their turn one after the other while
//! those of other conversations do not wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sortie_core::id::SessionKey;
use sortie_core::tenant::Tenant;
use tokio::sync::OwnedMutexGuard;

type Conversation = (Option<Tenant>, SessionKey);

/// The locks of conversations in which a turn is being started.
///
/// The map has no more entries than there are callers at once, plus one: an entry that no caller
/// uses is removed by the next caller.
#[derive(Debug, Default)]
pub(crate) struct SessionLocks(Mutex<HashMap<Conversation, Arc<tokio::sync::Mutex<()>>>>);

impl SessionLocks {
    /// Waits until no other caller starts a turn in the same session of the same tenant.
    pub(crate) async fn lock(
        &self,
        tenant: Option<Tenant>,
        session: SessionKey,
    ) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Handles are cloned only under this mutex, so a count of one means that no caller
            // holds the lock or waits for it.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry((tenant, session)).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn session(name: &str) -> SessionKey {
        name.parse().expect("a session")
    }

    #[tokio::test]
    async fn only_callers_of_the_same_conversation_wait() {
        let locks = SessionLocks::default();
        let guard = locks.lock(None, session("web:1")).await;
        let tenant: Tenant = "acme".parse().expect("a tenant");
        assert!(locks.lock(None, session("web:1")).now_or_never().is_none());
        assert!(locks.lock(None, session("web:2")).now_or_never().is_some());
        assert!(
            locks
                .lock(Some(tenant), session("web:1"))
                .now_or_never()
                .is_some()
        );
        drop(guard);
        assert!(locks.lock(None, session("web:1")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn unused_locks_are_removed() {
        let locks = SessionLocks::default();
        for number in 0..1_000 {
            drop(locks.lock(None, session(&format!("web:{number}"))).await);
            assert_eq!(locks.0.lock().expect("not poisoned").len(), 1);
        }
    }
}
