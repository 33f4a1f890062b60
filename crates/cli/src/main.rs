//! `sortie`: the command line. The only crate that reads the environment.
#![cfg_attr(
    not(all(feature = "mcp", feature = "server")),
    expect(dead_code, reason = "what only `sortie serve` and `sortie mcp` use")
)]

mod approval;
mod arguments;
mod chat;
mod choice;
mod colors;
mod commands;
mod configuration;
mod delegation;
mod engine;
mod exit;
mod follow;
mod foreground;
mod help;
#[cfg(test)]
mod hidden_characters;
mod ids;
mod keyboard;
mod lock;
mod log;
mod open_files;
mod output;
mod person;
mod private;
mod problem;
mod process_identity;
mod progress;
mod report;
mod run_flags;
mod screen;
mod serving;
mod settings;
mod signals;
mod table;
mod theme;
mod top;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{Settings, environment};

/// How long dropped futures may take to stop their processes.
const LAST_GRACE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // Sandboxed commands start this binary again, as their helper.
    let helper = match sortie::sandbox_helper() {
        Ok(helper) => helper,
        Err(exit) => return exit,
    };
    keep_memory_private();
    let environment = environment();
    let arguments = Arguments::of_process(&environment);
    let settings = match Settings::new(&arguments.global, environment, helper) {
        Ok(settings) => settings,
        Err(failed) => return failed.problem.report(failed.lang).into(),
    };
    let screen = Arc::new(Screen::new(&settings));
    log::start(&settings, arguments.global.verbose, &screen);
    run(arguments, &settings, &screen).into()
}

/// Keeps other programs of the same user out of this process's memory and environment, where keys
/// are: a shell command of an agent is such a program. Root is not kept out.
fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        output::note(&format!("sortie: memory cannot be kept private: {error}"));
    }
}

fn run(arguments: Arguments, settings: &Settings, screen: &Arc<Screen>) -> Exit {
    let tokio = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(tokio) => tokio,
        Err(error) => return problem::Problem::Process(error).report(settings.lang),
    };
    let ended = tokio.block_on(commands::run(arguments.command, settings, screen));
    screen.clear();
    tokio.shutdown_timeout(LAST_GRACE);
    ended.unwrap_or_else(|problem| problem.report(settings.lang))
}
