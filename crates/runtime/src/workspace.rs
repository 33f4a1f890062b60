//! Checks the folder that a run is admitted to.
//!
//! The folder is identified by a path without links. Every tool opens it by that path and follows
//! no link, so a link that is put there while the run waits, is paused or is retried leads nowhere
//! else. Links are resolved only once, where a person names a folder ([`crate::NewRun::new`]).

use std::path::{Path, PathBuf};

use sortie_core::words::Lang;
use sortie_text::t;

use crate::refusal::{Refusal, RefusalReason};

/// Returns the absolute path of the folder, unless it contains a link.
pub(crate) fn checked(lang: Lang, folder: &Path) -> Result<PathBuf, Refusal> {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    match whole.canonicalize() {
        Ok(real) if real != whole => Err(Refusal::new(
            RefusalReason::WorkspaceLinked,
            t!(
                lang,
                "spawn-workspace-linked",
                path = whole.display().to_string()
            ),
        )),
        // The tools report a folder that does not exist.
        Ok(_) | Err(_) => Ok(whole),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_are_accepted_only_by_a_path_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        for (path, taken) in [
            ("real", true),
            ("real/inner", true),
            ("missing", true),
            ("link", false),
            ("link/inner", false),
        ] {
            let path = root.join(path);
            let checked = checked(Lang::En, &path);
            match checked {
                Ok(whole) => assert!(taken && whole == path, "{}", path.display()),
                Err(refused) => {
                    assert!(
                        !taken && refused.message.contains("a symbolic link"),
                        "{refused}"
                    );
                }
            }
        }
        assert!(checked(Lang::En, Path::new(".")).unwrap().is_absolute());
    }
}
