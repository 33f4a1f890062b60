//! Locations of files. The only file of xtask that reads the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Returns the root of the project.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Returns the folder of this project in the user's cache, for files that can be recreated at a cost.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(cache) = variable("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()) {
        return Ok(PathBuf::from(cache).join("sortie"));
    }
    let home = variable("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/sortie"))
}

/// Returns cargo's target folder.
pub(crate) fn target() -> Result<PathBuf> {
    match variable("CARGO_TARGET_DIR") {
        Some(target) => Ok(root().join(target)),
        None => Ok(cache()?.join("target")),
    }
}

/// Returns cargo's folder of registries and sources.
pub(crate) fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = variable("CARGO_HOME") {
        return Ok(PathBuf::from(home));
    }
    let home = variable("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cargo"))
}

/// Returns the cargo that started this program.
pub(crate) fn cargo() -> OsString {
    variable("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Finds a program on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = variable("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Returns whether a variable of the environment is 1.
pub(crate) fn switched_on(name: &str) -> bool {
    variable(name).is_some_and(|value| value == "1")
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is a command line of its own, and only this function reads the environment"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
