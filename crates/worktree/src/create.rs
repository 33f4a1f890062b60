//! Creates worktrees.

use std::fs;
use std::path::Path;

use crate::error::At as _;
use crate::open_exact::{make_beneath, open_folder, path_of};
use crate::own_git::{ForChild, OwnGit, write_for_child};
use crate::record::{Collected, Opened, Record, RunFolder, State, remove_folder};
use crate::repository::Repository;
use crate::snapshot::{Uncommitted, View, copy_index};
use crate::{Result, Worktree, WorktreeError, Worktrees, refs};

/// The most branches and tags of the repository that the child can name.
const MAX_REFS: usize = 20_000;
/// The message of the commit with uncommitted changes.
const SNAPSHOT_MESSAGE: &str = "Changes that were not committed when the subagent started\n";

/// The starting point of a worktree.
#[derive(Debug)]
struct Start {
    base: String,
    /// The tree of its initial files: the base, or the collected work of a resumed run.
    files: String,
    branch_at: Option<String>,
    uncommitted: Uncommitted,
}

impl Worktrees {
    /// Creates the worktree of a run, or returns the one that it had before a crash.
    ///
    /// A run whose work was already collected resumes from that work.
    pub async fn create(&self, run: &str, workspace: &Path) -> Result<Worktree> {
        let folder = self.run_folder(run)?;
        let known = folder.read()?;
        match known.as_ref().map(|record| (record, &record.state)) {
            Some((record, State::Open(opened))) => Ok(record.worktree(&folder, opened)),
            Some((record, State::Collected(opened, Collected::Changed(changes)))) => {
                let start = Start {
                    base: opened.base.clone(),
                    files: changes.commit.clone(),
                    branch_at: Some(changes.commit.clone()),
                    uncommitted: opened.uncommitted.clone(),
                };
                self.reopen(&folder, record.clone(), start).await
            }
            Some((_, State::Collected(_, Collected::Untouched))) | None => {
                self.begin(run, workspace, false).await
            }
            Some((_, State::Creating)) => self.begin(run, workspace, true).await,
        }
    }

    async fn begin(&self, run: &str, workspace: &Path, is_second_try: bool) -> Result<Worktree> {
        let repository = Repository::find(&self.git, workspace).await?;
        let record = Record {
            run: run.to_owned(),
            branch: refs::branch_of(run),
            repository: repository.root.clone(),
            prefix: repository.prefix_of(workspace)?,
            state: State::Creating,
        };
        self.check_outside(&repository)?;
        // Only now does our folder exist for certain, so that its canonical path is known.
        let folder = &self.run_folder(run)?;
        self.prepare(folder, &repository, &record)?;
        let own = OwnGit::write(&folder.own_git().dir, &repository)?;
        let start = self.start(&repository, &own).await?;
        if let Some(head) = &start.branch_at {
            // The branch may exist only if an interrupted attempt created it.
            let none = repository.no_commit();
            let expected = (!is_second_try).then_some(none.as_str());
            refs::set(&self.git, &repository, &record.branch, head, expected).await?;
        }
        self.fill(folder, &repository, record, start).await
    }

    async fn reopen(&self, folder: &RunFolder, record: Record, start: Start) -> Result<Worktree> {
        if folder.tree().exists() {
            // Kept, because some of its content could not be collected.
            return self.open_again(folder, record, start);
        }
        let repository = Repository::find(&self.git, &record.repository).await?;
        remove_folder(&folder.own_git().dir)?;
        OwnGit::write(&folder.own_git().dir, &repository)?;
        self.fill(folder, &repository, record, start).await
    }

    fn open_again(&self, folder: &RunFolder, record: Record, start: Start) -> Result<Worktree> {
        let State::Collected(opened, _) = &record.state else {
            return Err(WorktreeError::Unknown(record.run));
        };
        let opened = Opened {
            branch_at: start.branch_at,
            ..opened.clone()
        };
        self.remember(folder, record, &opened)
    }

