//! `cargo xtask bench`: measures an optimised build.

use std::process::Command;

use anyhow::Result;

use crate::{binary, place, shell};

/// Builds the binaries and runs the benchmark with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let folder = binary::optimised()?;
    let mut bench = Command::new(folder.join("sortie-bench"));
    bench.arg("--sortie").arg(folder.join("sortie"));
    // The short form measures too little for the plot that the documentation shows.
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--growth") && !has("--quick") && !has("--plot") {
        bench
            .arg("--plot")
            .arg(place::root().join("docs/growth.svg"));
    }
    shell::run(bench.args(arguments))
}
