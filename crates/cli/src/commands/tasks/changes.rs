//! `sortie tasks diff`, `apply` and `discard`: the changes of a task in its own worktree.
//!
//! The process that holds the store does the work and records the result. If another command, not a
//! server, holds the store, changes that were already collected can still be handled: that only
//! needs the repository, and only the record is missing then.

use clap::Args;
use serde_json::json;
use sortie::GitWorktrees;
use sortie_base::hidden::{write_out, write_out_line};
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::StoreError;
use sortie_core::ports::workspace::Worktrees as _;
use sortie_core::run::{Changes, RunDetails, Worktree};
use sortie_runtime::RuntimeError;
use sortie_store::ReadStore;
use sortie_text::t;

use super::open;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Prints the changes of a task's worktree as a diff
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Applies the changes of a task's worktree to the checkout, all or none
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Deletes the changes of a task's worktree and its branch
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// The changes of a task according to its journal.
enum JournaledChanges {
    /// The changes are on a branch.
    Kept {
        store: ReadStore,
        run: RunId,
        worktree: Box<Worktree>,
        changes: Box<Changes>,
    },
    /// The worktree was not collected yet: only the process that holds the store can do that.
    NotCollected(RunId),
}

impl JournaledChanges {
    fn run(&self) -> RunId {
        match self {
            Self::Kept { run, .. } | Self::NotCollected(run) => *run,
        }
    }
}

/// The holder of the store.
enum Owner<'a> {
    /// This process, or a server that it is connected to.
    Reached(Engine),
    Busy {
        worktree: &'a Worktree,
        changes: &'a Changes,
    },
}

async fn owner<'a>(settings: &Settings, found: &'a JournaledChanges) -> Result<Owner<'a>, Problem> {
    match (Engine::idle(settings).await, found) {
        (Ok(engine), _) => Ok(Owner::Reached(engine)),
        (
            Err(Problem::Runtime(RuntimeError::Store(StoreError::Locked { .. }))),
            JournaledChanges::Kept {
                worktree, changes, ..
            },
        ) => Ok(Owner::Busy { worktree, changes }),
        (Err(problem), _) => Err(problem),
    }
}

impl Diff {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (run, diff) = match find(settings, &self.id).await? {
            JournaledChanges::Kept {
                store,
                run,
                changes,
                ..
            } => {
                let diff = store.blob(run, &changes.diff).await?.unwrap_or_default();
                (run, String::from_utf8_lossy(&diff).into_owned())
            }
            JournaledChanges::NotCollected(run) => {
                let engine = Engine::idle(settings).await?;
                let diff = engine.diff(run).await;
                engine.shut_down().await;
                (run, diff?)
            }
        };
        if self.json {
            output::json(&json!({"task_id": run, "diff": diff}))?;
        } else if settings.terminal.output {
            output::text(&exact_diff(&diff))?;
        } else {
            output::text(&diff)?;
        }
        Ok(Exit::Ok)
    }
}

impl Apply {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let found = find(settings, &self.id).await?;
        let run = found.run();
        let files = match owner(settings, &found).await? {
            Owner::Reached(engine) => {
                let applied = engine.apply(run).await;
                engine.shut_down().await;
                applied?
            }
            Owner::Busy { worktree, changes } => GitWorktrees::new(&settings.options)
                .apply(worktree, changes)
                .await
                .map_err(Problem::Refused)?,
        };
        if self.json {
            output::json(&json!({"task_id": run, "files": files}))?;
        } else {
            for file in &files {
                output::text(&write_out_line(file))?;
            }
            let words = t!(settings.lang, "worktree-applied", count = files.len());
            output::note(&words);
        }
        Ok(Exit::Ok)
    }
}

impl Discard {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let found = find(settings, &self.id).await?;
        let run = found.run();
        match owner(settings, &found).await? {
            Owner::Reached(engine) => {
                let discarded = engine.discard(run).await;
                engine.shut_down().await;
                discarded?;
            }
            Owner::Busy { worktree, changes } => GitWorktrees::new(&settings.options)
                .discard(worktree, changes)
                .await
                .map_err(Problem::Refused)?,
        }
        if self.json {
            output::json(&json!({"task_id": run, "discarded": true}))?;
        } else {
            let id = run.to_string();
            output::note(&t!(settings.lang, "worktree-discarded", id = id));
        }
        Ok(Exit::Ok)
    }
}

/// Writes out the hidden characters of each line of a diff. A tab after the sign of a line is
/// indentation and stays.
fn exact_diff(diff: &str) -> String {
    let exact = |line: &str| match line.as_bytes().first() {
        Some(b'+' | b'-' | b' ') => {
            let (sign, rest) = line.split_at(1);
            format!("{sign}{}", write_out(rest))
        }
        Some(_) | None => write_out(line),
    };
    let lines: Vec<String> = diff.split('\n').map(exact).collect();
    lines.join("\n")
}

/// Reads the journal, which needs no lock.
async fn find(settings: &Settings, id: &str) -> Result<JournaledChanges, Problem> {
    let lang = settings.lang;
    let (store, record) = open(settings, id).await?;
    let run = record.run_id;
    let id = run.to_string();
    let journal = store.read(run, Seq(0)).await?;
    let Some(RunDetails {
        worktree: Some(worktree),
        collected,
        changes,
        ..
    }) = RunDetails::of(&journal)
    else {
        return Err(Problem::Refused(t!(lang, "changes-no-worktree", id = id)));
    };
    match changes {
        Some(changes) => Ok(JournaledChanges::Kept {
            run,
            worktree: Box::new(worktree),
            changes: Box::new(changes),
            store,
        }),
        None if collected => Err(Problem::Refused(t!(lang, "changes-nothing", id = id))),
        None if !record.status.is_terminal() => {
            Err(Problem::Refused(t!(lang, "changes-not-yet", id = id)))
        }
        None => Ok(JournaledChanges::NotCollected(run)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_every_line_and_writes_out_what_is_hidden() {
        for (diff, shown) in [
            (
                "@@ -1 +1,2 @@\n-\told\n+\tnew\n \tsame\n",
                "@@ -1 +1,2 @@\n-\told\n+\tnew\n \tsame\n",
            ),
            // A terminal would interpret everything up to the end of the control string as a title.
            (
                "+# \u{1b}]0;t\n+rm -rf ~\n+# \u{7}\n",
                "+# \\u{1b}]0;t\n+rm -rf ~\n+# \\u{7}\n",
            ),
            ("+a\tb\u{200b}\r", "+a\\u{9}b\\u{200b}\\u{d}"),
            ("", ""),
        ] {
            assert_eq!(exact_diff(diff), shown, "{diff:?}");
        }
    }
}
