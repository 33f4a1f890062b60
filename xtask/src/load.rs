//! `cargo xtask load`: the real server under load.

use anyhow::Result;

use crate::{binary, shell};

/// Measures an optimised build; `--ci` is the short form, with the binaries of the tests.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let short = arguments.iter().any(|argument| argument == "--ci");
    let folder = if short {
        binary::folder(&[])?
    } else {
        binary::optimised()?
    };
    let mut load = std::process::Command::new(folder.join("sortie-load"));
    load.arg("--sortie").arg(folder.join("sortie"));
    if short {
        load.arg("--short");
    }
    load.args(arguments.iter().filter(|argument| *argument != "--ci"));
    shell::run(&mut load)
}
