//! The helper of the sandbox as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words
        .next()
        .is_some_and(|word| word == sortie_sandbox::HELPER_COMMAND)
    {
        return sortie_sandbox::run_helper(words);
    }
    eprintln!("This program is started by the sandbox of Sortie and has no use on its own.");
    ExitCode::FAILURE
}