    /// Creates the folder and writes its record first, so that a crash leaves no folder without an
    /// owner.
    fn prepare(&self, folder: &RunFolder, repository: &Repository, record: &Record) -> Result<()> {
        let home = self.check_outside(repository)?;
        let is_text = home.to_str().is_some_and(|text| !text.contains('\n'));
        if !is_text {
            return Err(WorktreeError::NotText(home));
        }
        fs::create_dir_all(&folder.0).at("make", &folder.0)?;
        folder.write(record)?;
        folder.remove_files()
    }

    /// Determines where a new worktree starts: at HEAD, or at a commit of the uncommitted changes.
    async fn start(&self, repository: &Repository, own: &OwnGit) -> Result<Start> {
        let index = own.dir.join("snapshot-index");
        copy_index(repository, own, &index).await?;
        let folder = open_folder(&repository.root)?;
        let view = View {
            git: &self.git,
            own,
            index: &index,
            files: &path_of(&folder),
            no_object: &repository.no_commit(),
        };
        let mut snapshot = view.snapshot(self.bounds).await?;
        view.add_submodules(&mut snapshot).await?;
        let base = self.base(repository, own, &snapshot.tree).await?;
        Ok(Start {
            files: base.clone(),
            branch_at: repository.head.clone(),
            uncommitted: Uncommitted {
                included: repository.head.as_ref() != Some(&base),
                left_out: snapshot.left_out,
            },
            base,
        })
    }

    async fn base(&self, repository: &Repository, own: &OwnGit, tree: &str) -> Result<String> {
        let Some(head) = &repository.head else {
            return self.commit(own, tree, &[], SNAPSHOT_MESSAGE).await;
        };
        if self.tree_of(own, head).await? == tree {
            return Ok(head.clone());
        }
        self.commit(own, tree, &[head], SNAPSHOT_MESSAGE).await
    }

    /// Writes the child's files and its git folder, and opens the worktree.
    async fn fill(
        &self,
        folder: &RunFolder,
        repository: &Repository,
        record: Record,
        start: Start,
    ) -> Result<Worktree> {
        let (tree, own) = (folder.tree(), folder.own_git());
        fs::create_dir_all(&tree).at("make", &tree)?;
        let call = self.git.on(&own.dir).work_tree(&tree).index(&own.index());
        call.args(["read-tree", "-m", "-u", &start.files])
            .output()
            .await?;
        // A folder without files is not part of any tree.
        make_beneath(&tree, &record.prefix)?;
        let packed_refs = self.packed_refs(repository).await?;
        let child = ForChild {
            branch: &record.branch,
            base: &start.files,
            packed_refs: &packed_refs,
        };
        write_for_child(&tree.join(".git"), repository, &own, &child)?;
        let opened = Opened {
            base: start.base,
            branch_at: start.branch_at,
            uncommitted: start.uncommitted,
            objects: repository.all_objects()?,
        };
        self.remember(folder, record, &opened)
    }

    fn remember(&self, folder: &RunFolder, record: Record, opened: &Opened) -> Result<Worktree> {
        let record = Record {
            state: State::Open(opened.clone()),
            ..record
        };
        folder.write(&record)?;
        Ok(record.worktree(folder, opened))
    }

    async fn packed_refs(&self, repository: &Repository) -> Result<Vec<u8>> {
        let count = format!("--count={MAX_REFS}");
        let format = "--format=%(objectname) %(refname)";
        let call = self.git.on(&repository.git_dir);
        let call = call.args(["for-each-ref", &count, format]);
        call.args(["refs/heads", "refs/remotes", "refs/tags"])
            .output()
            .await
    }

    /// Returns the tree of a commit.
    pub(crate) async fn tree_of(&self, own: &OwnGit, commit: &str) -> Result<String> {
        let name = format!("{commit}^{{tree}}");
        let call = self.git.on(&own.dir);
        call.args(["rev-parse", "--verify", &name]).line().await
    }

    /// Writes a commit object and returns its name.
    pub(crate) async fn commit(
        &self,
        own: &OwnGit,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String> {
        let call = self.git.on(&own.dir).args(["commit-tree", tree]);
        let call = call.args(parents.iter().flat_map(|parent| ["-p", *parent]));
        call.input(message.as_bytes().to_vec()).line().await
    }
}
