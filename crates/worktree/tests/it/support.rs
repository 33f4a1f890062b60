//! A repository, a child's worktree of it, and functions that inspect both.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};
use sortie_worktree::{Applied, Changes, Collected, Git, How, Worktree, Worktrees};

pub(crate) const RUN: &str = "0199a1b2-3c4d-7e5f-8a9b-0c1d2e3f4a5b";
pub(crate) const BRANCH: &str = "sortie/0199a1b2-2e3f4a5b";

/// A home folder with one repository and a folder for worktrees.
pub(crate) struct Scene {
    pub(crate) home: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) worktrees: Worktrees,
}

/// Returns the search path for the machine's programs.
pub(crate) fn search_path() -> OsString {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test wires parts together, as the command line does"
    )]
    std::env::var_os("PATH").unwrap_or_default()
}

impl Scene {
    /// Creates a repository without a commit.
    pub(crate) fn empty() -> Self {
        Self::with_format("sha1")
    }

    pub(crate) fn with_format(format: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(home.path()).expect("found").join("main");
        fs::create_dir(&root).expect("a folder");
        let format = format!("--object-format={format}");
        run_git(&root, &["init", "-q", "-b", "main", &format]);
        let git = Git::new("git", search_path());
        let worktrees = Worktrees::new(root.with_file_name("worktrees"), git);
        Self {
            home,
            root,
            worktrees,
        }
    }

    /// Creates a repository with one commit.
    pub(crate) fn new() -> Self {
        let scene = Self::empty();
        scene.fill();
        scene
    }

    pub(crate) fn fill(&self) {
        let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        self.write("text", &lines);
        self.write("sub/inner", "inner\n");
        self.write("sub/other", "other\n");
        self.write("run.sh", "echo hello\n");
        fs::write(self.root.join("binary"), [0, 159, 146, 150, 0, 1]).expect("written");
        symlink("text", self.root.join("link")).expect("a link");
        self.write(".gitignore", "ignored\n*.log\n");
        self.commit("first");
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.root, path, text);
    }

    pub(crate) fn commit(&self, message: &str) {
        run_git(&self.root, &["add", "-A"]);
        run_git(&self.root, &["commit", "-q", "-m", message]);
    }

    pub(crate) async fn create(&self) -> Worktree {
        let created = self.worktrees.create(RUN, &self.root).await;
        created.expect("a worktree")
    }

    pub(crate) async fn collect(&self, worktree: &Worktree) -> Changes {
        match self.worktrees.collect(worktree).await.expect("collected") {
            Collected::Changed(changes) => *changes,
            Collected::Untouched => panic!("something changed"),
        }
    }

    pub(crate) async fn apply(&self, changes: &Changes) -> Applied {
        self.try_apply(changes, How::Write)
            .await
            .expect("an answer")
    }

    pub(crate) async fn try_apply(
        &self,
        changes: &Changes,
        how: How,
    ) -> sortie_worktree::Result<Applied> {
        let (branch, base, commit) = (&changes.branch, &changes.base, &changes.commit);
        let applying = self.worktrees.apply(&self.root, branch, base, commit, how);
        applying.await
    }

    /// Returns everything in the main checkout: each file by its hash, including the index and
    /// HEAD, but not the objects and refs, which may be added.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let mut state = files(&self.root);
        let git_dir = self.root.join(".git");
        for name in ["index", "HEAD", "config", "ORIG_HEAD", "logs/refs/stash"] {
            let bytes = fs::read(git_dir.join(name)).unwrap_or_default();
            state.insert(format!(".git/{name}"), hash(&bytes));
        }
        state
    }

    pub(crate) fn branches(&self) -> String {
        run_git(&self.root, &["for-each-ref", "--format=%(refname:short)"])
    }
}

/// Returns the key that identifies a checkout in our folder.
pub(crate) fn checkout_key(root: &Path) -> String {
    hash(root.as_os_str().as_encoded_bytes())
}

/// Writes the plan of an interrupted apply, whose undo puts a file at a path.
pub(crate) fn plant_plan(staging: &Path, path: &str) {
    let plan = format!(
        r#"{{"steps": [{{"path": {:?}, "kind": "Remove", "stamp":
            {{"inode": 0, "size": 0, "mode": 0, "modified": [0, 0]}}}}],
            "staged": [null], "made": [], "token": 0, "is_far": false}}"#,
        path.as_bytes()
    );
    write(staging, "old/0", "planted\n");
    write(staging, "plan.json", &plan);
}

pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("written");
}

/// Returns every file below a folder, except git folders: its kind, permissions and hash.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    fn add(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("listed").path();
            if path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            let seen = fs::symlink_metadata(&path).expect("seen");
            let name = format!("{:?}", path.strip_prefix(root).expect("below"));
            if seen.is_dir() {
                add(root, &path, found);
            } else if seen.is_symlink() {
                let to = fs::read_link(&path).expect("read");
                found.insert(name, format!("link {}", to.display()));
            } else {
                let mode = seen.permissions().mode() & 0o7777;
                let bytes = fs::read(&path).expect("read");
                found.insert(name, format!("{mode:o} {}", hash(&bytes)));
            }
        }
    }
    let mut found = BTreeMap::new();
    add(root, root, &mut found);
    found
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs the user's own git, without our precautions.
pub(crate) fn run_git(folder: &Path, args: &[&str]) -> String {
    let output = plain_git(folder, args).output().expect("started");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn plain_git(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", search_path());
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A Person"),
        ("GIT_AUTHOR_EMAIL", "person@example.com"),
        ("GIT_COMMITTER_NAME", "A Person"),
        ("GIT_COMMITTER_EMAIL", "person@example.com"),
    ] {
        command.env(name, value);
    }
    command.current_dir(folder).args(args);
    command
}
