//! Where there is no Linux there is no helper, and nothing is ever confined by one.

use std::ffi::OsString;
use std::process::ExitCode;

/// Refuses.
pub fn run_helper(_words: impl Iterator<Item = OsString>) -> ExitCode {
    eprintln!("sortie sandbox: this system has no sandbox that Sortie knows");
    ExitCode::from(125)
}
