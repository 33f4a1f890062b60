//! The binaries that the steps use, built with one command line.
//!
//! Cargo rebuilds a dependency when the set of packages requires other features of it. So every step
//! builds the same set, and only the first one takes time.

use std::path::PathBuf;

use anyhow::Result;

use crate::{place, shell};

/// Builds the binary `sortie`, unoptimised.
pub(crate) fn sortie() -> Result<PathBuf> {
    Ok(folder(&[])?.join("sortie"))
}

/// Builds the binary `sortie` with crash points.
pub(crate) fn with_crash_points() -> Result<PathBuf> {
    Ok(folder(&["--features", "sortie-cli/crash-points"])?.join("sortie"))
}

/// Builds all binaries, unoptimised, and returns their folder.
pub(crate) fn folder(more: &[&str]) -> Result<PathBuf> {
    let mut cargo = shell::cargo(&["build", "--quiet", "--workspace"])?;
    shell::run(
        cargo
            .args(["--bin", "sortie", "--bin", "sortie-load"])
            .args(more),
    )?;
    Ok(place::target()?.join("debug"))
}

/// Builds all binaries, optimised, and returns their folder.
pub(crate) fn optimised() -> Result<PathBuf> {
    let mut cargo = shell::cargo(&["build", "--quiet", "--release"])?;
    shell::run(cargo.args(["-p", "sortie-cli", "-p", "sortie-bench"]))?;
    Ok(place::target()?.join("release"))
}
