//! What a command leaves running when its call does not see its end.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sortie_core::{EffectId, Remains};

use super::Exec;
use super::marked::kill_marked;

/// How often is looked at most. With the pause this takes about a second.
const MAX_LOOKS: usize = 50;
/// How long the dying get between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How many scans in a row must find no process. One proves nothing: a process that is just being
/// replaced by another program has no environment for a moment.
const QUIET_LOOKS: usize = 2;
/// The most scans of one sweep: each scan but the last has found a new process.
const MAX_SWEEPS: usize = 5;

#[async_trait]
impl Remains for Exec {
    async fn stop(&self, effect: &EffectId) -> usize {
        let mut ended = BTreeSet::new();
        let mut quiet = 0;
        for _ in 0..MAX_LOOKS {
            let found = look(effect.clone()).await;
            quiet = if found.is_empty() { quiet + 1 } else { 0 };
            ended.extend(found);
            if quiet == QUIET_LOOKS {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        ended.len()
    }
}

async fn look(effect: EffectId) -> Vec<u32> {
    let looked = tokio::task::spawn_blocking(move || kill_marked(&effect)).await;
    // It only breaks off together with the whole runtime.
    looked.unwrap_or_default()
}

/// Ends processes that carry the effect and have left the process group of their command.
pub(super) fn sweep(effect: &EffectId) {
    let mut seen = BTreeSet::new();
    for _ in 0..MAX_SWEEPS {
        let found = kill_marked(effect);
        // The killed take a moment to go; only a new process is a reason to scan again.
        let before = seen.len();
        seen.extend(found);
        if seen.len() == before {
            return;
        }
    }
}
