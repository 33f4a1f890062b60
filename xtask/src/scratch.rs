//! Temporary folders, removed at the end unless they are kept for inspection.

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
    /// Creates an empty folder with this name below `parent`.
    pub(crate) fn new(parent: &Path, name: &str) -> Result<Self> {
        let path = parent.join(name);
        if path.exists() {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot clear {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder for inspection.
    pub(crate) const fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("warning: cannot remove {}: {error}", self.path.display());
        }
    }
}
