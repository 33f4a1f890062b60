//! The folders that are searched for agent and skill files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders of a project or of a home directory that may contain definitions, the nearest first.
const FAMILIES: [&str; 3] = [".sortie", ".claude", ".agents"];
const AGENTS: &str = "agents";
const SKILLS: &str = "skills";
/// The mark of a repository's root: a folder, or a file in a work tree.
const REPOSITORY_MARK: &str = ".git";
/// Limit of parent folders that are searched for the root of the repository.
const MAX_ANCESTORS: usize = 64;

/// The owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Part of the project: written by the authors of the repository.
    Project,
    /// The user's own, under the home directory.
    User,
    /// Configured by the operator.
    Extra,
}

/// A folder to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFolder {
    /// The folder that `path` is relative to. Links in it are followed.
    pub base: PathBuf,
    /// The folder, relative to the base. Links in it may not lead out of the base, unless the
    /// base is the user's own.
    pub path: PathBuf,
    /// The owner of the folder.
    pub scope: Scope,
    /// Whether its files may do more than restrict.
    pub trusted: bool,
}

impl SearchFolder {
    /// Returns the whole path, for display.
    pub fn shown(&self) -> PathBuf {
        self.base.join(&self.path)
    }

    /// Opens the folder if it exists.
    pub(crate) fn open(&self) -> Result<crate::folder::Folder, crate::folder::FolderError> {
        use crate::folder::Folder;
        match self.scope {
            Scope::Project => Folder::open(&self.base)?.folder(&self.path),
            // Users may link their own folders to other locations.
            Scope::User | Scope::Extra => Folder::open(&self.shown()),
        }
    }
}

/// Input for the list of folders.
#[derive(Clone, Copy)]
pub struct SearchContext<'a> {
    /// The folder of the session.
    pub workspace: &'a Path,
    /// The user's home directory.
    pub home: Option<&'a Path>,
    /// Whether the user trusts a folder of the project.
    pub is_trusted: &'a dyn Fn(&Path) -> bool,
}

impl std::fmt::Debug for SearchContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Where")
            .field("workspace", &self.workspace)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Returns the folders with agent files, in order of precedence.
pub fn agent_places(from: &SearchContext<'_>) -> Vec<SearchFolder> {
    places(from, AGENTS)
}

/// Returns the folders with skills, in order of precedence. Relative `extra` folders are relative to the
/// workspace.
pub fn skill_places(from: &SearchContext<'_>, extra: &[PathBuf]) -> Vec<SearchFolder> {
    let mut places = places(from, SKILLS);
    places.extend(extra.iter().map(|folder| SearchFolder {
        base: from.workspace.join(folder),
        path: PathBuf::new(),
        scope: Scope::Extra,
        trusted: true,
    }));
    places
}

/// Returns the skill folders that a run requested: beneath its workspace only.
pub fn workspace_skill_places(workspace: &Path, folders: &[String]) -> Vec<SearchFolder> {
    let place = |folder: &String| SearchFolder {
        base: workspace.to_owned(),
        path: PathBuf::from(folder),
        scope: Scope::Project,
        trusted: false,
    };
    folders.iter().map(place).collect()
}

fn places(from: &SearchContext<'_>, kind: &str) -> Vec<SearchFolder> {
    let home = from.home.map(real);
    let project = project_folders(from.workspace);
    let mut places = Vec::new();
    for folder in &project {
        // The home directory may be a repository; its folders still belong to the user.
        if Some(folder) == home.as_ref() {
            continue;
        }
        // A link may point to any path in the repository.
        let root = project.last().unwrap_or(folder);
        let below = folder.strip_prefix(root).unwrap_or(Path::new(""));
        let trusted = (from.is_trusted)(folder);
        places.extend(FAMILIES.map(|family| SearchFolder {
            base: root.clone(),
            path: below.join(family).join(kind),
            scope: Scope::Project,
            trusted,
        }));
    }
    if let Some(home) = home {
        places.extend(FAMILIES.map(|family| SearchFolder {
            base: home.clone(),
            path: Path::new(family).join(kind),
            scope: Scope::User,
            trusted: true,
        }));
    }
    places
}

/// Returns the workspace and the folders above it, up to the repository's root; outside a repository only the
/// workspace.
fn project_folders(workspace: &Path) -> Vec<PathBuf> {
    let start = real(workspace);
    let mut folders = Vec::new();
    for folder in start.ancestors().take(MAX_ANCESTORS) {
        folders.push(folder.to_owned());
        if is_repository(folder) {
            return folders;
        }
    }
    vec![start]
}

fn is_repository(folder: &Path) -> bool {
    match fs::symlink_metadata(folder.join(REPOSITORY_MARK)) {
        Ok(_) => true,
        // An unreadable mark may be the root: then no folder above it is used.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}
