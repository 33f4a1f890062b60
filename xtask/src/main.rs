//! The project's own commands: `cargo xtask help` lists them.

mod api;
mod bench;
mod binary;
mod cluster;
mod contract;
mod crash;
mod dist;
mod docs;
mod help;
mod load;
mod local_server;
mod measure;
mod place;
mod random;
mod recording;
mod rust_text;
mod scratch;
mod setup;
mod shell;
mod sim;
mod test;
mod tidy;
mod tools;
mod tree;
mod web;
mod wording;

use std::process::ExitCode;

use anyhow::{Result, bail};

use shell::Failed;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let code = error
                .downcast_ref::<Failed>()
                .map_or(1, |failed| failed.code);
            ExitCode::from(code)
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<()> {
    let command = if arguments.is_empty() {
        "help".to_owned()
    } else {
        arguments.remove(0)
    };
    match command.as_str() {
        "test" => test::run(&arguments),
        "crash" => crash::run(&arguments),
        "cluster" => cluster::run(&arguments),
        "dist" => dist::run(&arguments),
        "contract" => contract::run(&arguments),
        "api" => api::run(&arguments),
        "web" => web::run(&arguments),
        "sim" => sim::run(&arguments),
        "bench" => bench::run(&arguments),
        "load" => load::run(&arguments),
        "tidy" => tidy::run(&arguments),
        "docs" => docs::run(&arguments),
        "measure" => measure::run(&arguments),
        "recording" => recording::run(&arguments),
        "help" | "-h" | "--help" => {
            help::print();
            Ok(())
        }
        other => bail!("unknown command {other:?}; run `cargo xtask help`"),
    }
}
