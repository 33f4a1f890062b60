//! What file tools never write: the places that the sandbox keeps commands from writing too.

use std::path::{Path, PathBuf};

use sortie_core::ToolFailure;

/// A folder whose content makes programs run; never written to, wherever it lies.
pub(super) const GIT_FOLDER: &str = ".git";

/// Refuses a path that names a `.git`, also one that does not exist yet.
pub(super) fn refuse_git_words(path: &Path) -> Result<(), ToolFailure> {
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

/// The failure of a write to git's own files.
pub(super) fn of_git(path: &Path) -> ToolFailure {
    ToolFailure::new(format!(
        "{} belongs to git's own files, which file tools never write: hooks and config there run programs. Use git commands instead.",
        path.display()
    ))
}

/// Refuses what lies at or beneath a protected place, whether or not there is anything yet. `real`
/// is where the write would really go; `root` is where the workspace really lies.
pub(super) fn refuse(root: &Path, real: &Path, shown: &Path) -> Result<(), ToolFailure> {
    if names_git(real) {
        return Err(of_git(shown));
    }
    let protected = sortie_sandbox::usual();
    let hit = protected
        .iter()
        .any(|place| is_beneath(real, &place.path) || is_beneath(real, &led_to(root, &place.path)));
    if !hit {
        return Ok(());
    }
    Err(ToolFailure::new(format!(
        "{} is protected: agents, editors or git act on it without asking anybody. Do not write it; report what should stand there.",
        shown.display()
    )))
}

/// Where a protected place leads if a person made it a link to another place of the workspace.
fn led_to(root: &Path, place: &Path) -> PathBuf {
    let real = std::fs::canonicalize(root.join(place)).ok();
    let inside = real.and_then(|real| real.strip_prefix(root).map(Path::to_owned).ok());
    // The workspace as a whole is not protected by a link to it.
    let inside = inside.filter(|inside| !inside.as_os_str().is_empty());
    inside.unwrap_or_else(|| place.to_owned())
}

/// Whether a path is a place or lies beneath it, on a file system of either kind.
pub(super) fn is_beneath(path: &Path, place: &Path) -> bool {
    let mut names = path.components();
    place.components().all(|wanted| {
        names
            .next()
            .is_some_and(|name| name.as_os_str().eq_ignore_ascii_case(wanted.as_os_str()))
    })
}
