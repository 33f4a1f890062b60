//! Starts other programs.

use std::fmt;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::place;

/// A program that failed; its exit code becomes ours.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) what: String,
    pub(crate) code: u8,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed with exit code {}", self.what, self.code)
    }
}

impl std::error::Error for Failed {}

/// Returns cargo in the root of the project, with the shared target folder.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(place::cargo());
    command
        .args(arguments)
        .current_dir(place::root())
        .env("CARGO_TARGET_DIR", place::target()?);
    Ok(command)
}

/// Runs a program to its end with inherited output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let what = shown(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{what}`"))?;
    if status.success() {
        return Ok(());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Err(Failed {
        what,
        code: code.filter(|code| *code != 0).unwrap_or(1),
    }
    .into())
}

/// Runs a program to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let what = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{what}`"))?;
    anyhow::ensure!(
        output.status.success(),
        "`{what}` failed with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("the output of `{what}` is not UTF-8"))
}

/// Returns whether a program starts and succeeds.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
