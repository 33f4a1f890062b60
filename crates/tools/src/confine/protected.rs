//! The places that file tools never write. The sandbox keeps commands from writing to them too.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sortie_core::ports::tool::ToolFailure;
use sortie_sandbox::named_by_settings;

/// A folder whose content makes programs run; file tools never write to it, in any folder.
pub(super) const GIT_FOLDER: &str = ".git";

/// Rejects a path that contains a `.git` component, whether or not it exists.
pub(super) fn refuse_git_paths(path: &Path) -> Result<(), ToolFailure> {
    if names_git(path) {
        Err(of_git(path))
    } else {
        Ok(())
    }
}

fn names_git(path: &Path) -> bool {
    path.components()
        .any(|component| component.as_os_str().eq_ignore_ascii_case(GIT_FOLDER))
}

/// Returns the failure of a write to git's own files.
pub(super) fn of_git(path: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{} belongs to git's own files, which file tools never write: hooks and config there run programs. Use git commands instead.",
        path.display()
    ))
}

/// Rejects a path at or beneath a protected place, whether or not it exists yet. `real` is the real
/// destination of the write, `root` the real path of the workspace, and `home` the home folder with
/// the user's git settings.
pub(super) fn refuse(
    root: &Path,
    real: &Path,
    shown: &Path,
    home: Option<&Path>,
) -> Result<(), ToolFailure> {
    if names_git(real) {
        return Err(of_git(shown));
    }
    if makes_repository(root, real) {
        return Err(ToolFailure::new(format!(
            "{} would be a part of a git repository made of plain files, which git would use. Make repositories with git in a command, or choose another name.",
            shown.display()
        )));
    }
    let protected = sortie_sandbox::usual();
    let hit = protected
        .iter()
        .any(|place| is_beneath(real, &place.path) || is_beneath(real, &led_to(root, &place.path)));
    let mut names = real.components();
    let acts = names.any(|name| sortie_sandbox::acts_in_any_folder(name.as_os_str()));
    if !hit && !acts && !is_named_by_settings(root, real, home) {
        return Ok(());
    }
    Err(ToolFailure::new(format!(
        "{} is protected: agents, editors or git act on it without approval. Do not write it; report what it should contain.",
        shown.display()
    )))
}

/// Entries of a git folder, besides `HEAD`.
const GIT_PARTS: [&str; 8] = [
    "config",
    "config.worktree",
    "commondir",
    "objects",
    "refs",
    "hooks",
    "modules",
    "worktrees",
];

/// Returns whether a write would create or change a folder that git recognizes as a repository,
/// whatever its name. File tools never write a `HEAD`, so that concurrent writes cannot create a
/// repository together.
fn makes_repository(root: &Path, real: &Path) -> bool {
    let is_head = |name: &OsStr| name.eq_ignore_ascii_case("HEAD");
    if real.file_name().is_some_and(is_head) {
        return true;
    }
    let mut folder = root.to_owned();
    real.iter().any(|name| {
        let part = GIT_PARTS.iter().any(|part| name.eq_ignore_ascii_case(part));
        let hit = part && folder.join("HEAD").symlink_metadata().is_ok();
        folder.push(name);
        hit
    })
}

/// Returns whether git settings name the path as hooks, as an include or as a program. The settings
/// of the workspace and of each repository on the path apply.
fn is_named_by_settings(root: &Path, real: &Path, home: Option<&Path>) -> bool {
    let mut folders: Vec<&Path> = real.ancestors().skip(1).collect();
    folders.reverse();
    folders.into_iter().any(|folder| {
        let worktree = root.join(folder);
        let is_top = folder.as_os_str().is_empty();
        if !is_top && worktree.join(GIT_FOLDER).symlink_metadata().is_err() {
            return false;
        }
        let Ok(inside) = real.strip_prefix(folder) else {
            return false;
        };
        let named = named_by_settings(&worktree, home);
        named.iter().any(|place| {
            is_beneath(inside, &place.path) || is_beneath(inside, &led_to(&worktree, &place.path))
        })
    })
}

/// Returns the target of a protected place that the user made a link to another place of the
/// workspace.
fn led_to(root: &Path, place: &Path) -> PathBuf {
    let real = std::fs::canonicalize(root.join(place)).ok();
    let inside = real.and_then(|real| real.strip_prefix(root).map(Path::to_owned).ok());
    // A link to the workspace itself does not protect the whole workspace.
    let inside = inside.filter(|inside| !inside.as_os_str().is_empty());
    inside.unwrap_or_else(|| place.to_owned())
}

/// Returns whether a path is at or beneath a place, on case-sensitive and case-insensitive file
/// systems.
pub(super) fn is_beneath(path: &Path, place: &Path) -> bool {
    let mut names = path.components();
    place.components().all(|wanted| {
        names
            .next()
            .is_some_and(|name| name.as_os_str().eq_ignore_ascii_case(wanted.as_os_str()))
    })
}
