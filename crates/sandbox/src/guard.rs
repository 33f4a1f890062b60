//! What must live as long as a command, and is tidied up after it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroup::Cage;
use crate::owned::Owned;
use crate::stand_in::StandIn;
use crate::tidier::{Chore, Tidier};
use crate::watched::Watched;

/// Lives as long as the command. Dropping it tidies up; [`Guard::finish`] also tells what it found.
///
/// It is to be dropped when no process of the command is left. What only has to go some time is
/// gone soon after, and at the latest when the [`Sandbox`](crate::Sandbox) and all guards are.
#[derive(Debug, Default)]
pub struct Guard {
    pub(crate) stand_ins: Vec<Arc<StandIn>>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) scratch: Option<Owned>,
    pub(crate) cage: Option<Cage>,
    pub(crate) tidier: Arc<Tidier>,
}

/// Something protected that the command changed, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// Where.
    pub path: PathBuf,
    /// Whether it is as before.
    pub restored: bool,
}

impl Guard {
    /// One that watches, and leaves to another what only has to go some time.
    pub(crate) fn new(watched: Vec<Watched>, tidier: Arc<Tidier>) -> Self {
        Self {
            stand_ins: Vec::new(),
            watched,
            scratch: None,
            cage: None,
            tidier,
        }
    }

    /// Tidies up, and tells what the command had changed although it must not.
    pub fn finish(mut self) -> Vec<Undone> {
        self.tidy()
    }

    fn tidy(&mut self) -> Vec<Undone> {
        let watched = std::mem::take(&mut self.watched);
        let undone = watched.iter().filter_map(undone).collect();
        let stand_ins = std::mem::take(&mut self.stand_ins);
        if !stand_ins.is_empty() {
            self.tidier.take(Chore::StandIns(stand_ins));
        }
        if let Some(scratch) = self.scratch.take() {
            self.tidier.take(Chore::Scratch(scratch.path().to_owned()));
        }
        if let Some(mut cage) = self.cage.take()
            && !cage.remove()
        {
            self.tidier.take(Chore::Cage(cage));
        }
        undone
    }
}

fn undone(watched: &Watched) -> Option<Undone> {
    let restored = match watched.put_right() {
        Ok(false) => return None,
        Ok(true) => true,
        Err(_) => false,
    };
    let path = watched.path().to_owned();
    Some(Undone { path, restored })
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Who wants to know calls `finish`.
        drop(self.tidy());
    }
}
