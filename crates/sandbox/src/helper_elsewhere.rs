//! Where there is no Linux there is no helper, and nothing is ever confined by one.

use std::ffi::OsString;
use std::process::ExitCode;

/// Never reported: there is no helper to report it.
pub const GROUP_IS_GONE: u8 = b'g';

/// Refuses.
pub fn run_helper(_words: impl Iterator<Item = OsString>) -> ExitCode {
    eprintln!("sortie sandbox: this system has no sandbox that Sortie knows");
    ExitCode::from(125)
}
