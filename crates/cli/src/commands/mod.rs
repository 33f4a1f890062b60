//! The commands, one file each.

mod agents;
mod approvals;
mod audit;
mod completions;
mod config;
mod demo;
mod doctor;
mod keys;
mod mcp;
mod models;
mod open;
mod policy;
mod replay;
mod resume;
mod run;
mod serve;
mod skills;
mod spawn;
mod status;
mod stop;
mod tasks;
mod trust;
mod usage;

use std::sync::Arc;

use clap::Subcommand;

use crate::exit::Exit;
use crate::private;
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
    Serve(serve::Serve),
    Open(open::Open),
    Status(status::Status),
    Stop(stop::Stop),
    /// Shows and changes who may use the server
    #[command(subcommand, visible_alias = "key")]
    Keys(keys::KeysCommand),
    #[command(visible_alias = "approval")]
    Approvals(approvals::Approvals),
    Audit(audit::Audit),
    /// Shows what agents may do, and who says so; nothing is run
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Shows the agents that runs can be made from, and checks their files
    #[command(subcommand, visible_alias = "agent")]
    Agents(agents::AgentsCommand),
    /// Shows the skills that agents can load
    #[command(subcommand, visible_alias = "skill")]
    Skills(skills::SkillsCommand),
    /// Shows the servers of tools, and approves tools that have changed
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
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

/// Runs the command.
pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    screen: &Arc<Screen>,
) -> Result<Exit, Problem> {
    match &command {
        // The doctor shows the same findings; `status` has two exit codes only, and runs the check
        // itself.
        Command::Doctor(_) | Command::Status(_) | Command::Completions(_) => {}
        Command::Run(_)
        | Command::Spawn(_)
        | Command::Tasks(_)
        | Command::Resume(_)
        | Command::Serve(_)
        | Command::Open(_)
        | Command::Stop(_)
        | Command::Keys(_)
        | Command::Approvals(_)
        | Command::Audit(_)
        | Command::Policy(_)
        | Command::Agents(_)
        | Command::Skills(_)
        | Command::Mcp(_)
        | Command::Models(_)
        | Command::Usage(_)
        | Command::Replay(_)
        | Command::Config(_)
        | Command::Trust(_)
        | Command::Demo(_) => private::enforce(settings)?,
    }
    match command {
        Command::Run(run) => run.run(settings, screen).await,
        Command::Spawn(spawn) => spawn.run(settings, screen).await,
        Command::Tasks(tasks) => tasks.run(settings).await,
        Command::Resume(resume) => resume.run(settings, screen).await,
        Command::Serve(serve) => serve.run(settings, screen).await,
        Command::Open(open) => open.run(settings).await,
        Command::Status(status) => status.run(settings).await,
        Command::Stop(stop) => stop.run(settings).await,
        Command::Keys(keys) => keys.run(settings),
        Command::Approvals(approvals) => approvals.run(settings).await,
        Command::Audit(audit) => audit.run(settings).await,
        Command::Policy(policy) => policy.run(settings).await,
        Command::Agents(agents) => agents.run(settings),
        Command::Skills(skills) => skills.run(settings),
        Command::Mcp(mcp) => mcp.run(settings).await,
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
