//! The commands, one file each.

mod agents;
mod completions;
mod config;
mod demo;
mod doctor;
mod models;
mod replay;
mod resume;
mod run;
mod spawn;
mod tasks;
mod trust;
mod usage;

use std::sync::Arc;

use clap::Subcommand;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Spawn(spawn::Spawn),
    /// Shows and manages tasks; looking works while another process runs them
    #[command(subcommand, visible_alias = "task")]
    Tasks(tasks::Tasks),
    Resume(resume::Resume),
    /// Shows the agents that runs can be made from
    #[command(subcommand, visible_alias = "agent")]
    Agents(agents::AgentsCommand),
    /// Shows which models can be used, and whether they answer
    #[command(subcommand, visible_alias = "model")]
    Models(models::ModelsCommand),
    Usage(usage::Usage),
    Replay(replay::Replay),
    /// Shows and changes the configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Trust(trust::Trust),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
}

/// Does what was asked.
pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    screen: &Arc<Screen>,
) -> Result<Exit, Problem> {
    match command {
        Command::Run(run) => run.run(settings, screen).await,
        Command::Spawn(spawn) => spawn.run(settings, screen).await,
        Command::Tasks(tasks) => tasks.run(settings, screen).await,
        Command::Resume(resume) => resume.run(settings, screen).await,
        Command::Agents(agents) => agents.run(settings),
        Command::Models(models) => models.run(settings).await,
        Command::Usage(usage) => usage.run(settings).await,
        Command::Replay(replay) => replay.run(settings, screen).await,
        Command::Config(config) => config.run(settings),
        Command::Trust(trust) => trust.run(settings),
        Command::Demo(demo) => demo.run(settings, screen).await,
        Command::Doctor(doctor) => doctor.run(settings).await,
        Command::Completions(completions) => completions.run(),
    }
}
