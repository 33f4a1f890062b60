//! Resources that live as long as a command, and the cleanup after it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::Cage;
use crate::notes::Note;
use crate::owned::{Owned, unique};
use crate::stand_in::StandIn;
use crate::sweep::{self, Baseline, Measure, Neutralised};
use crate::tidier::{Chore, Tidier};
use crate::watched::{Before, Righted, Watched, put_right};

/// A workspace that a command may have changed.
#[derive(Debug)]
pub(crate) struct Unswept {
    pub(crate) workspace: PathBuf,
    pub(crate) baseline: Baseline,
    /// `None` if no folder for notes was configured.
    pub(crate) note: Option<Note>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) reports: Reports,
    /// Dropped after the sweep.
    pub(crate) _running: Running,
}

/// Lives as long as the command. Dropping it cleans up; [`Guard::finish`] also returns what it
/// found.
///
/// Drop it when no process of the command is left. Deferred cleanup happens soon after, at the
/// latest when the [`Sandbox`](crate::Sandbox) and all guards are dropped.
#[derive(Debug, Default)]
pub struct Guard {
    pub(crate) stand_ins: Vec<Arc<StandIn>>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) pending: Option<Unswept>,
    pub(crate) scratch: Option<Owned>,
    pub(crate) cage: Option<Cage>,
    pub(crate) tidier: Arc<Tidier>,
}

impl Guard {
    /// Creates a guard that watches these places and leaves deferred cleanup to the tidier.
    pub(crate) fn new(watched: Vec<Watched>, tidier: Arc<Tidier>) -> Self {
        Self {
            stand_ins: Vec::new(),
            watched,
            pending: None,
            scratch: None,
            cage: None,
            tidier,
        }
    }

    /// Cleans up and reports what the command left that would act later. Includes unread reports of
    /// earlier commands in the same workspace.
    pub fn finish(mut self) -> Vec<Neutralised> {
        let Some(unswept) = self.unswept() else {
            self.tidy();
            return Vec::new();
        };
        let mut things = unswept.reports.take(&unswept.workspace);
        things.extend(unswept.sweep());
        self.tidy();
        things
    }

    /// Takes the work that must be done after the command.
    fn unswept(&mut self) -> Option<Unswept> {
        let watched = std::mem::take(&mut self.watched);
        let mut pending = self.pending.take();
        match &mut pending {
            Some(pending) => pending.watched = watched,
            // A read-only workspace needs no sweep.
            None => {
                let places = watched.iter().map(|one| (one.path(), one.before()));
                drop(righted(Path::new(""), places));
            }
        }
        pending
    }

    fn tidy(&mut self) {
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
    }
}

impl Unswept {
    /// Restores what the command changed and reports it.
    fn sweep(self) -> Vec<Neutralised> {
        let root = &self.workspace;
        let places = self.watched.iter().map(|one| (one.path(), one.before()));
        let mut things = righted(root, places);
        let righted = !things.iter().any(|thing| thing.measure == Measure::Failed);
        let swept = sweep::after(root, &self.baseline);
        things.extend(swept.things);
        if let Some(note) = self.note.filter(|_| righted && swept.complete)
            && let Err(error) = note.done()
        {
            // The next start retries this note and finds nothing to do.
            things.push(Neutralised::failed(root, &error));
        }
        things
    }

    /// Sweeps without a caller that waits for the report: the next command in the workspace returns
    /// it.
    pub(crate) fn sweep_unasked(self) {
        let (reports, workspace) = (self.reports.clone(), self.workspace.clone());
        reports.add(workspace, self.sweep());
    }
}

/// Reports that no caller has read yet, by workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    waiting: Arc<Mutex<BTreeMap<PathBuf, Vec<Neutralised>>>>,
    running: Arc<Mutex<BTreeMap<u64, (PathBuf, Baseline)>>>,
}

/// A command of this process that runs in a workspace. Dropping it removes the registration.
#[derive(Debug)]
pub(crate) struct Running {
    number: u64,
    reports: Reports,
}

impl Drop for Running {
    fn drop(&mut self) {
        let running = self.reports.running.lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.number);
    }
}

/// The most workspaces with unread reports, and the most entries in each report.
const MAX_WAITING: usize = 100;

impl Reports {
    /// Registers a command with the baseline of its workspace.
    pub(crate) fn begin(&self, workspace: &Path, baseline: &Baseline) -> Running {
        let number = unique();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(number, (workspace.to_owned(), baseline.clone()));
        Running {
            number,
            reports: self.clone(),
        }
    }

    /// Returns the baselines of the commands of this process that run in a workspace.
    pub(crate) fn running(&self, workspace: &Path) -> Vec<Baseline> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let here = running.values().filter(|(other, _)| other == workspace);
        here.map(|(_, baseline)| baseline.clone()).collect()
    }

    /// Stores a report for the next command in a workspace.
    pub(crate) fn add(&self, workspace: PathBuf, things: Vec<Neutralised>) {
        if things.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING || waiting.contains_key(&workspace) {
            let all = waiting.entry(workspace).or_default();
            all.extend(things);
            all.truncate(MAX_WAITING);
        }
    }

    fn take(&self, workspace: &Path) -> Vec<Neutralised> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(workspace).unwrap_or_default()
    }
}

/// Restores watched places, and reports those that had changed.
pub(crate) fn righted<'a>(
    root: &Path,
    places: impl Iterator<Item = (&'a Path, &'a Before)>,
) -> Vec<Neutralised> {
    let mut things = Vec::new();
    for (path, before) in places {
        let shown = path.strip_prefix(root).unwrap_or(path);
        match put_right(path, before) {
            Ok(Righted::Unchanged) => {}
            Ok(Righted::Restored(Some(kept_as))) if *before == Before::Absent => {
                things.push(Neutralised::aside(shown, &kept_as));
            }
            Ok(Righted::Restored(kept_as)) => {
                let kept_as = kept_as.map(|name| shown.with_file_name(name));
                things.push(Neutralised {
                    kept_as: kept_as.map(|path| path.to_string_lossy().into_owned()),
                    ..Neutralised::new(shown, Measure::Restored)
                });
            }
            Err(error) => things.push(Neutralised::failed(shown, &error)),
        }
    }
    things
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The caller does not wait: a cancelled call is dropped on a thread that other tasks need.
        if let Some(unswept) = self.unswept() {
            self.tidier.take(Chore::Sweep(Box::new(unswept)));
        }
        self.tidy();
    }
}
