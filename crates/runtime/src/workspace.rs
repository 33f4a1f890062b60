//! The folder that a run is admitted to.
//!
//! It is known by a path without links, and everybody who works in it opens it by that path and
//! follows none: a link that somebody puts there while the run waits, rests or is tried again leads
//! nobody elsewhere. Only whoever names a folder for a person follows links, once
//! ([`crate::NewRun::new`]).

use std::path::{Path, PathBuf};

use sortie_core::Lang;
use sortie_text::t;

use crate::planner::SpawnRefused;

/// The folder from the root down, unless a link is on the way by now.
pub(crate) fn checked(lang: Lang, folder: &Path) -> Result<PathBuf, SpawnRefused> {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    match whole.canonicalize() {
        Ok(real) if real != whole => Err(SpawnRefused(t!(
            lang,
            "spawn-workspace-linked",
            path = whole.display().to_string()
        ))),
        // One that is not there is told about by whoever works in it.
        Ok(_) | Err(_) => Ok(whole),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_taken_by_its_own_path() {
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
                    assert!(!taken && refused.0.contains("a link"), "{}", refused.0);
                }
            }
        }
        assert!(checked(Lang::En, Path::new(".")).unwrap().is_absolute());
    }
}
