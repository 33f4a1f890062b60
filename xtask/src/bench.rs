//! `cargo xtask bench`: measures an optimised build.

use anyhow::Result;

use crate::shell;

/// Runs the benchmark with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let fixed = ["run", "--profile", "bench-run", "-p", "sortie-bench", "--"];
    shell::run(shell::cargo(&fixed)?.args(arguments))
}
