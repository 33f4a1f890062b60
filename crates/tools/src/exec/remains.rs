//! What a command leaves running when its call does not see its end.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sortie_core::{EffectId, Remains, ToolContext};

use super::Exec;
use super::marked::kill_marked;
use super::process::Ending;

/// How often is looked at most. With the pause this takes about a second.
const MAX_LOOKS: usize = 50;
/// How long the dying get between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How many looks in a row must find nobody. One proves nothing: a process that is just being
/// replaced by another program has no environment for a moment.
const QUIET_LOOKS: usize = 2;
/// How often a sweep looks at most: each look but the last has found somebody new.
const MAX_SWEEPS: usize = 5;

#[async_trait]
impl Remains for Exec {
    async fn stop(&self, context: &ToolContext<'_>) -> usize {
        let mut ended = BTreeSet::new();
        let mut quiet = 0;
        for _ in 0..MAX_LOOKS {
            let found = look(context.effect.clone()).await;
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

/// Ends, when it is dropped, those who have left the process group of a command, unless its call
/// went well: then nothing is looked for, so that the usual call costs nothing. Whoever left the
/// group and the output of a command that ended by itself goes on.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    effect: Option<&'a EffectId>,
}

impl<'a> Sweep<'a> {
    /// To be dropped after the command.
    pub(super) const fn after(effect: &'a EffectId) -> Self {
        Self {
            effect: Some(effect),
        }
    }

    /// Calls it off if the command ended by itself and nobody held its output.
    pub(super) fn unless_clean(mut self, ending: Ending) {
        match ending {
            Ending::Exited {
                held_open: false, ..
            } => self.effect = None,
            Ending::Exited {
                held_open: true, ..
            }
            | Ending::TimedOut => {}
        }
    }
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        let Some(effect) = self.effect else {
            return;
        };
        let mut seen = BTreeSet::new();
        for _ in 0..MAX_SWEEPS {
            let found = kill_marked(effect);
            // The killed take a moment to go; only somebody new is a reason to look again.
            let before = seen.len();
            seen.extend(found);
            if seen.len() == before {
                return;
            }
        }
    }
}
