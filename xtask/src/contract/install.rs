//! Installs the software that the contracts are compared with, at exact versions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::folder;
use crate::{shell, tools};

/// Returns the program of aimock, or nothing without Node.
pub(super) fn aimock() -> Result<Option<PathBuf>> {
    if !tools::has_node() {
        return Ok(None);
    }
    let lock = folder().join("package-lock.json");
    let installed = tools::installed("aimock", &lock, |target| {
        for name in ["package.json", "package-lock.json"] {
            let from = folder().join(name);
            fs::copy(&from, target.join(name)).with_context(|| format!("cannot copy {name}"))?;
        }
        let quiet = [
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ];
        shell::run(
            Command::new("npm")
                .arg("ci")
                .args(quiet)
                .current_dir(target),
        )
    })?;
    Ok(Some(
        installed.join("node_modules/@copilotkit/aimock/dist/cli.js"),
    ))
}

/// Returns an interpreter with the official SDKs, or nothing without Python.
pub(super) fn sdks() -> Result<Option<PathBuf>> {
    let installed = tools::python("sdk", &folder().join("requirements.txt"))?;
    Ok(installed.map(|folder| folder.join("bin/python")))
}
