//! `cargo xtask recording`: the picture of the terminal in the README.

use anyhow::{Result, ensure};

use crate::shell;

/// The test that draws the picture from the real binary.
const TEST: &str = "recording::picture_of_the_terminal";

/// Runs the test, which writes `docs/terminal.svg`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "`recording` takes no arguments");
    let words = ["test", "-p", "sortie-cli", "--test", "it", TEST, "--"];
    shell::run(shell::cargo(&words)?.args(["--ignored", "--exact"]))
}
