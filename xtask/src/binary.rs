//! The binaries that the steps work with, built in one way.
//!
//! Cargo builds a dependency anew when the set of packages wants other features of it. So every step
//! asks for the same set, and only the first one waits.

use std::path::PathBuf;

use anyhow::Result;

use crate::{place, shell};

/// The binary of sortie, unoptimised.
pub(crate) fn sortie() -> Result<PathBuf> {
    Ok(folder(&[])?.join("sortie"))
}

/// The same with its crash points.
pub(crate) fn with_crash_points() -> Result<PathBuf> {
    Ok(folder(&["--features", "sortie-cli/crash-points"])?.join("sortie"))
}

/// The folder of all binaries, unoptimised.
pub(crate) fn folder(more: &[&str]) -> Result<PathBuf> {
    let mut cargo = shell::cargo(&["build", "--quiet", "--workspace"])?;
    shell::run(
        cargo
            .args(["--bin", "sortie", "--bin", "sortie-load"])
            .args(more),
    )?;
    Ok(place::target()?.join("debug"))
}

/// The folder of all binaries, optimised.
pub(crate) fn optimised() -> Result<PathBuf> {
    let mut cargo = shell::cargo(&["build", "--quiet", "--profile", "bench-run"])?;
    shell::run(cargo.args(["-p", "sortie-cli", "-p", "sortie-bench"]))?;
    Ok(place::target()?.join("bench-run"))
}
