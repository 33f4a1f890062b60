//! The paths of this machine, as passed by the caller, and which of them a command may see.

use std::path::{Path, PathBuf};

use crate::protected::IN_HOME;

/// The caller's knowledge of the machine. This crate never reads the environment.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The home folder of the user who runs Sortie.
    pub home: Option<PathBuf>,
    /// The search path for programs, in order.
    pub path: Vec<PathBuf>,
    /// The parent of private scratch folders, where the machine cannot create them in memory.
    pub scratch: PathBuf,
    /// Sortie's own folders: state, token, configuration, cache. Never visible.
    pub own: Vec<PathBuf>,
}

impl Places {
    /// Returns the absolute paths that no command may read: the secrets of the home folder, and
    /// Sortie's own folders.
    pub fn hidden(&self) -> Vec<PathBuf> {
        let own = self.own.iter().cloned();
        own.chain(self.in_home(SECRETS)).collect()
    }

    /// Returns the absolute paths in the home folder that no command may change: files that run at
    /// login.
    pub fn protected_in_home(&self) -> Vec<PathBuf> {
        self.in_home(IN_HOME).collect()
    }

    fn in_home(&self, names: &[&str]) -> impl Iterator<Item = PathBuf> {
        let home = self.home.as_deref();
        names.iter().filter_map(move |name| Some(home?.join(name)))
    }
}

/// System folders that a command sees, read-only.
pub(crate) const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
];

/// Parts of a home folder with programs and packages, and without secrets: visible, read-only.
pub(crate) const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".bun/install/cache",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".deno/bin",
    ".fnm",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    // The rest of this folder contains credentials.
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".m2/repository",
    ".nix-profile",
    ".npm/_cacache",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
    "go/pkg/mod",
    "miniconda3",
];

/// Parts of a home folder with secrets. A home folder is not visible at all; this list is for a
/// workspace that is a home folder, or contains one.
pub(crate) const SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".yarnrc.yml",
    ".docker",
    ".kube",
    ".mozilla",
    ".thunderbird",
    ".password-store",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".codex/auth.json",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".local/share/keyrings",
    ".local/share/uv/credentials",
    ".m2/settings.xml",
    ".terraform.d",
];

/// The most entries of `/etc` that are checked for files that only root may read.
const MAX_ENTRIES: usize = 20_000;
/// The deepest level that is checked.
const MAX_DEPTH: usize = 6;

/// Returns the entries beneath a system folder that not every user may read. Root could read them
/// even without capabilities, as their owner.
pub(crate) fn not_for_everybody(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    walk(folder, MAX_DEPTH, &mut left, &mut found);
    found
}

fn walk(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    use std::os::unix::fs::PermissionsExt as _;
    // A folder that this process may not list, the command may not list either.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(facts) = entry.metadata() else {
            continue;
        };
        let (path, mode) = (entry.path(), facts.permissions().mode());
        // Entries beyond the limit are unchecked, so they are hidden.
        let beyond = *left == 0 || depth == 0;
        *left = left.saturating_sub(1);
        if facts.is_dir() {
            if beyond || mode & 0o005 != 0o005 {
                found.extend(reached(path));
            } else {
                walk(&path, depth - 1, left, found);
            }
        } else if !facts.is_symlink() && (beyond || mode & 0o004 == 0) {
            found.extend(reached(path));
        }
    }
}

/// Returns the path if this process can reach it. An unreachable path needs no hiding, and each
/// hidden path costs a mount: on most machines only root can reach any.
fn reached(path: PathBuf) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    let any = [Access::READ_OK, Access::EXEC_OK];
    any.into_iter()
        .any(|right| access(&path, right).is_ok())
        .then_some(path)
}
