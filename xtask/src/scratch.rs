//! Folders for one purpose, removed at the end unless somebody wants to look at them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A folder that is removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    kept: bool,
}

impl Scratch {
    /// An empty folder with this name below `parent`.
    pub(crate) fn new(parent: &Path, name: &str) -> Result<Self> {
        let path = parent.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("clearing {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self { path, kept: false })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it behind for a person.
    pub(crate) const fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("warning: {} stays behind: {error}", self.path.display());
        }
    }
}
