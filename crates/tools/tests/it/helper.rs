//! The helper of the sandbox as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|argument| argument == sortie_sandbox::HELPER_COMMAND)
    {
        return sortie_sandbox::run_helper(arguments);
    }
    eprintln!("This program is started by the sandbox of Sortie and has no use on its own.");
    ExitCode::FAILURE
}
