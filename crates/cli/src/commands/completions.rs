//! `sortie completions`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::problem::Problem;

/// Prints a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to print the script for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Exit, Problem> {
        // Generated into memory first: a closed pipe is then an error here and not a panic in clap.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "sortie", &mut script);
        std::io::stdout()
            .write_all(&script)
            .map_err(Problem::Output)?;
        Ok(Exit::Ok)
    }
}
