//! `cargo xtask contract`: the wires of the real binary against servers and types that others wrote.
//!
//! aimock, a mock of all vendors, is the model of `sortie run`; the official SDKs check whether
//! Sortie sends and reads the same as they do. No build and no other test needs these tools: without
//! Node or Python their part is skipped with a message.

mod cases;
mod install;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::place;
use crate::scratch::Scratch;
use crate::{binary, shell, tools};

/// Runs both parts; with `--ci`, a missing Node is an error.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let must_have_node = match arguments {
        [] => false,
        [one] if one == "--ci" => true,
        [other, ..] => {
            bail!("unknown argument {other:?}; run `cargo xtask help`")
        }
    };
    let binary = binary::sortie()?;
    let name = format!("sortie-contract-{}", std::process::id());
    let mut scratch = Scratch::new(&std::env::temp_dir(), &name)?;
    let done = parts(&binary, scratch.path(), must_have_node);
    if done.is_err() {
        scratch.keep();
        println!("files kept in {}", scratch.path().display());
    }
    done
}

fn parts(binary: &Path, scratch: &Path, must_have_node: bool) -> Result<()> {
    let mut broken = Vec::new();
    match install::aimock()? {
        Some(aimock) => broken.extend(against_aimock(binary, &aimock, scratch)?),
        None => {
            ensure!(
                !must_have_node,
                "`node` or `npm` is missing: install Node.js 20 or later"
            );
            println!("SKIPPED: wires against aimock, because `node` or `npm` is missing");
        }
    }
    match install::sdks()? {
        Some(python) => broken.extend(against_sdks(binary, &python, scratch)?),
        None => println!(
            "SKIPPED: wires against the official SDKs, because Python {} or later with venv is missing",
            tools::PYTHON_VERSION
        ),
    }
    ensure!(broken.is_empty(), "broken contracts: {}", broken.join(", "));
    Ok(())
}

/// Runs the cases against aimock and returns those that failed.
fn against_aimock(binary: &Path, aimock: &Path, scratch: &Path) -> Result<Vec<String>> {
    println!("against aimock:");
    let server = server::start(aimock, &folder().join("fixtures"))?;
    cases::run(&server, binary, &scratch.join("aimock"))
}

fn against_sdks(binary: &Path, python: &Path, scratch: &Path) -> Result<Vec<String>> {
    println!("against the official SDKs:");
    let scratch = scratch.join("sdk");
    std::fs::create_dir(&scratch).context("cannot create a folder for the SDKs")?;
    let script = folder().join("check_sdk.py");
    // Without `-B` the interpreter would leave compiled files in the project.
    let checked = shell::run(
        Command::new(python)
            .arg("-B")
            .args([&script, binary, &scratch]),
    );
    match checked {
        Ok(()) => Ok(Vec::new()),
        Err(error) if error.is::<shell::Failed>() => Ok(vec!["with the official SDKs".to_owned()]),
        Err(error) => Err(error),
    }
}

/// Returns the folder of the parts in other languages.
fn folder() -> PathBuf {
    place::root().join("tests/contract")
}
