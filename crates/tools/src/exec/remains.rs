//! Processes that a command leaves running when its call does not wait for its end.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sortie_core::id::EffectId;
use sortie_core::ports::tool::Remains;

use super::Exec;
use super::marked::kill_marked;

/// The most scans. With the pause they take about a second.
const MAX_LOOKS: usize = 50;
/// The pause between two scans, in which killed processes end.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of consecutive scans that must find no process. One is not enough: a process that is
/// executing `exec` has no environment for a moment.
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
    // The task fails only when the whole runtime shuts down.
    looked.unwrap_or_default()
}

/// Ends processes that carry the effect and have left the process group of their command.
pub(super) fn sweep(effect: &EffectId) {
    let mut seen = BTreeSet::new();
    for _ in 0..MAX_SWEEPS {
        let found = kill_marked(effect);
        // Killed processes take a moment to end; only a new process is a reason to scan again.
        let before = seen.len();
        seen.extend(found);
        if seen.len() == before {
            return;
        }
    }
}
