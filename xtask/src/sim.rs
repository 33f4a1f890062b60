//! `cargo xtask sim`: runs the real runtime in a simulated world, seed after seed.

use anyhow::Result;

use crate::shell;

/// Simulates `[COUNT] [FIRST SEED]`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let fixed = ["run", "--quiet", "--release"];
    let package = ["-p", "sortie-test-support", "--bin", "sortie-sim", "--"];
    shell::run(shell::cargo(&fixed)?.args(package).args(arguments))
}
