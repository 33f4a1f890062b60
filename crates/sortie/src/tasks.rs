//! Tasks: create, wait, steer, cancel, read.

use sortie_core::event::JournalEntry;
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::store::{CancelReport, ListFilter};
use sortie_core::run::{Priority, RunRecord};
use sortie_core::stats::Stats;
use sortie_runtime::{Fork, NewRun, Runtime, ToolCallLog, TranscriptLine};

use crate::error::Error;
use crate::sortie::Defaults;

/// The tasks of a [`Sortie`](crate::Sortie).
///
/// A task is one run of an agent on one instruction, with all the runs that it sends out.
#[derive(Clone, Copy, Debug)]
pub struct Tasks<'a> {
    pub(crate) runtime: &'a Runtime,
    models: &'a dyn ModelDirectory,
    defaults: &'a Defaults,
}

impl<'a> Tasks<'a> {
    pub(crate) const fn new(
        runtime: &'a Runtime,
        models: &'a dyn ModelDirectory,
        defaults: &'a Defaults,
    ) -> Self {
        Self {
            runtime,
            models,
            defaults,
        }
    }

    /// Returns a request with the builder's model, workspace and language. Change its fields before
    /// [`create`](Self::create).
    pub fn request(&self, instruction: impl Into<String>) -> NewRun {
        let model = self.defaults.model.as_deref().unwrap_or_default();
        NewRun {
            lang: self.defaults.lang,
            mode: self.defaults.mode,
            ..NewRun::new(instruction, &self.defaults.workspace, model)
        }
    }

    /// Admits a task and waits until it has ended.
    pub async fn run(&self, instruction: impl Into<String>) -> Result<RunRecord, Error> {
        let id = self.create(self.request(instruction)).await?;
        self.wait(id).await
    }

    /// Admits a task. It is durable when this returns, and starts as soon as a slot is free.
    pub async fn create(&self, request: NewRun) -> Result<RunId, Error> {
        self.check(&request)?;
        Ok(self.runtime.create(request).await?)
    }

    /// Returns an unused id for [`create_as`](Self::create_as).
    pub fn new_id(&self) -> RunId {
        self.runtime.new_run_id()
    }

    /// Admits a task under an id. Retrying with the same id does not create a second task.
    pub async fn create_as(&self, id: RunId, request: NewRun) -> Result<RunId, Error> {
        self.check(&request)?;
        Ok(self.runtime.create_as(id, request).await?)
    }

    /// Admits a task that continues from an event of another, with that one's history.
    pub async fn fork(&self, fork: Fork) -> Result<RunId, Error> {
        Ok(self.runtime.fork(fork).await?)
    }

    /// Admits a task like one that has ended.
    pub async fn retry(&self, id: RunId) -> Result<RunId, Error> {
        Ok(self.runtime.retry(id).await?)
    }

    /// Waits until a task has ended, and returns its record.
    pub async fn wait(&self, id: RunId) -> Result<RunRecord, Error> {
        Ok(self.runtime.wait_for(id).await?)
    }

    /// Returns the record of a task.
    pub async fn get(&self, id: RunId) -> Result<RunRecord, Error> {
        Ok(self.runtime.get(id).await?)
    }

    /// Returns the task whose id begins with `prefix`.
    pub async fn resolve(&self, prefix: &str) -> Result<RunId, Error> {
        Ok(self.runtime.resolve(prefix).await?)
    }

    /// Returns records, newest first.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<RunRecord>, Error> {
        Ok(self.runtime.list(filter).await?)
    }

    /// Returns the number of tasks in each state.
    pub async fn stats(&self, filter: ListFilter) -> Result<Stats, Error> {
        Ok(self.runtime.stats(filter).await?)
    }

    /// Adds to a task's instruction; the task reads it at its next step.
    pub async fn steer(&self, id: RunId, text: &str) -> Result<(), Error> {
        Ok(self.runtime.steer(id, text).await?)
    }

    /// Changes the label or the priority of a task that is still queued.
    pub async fn update(
        &self,
        id: RunId,
        label: Option<&str>,
        priority: Option<Priority>,
    ) -> Result<(), Error> {
        Ok(self.runtime.update(id, label, priority).await?)
    }

    /// Cancels a task, its descendants and their processes.
    pub async fn cancel(&self, id: RunId, reason: &str) -> Result<CancelReport, Error> {
        Ok(self.runtime.cancel(id, reason).await?)
    }

    /// Pauses a task and its descendants; returns the paused ones.
    pub async fn pause(&self, id: RunId) -> Result<Vec<RunId>, Error> {
        Ok(self.runtime.pause(id).await?)
    }

    /// Resumes a paused task and its descendants; returns the resumed ones.
    pub async fn resume(&self, id: RunId) -> Result<Vec<RunId>, Error> {
        Ok(self.runtime.unpause(id).await?)
    }

    /// Returns the events of a task's journal after `after`.
    pub async fn events(&self, id: RunId, after: Seq) -> Result<Vec<JournalEntry>, Error> {
        Ok(self.runtime.events(id, after).await?)
    }

    /// Returns the conversation of a task with its model.
    pub async fn transcript(&self, id: RunId) -> Result<Vec<TranscriptLine>, Error> {
        Ok(self.runtime.transcript(id).await?)
    }

    /// Returns the tool calls of a task with their rulings and results.
    pub async fn tool_calls(&self, id: RunId) -> Result<Vec<ToolCallLog>, Error> {
        Ok(self.runtime.tool_calls(id).await?)
    }

    /// Returns the changes of a task in its worktree, as a diff.
    pub async fn diff(&self, id: RunId) -> Result<String, Error> {
        Ok(self.runtime.diff(id).await?)
    }

    /// Applies the changes of a task's worktree to the checkout; returns the files.
    pub async fn apply(&self, id: RunId) -> Result<Vec<String>, Error> {
        Ok(self.runtime.apply(id).await?)
    }

    /// Discards the changes of a task's worktree.
    pub async fn discard(&self, id: RunId) -> Result<(), Error> {
        Ok(self.runtime.discard(id).await?)
    }

    /// Deletes a task and its descendants, and returns how many; a running task is cancelled first.
    /// A run that still owes a delivery is kept.
    pub async fn delete(&self, id: RunId) -> Result<u64, Error> {
        Ok(self.runtime.delete(id).await?)
    }

    /// Checks what the runtime would refuse or the run would only fail on later.
    pub(crate) fn check(&self, request: &NewRun) -> Result<(), Error> {
        let model = request.model.as_deref().unwrap_or(&request.default_model);
        if model.is_empty() {
            return Err(Error::NoModel);
        }
        self.models.find(model)?;
        if let Some(name) = &request.agent
            && self.runtime.agents().find(name).is_none()
        {
            return Err(Error::UnknownAgent {
                name: name.clone(),
                known: self.runtime.agents().names(),
            });
        }
        match request.workspace.read_dir() {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Workspace {
                path: request.workspace.clone(),
                source,
            }),
        }
    }
}
