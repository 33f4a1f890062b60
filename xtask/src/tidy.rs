//! `cargo xtask tidy`: the rules of the architecture, as code.

mod arrows;
mod copies;
mod sources;
mod wording;

use anyhow::{Result, bail};

/// Checks every rule and prints each violation.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(other) = arguments.first() {
        bail!("unknown argument {other:?}; `cargo xtask tidy` takes none");
    }
    let mut problems = arrows::problems()?;
    problems.extend(sources::problems()?);
    for problem in &problems {
        println!("tidy: {problem}");
    }
    match problems.len() {
        0 => {
            println!("tidy: dependencies, sources and wording are in order");
            Ok(())
        }
        count => bail!("{count} rules of the project are broken; see above"),
    }
}
