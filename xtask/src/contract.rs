//! `cargo xtask contract`: the wires of the real binary against servers and types that others wrote.
//!
//! aimock, a mock of all vendors, plays the model for `sortie run`; the official SDKs say whether
//! what Sortie sends and receives is what they would. Nothing of it is needed to build or to test
//! the rest: without Node or Python their part is left out, aloud.

mod cases;
mod install;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::place;
use crate::scratch::Scratch;
use crate::{binary, shell, tools};

/// Runs both parts; `--ci` does not let Node be missing.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let must_have_node = match arguments {
        [] => false,
        [one] if one == "--ci" => true,
        [other, ..] => {
            bail!("contract does not know {other:?}; `cargo xtask help` lists what it does")
        }
    };
    let binary = binary::sortie()?;
    let name = format!("sortie-contract-{}", std::process::id());
    let mut scratch = Scratch::new(&std::env::temp_dir(), &name)?;
    let done = parts(&binary, scratch.path(), must_have_node);
    if done.is_err() {
        scratch.keep();
        println!("what was left behind: {}", scratch.path().display());
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
                "no `node` and `npm` here: install Node.js 20 or later"
            );
            println!("LEFT OUT: the wires against aimock, as there is no `node` and `npm` here");
        }
    }
    match install::sdks()? {
        Some(python) => broken.extend(against_sdks(binary, &python, scratch)?),
        None => println!(
            "LEFT OUT: the wires against the official SDKs, as there is no Python {} or later with venv here",
            tools::PYTHON_VERSION
        ),
    }
    ensure!(
        broken.is_empty(),
        "contracts that do not hold: {}",
        broken.join(", ")
    );
    Ok(())
}

/// The cases that broke.
fn against_aimock(binary: &Path, aimock: &Path, scratch: &Path) -> Result<Vec<String>> {
    println!("against aimock:");
    let server = server::start(aimock, &folder().join("fixtures"))?;
    cases::run(&server, binary, &scratch.join("aimock"))
}

fn against_sdks(binary: &Path, python: &Path, scratch: &Path) -> Result<Vec<String>> {
    println!("against the official SDKs:");
    let scratch = scratch.join("sdk");
    std::fs::create_dir(&scratch).context("making a folder for the SDKs")?;
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

/// Where the parts in other languages are.
fn folder() -> PathBuf {
    place::root().join("tests/contract")
}
