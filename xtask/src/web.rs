//! `cargo xtask web`: checks and unit tests of the page, and its browser tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{binary, place, shell, tools};

/// A copy of the lock file that was installed last. The build script of `crates/server` writes it too.
const STAMP: &str = "node_modules/.sortie-installed";

/// Runs the checks, the browser tests, or both.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => {
            checks()?;
            browser()
        }
        [one] if one == "--checks" => checks(),
        [one] if one == "--browser" => browser(),
        [other, ..] => bail!("unknown argument {other:?} of `web`; see `cargo xtask help`"),
    }
}

/// Checks types, lint rules and formatting, and runs the unit tests.
pub(crate) fn checks() -> Result<()> {
    let web = install()?;
    npm(&web, &["run", "check"])?;
    npm(&web, &["test"])
}

/// Runs the browser tests, against a mock server and the real one.
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

/// Installs the packages of the lock file and returns the folder of the page.
fn install() -> Result<PathBuf> {
    ensure!(
        tools::has_node(),
        "`node` and `npm` are required: install Node.js 20.19 or later"
    );
    let web = place::root().join("web");
    // A build of the page may install at the same time; both hold this lock meanwhile.
    let turn = File::open(web.join("package.json")).context("cannot open web/package.json")?;
    turn.lock().context("cannot lock web/package.json")?;
    let wanted =
        fs::read(web.join("package-lock.json")).context("cannot read web/package-lock.json")?;
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
    fs::write(&stamp, wanted).context("cannot write the stamp of installed packages")?;
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
