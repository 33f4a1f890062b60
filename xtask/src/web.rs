//! `cargo xtask web`: the page's own checks and tests, and the tests in a real browser.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{binary, place, shell, tools};

/// What was installed last: the lock file itself. The build script of `crates/server` keeps the same.
const STAMP: &str = "node_modules/.sortie-installed";

/// Runs the checks, the browser, or both.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => {
            checks()?;
            browser()
        }
        [one] if one == "--checks" => checks(),
        [one] if one == "--browser" => browser(),
        [other, ..] => bail!("web does not know {other:?}; `cargo xtask help` lists what it does"),
    }
}

/// Types and unit tests.
pub(crate) fn checks() -> Result<()> {
    let web = install()?;
    npm(&web, &["run", "check"])?;
    npm(&web, &["test"])
}

/// The whole story in a browser, against the real server.
pub(crate) fn browser() -> Result<()> {
    let web = install()?;
    let binary = binary::sortie()?;
    shell::run(
        Command::new("npm")
            .args(["run", "e2e"])
            .env("SORTIE_BIN", binary)
            .current_dir(web),
    )
}

/// The folder of the page, with what its lock file names.
fn install() -> Result<PathBuf> {
    ensure!(
        tools::has_node(),
        "no `node` and `npm` here: install Node.js 20 or later"
    );
    let web = place::root().join("web");
    // A build of the page does the same at the same time, and takes turns by the same lock.
    let turn = File::open(web.join("package.json")).context("the page has no package.json")?;
    turn.lock().context("waiting for a build of the page")?;
    let wanted = fs::read(web.join("package-lock.json")).context("the page has no lock file")?;
    let stamp = web.join(STAMP);
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(web);
    }
    let quiet = [
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    shell::run(Command::new("npm").arg("ci").args(quiet).current_dir(&web))?;
    fs::write(&stamp, wanted).context("noting what was installed")?;
    Ok(web)
}

fn npm(web: &Path, arguments: &[&str]) -> Result<()> {
    shell::run(
        Command::new("npm")
            .arg("--silent")
            .args(arguments)
            .current_dir(web),
    )
}
