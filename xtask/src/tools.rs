//! External tools at exact versions, in the user's cache.
//!
//! A folder is named after the hash of its lock file and is renamed into place when it is complete, so
//! that it is installed once and never partially.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{place, shell};

/// The oldest Python that the tools support.
pub(crate) const PYTHON_VERSION: &str = "3.11";
/// Exits with 0 if the interpreter is new enough and has venv.
const PYTHON_PROBE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";

/// Returns whether Node and npm are installed.
pub(crate) fn has_node() -> bool {
    let starts = |program: &str| shell::works(Command::new(program).arg("--version"));
    starts("node") && starts("npm")
}

/// Returns whether a Python that is new enough is installed, with venv.
pub(crate) fn has_python() -> bool {
    shell::works(Command::new("python3").args(["-c", PYTHON_PROBE]))
}

/// Returns the folder of a virtual environment with the packages of a `requirements.txt`, or nothing
/// without Python.
pub(crate) fn python(name: &str, lock: &Path) -> Result<Option<PathBuf>> {
    if !has_python() {
        return Ok(None);
    }
    let installed = installed(name, lock, |target| {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(target))?;
        let install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        let exactly = [
            "--require-hashes",
            "--no-deps",
            "--only-binary",
            ":all:",
            "-r",
        ];
        shell::run(
            Command::new(target.join("bin/python"))
                .args(install)
                .args(exactly)
                .arg(lock),
        )
    })?;
    Ok(Some(installed))
}

/// Returns the folder of this name for this lock file; installs it if it is missing.
pub(crate) fn installed(
    name: &str,
    lock: &Path,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let content = fs::read(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let tools = place::cache()?.join("tools");
    let complete = tools.join(format!("{name}-{:016x}", hash(&content)));
    if complete.is_dir() {
        return Ok(complete);
    }
    println!("installing {name} (once for each {})", lock.display());
    let beside = tools.join(format!("{name}-{}.part", std::process::id()));
    if beside.exists() {
        fs::remove_dir_all(&beside)
            .with_context(|| format!("cannot clear {}", beside.display()))?;
    }
    fs::create_dir_all(&beside).with_context(|| format!("cannot create {}", beside.display()))?;
    let done = install(&beside).and_then(|()| finish(&beside, &complete));
    if done.is_err() {
        // The error to report is the first one.
        drop(fs::remove_dir_all(&beside));
    }
    done.map(|()| complete)
}

fn finish(beside: &Path, complete: &Path) -> Result<()> {
    match fs::rename(beside, complete) {
        // Another process installed the same meanwhile.
        Err(_) if complete.is_dir() => Ok(fs::remove_dir_all(beside)?),
        renamed => renamed.with_context(|| format!("cannot create {}", complete.display())),
    }
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
