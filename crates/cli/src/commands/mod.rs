//! The commands, one file each.

mod agents;
pub(crate) mod approvals;
mod audit;
mod completions;
mod config;
mod demo;
mod doctor;
mod hooks;
mod init;
#[cfg(feature = "server")]
mod keys;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod models;
mod open;
mod policy;
mod replay;
mod resume;
pub(crate) mod run;
#[cfg(feature = "server")]
mod serve;
mod skills;
mod spawn;
mod status;
mod stop;
mod store;
pub(crate) mod tasks;
mod tenants;
mod trust;
mod usage;
mod worker;
mod workers;

use std::sync::Arc;

use clap::Subcommand;

use crate::exit::Exit;
use crate::private;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Chat(Box<crate::chat::Chat>),
    Init(init::Init),
    Top(crate::top::Top),
    Run(run::Run),
    Spawn(spawn::Spawn),
    /// Shows and manages tasks, also while another process executes them
    #[command(subcommand, visible_alias = "task")]
    Tasks(tasks::Tasks),
    Resume(resume::Resume),
    #[cfg(feature = "server")]
    Serve(serve::Serve),
    Worker(worker::Worker),
    Workers(workers::Workers),
    Tenants(tenants::Tenants),
    Open(open::Open),
    Status(status::Status),
    Stop(stop::Stop),
    /// Checks, migrates, copies and backs up the store of the tasks
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Manages the API keys of the server
    #[cfg(feature = "server")]
    #[command(subcommand, visible_alias = "key")]
    Keys(keys::KeysCommand),
    #[command(visible_alias = "approval")]
    Approvals(approvals::Approvals),
    Audit(audit::Audit),
    /// Shows what agents may do, and which layer decides; runs nothing
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Lists and shows agents, and checks their files
    #[command(subcommand, visible_alias = "agent")]
    Agents(agents::AgentsCommand),
    /// Lists and shows the skills that agents can load
    #[command(subcommand, visible_alias = "skill")]
    Skills(skills::SkillsCommand),
    /// Lists and tests hooks, and shows what could not be delivered to them
    #[command(subcommand, visible_alias = "hook")]
    Hooks(hooks::HooksCommand),
    /// Shows MCP servers and approves tools whose descriptions changed
    #[cfg(feature = "mcp")]
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Lists models and checks that they respond
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
    Man(man::Man),
}

pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    screen: &Arc<Screen>,
) -> Result<Exit, Problem> {
    // The doctor shows the same findings; `status` has two exit codes only, and runs the check itself.
    let checks_itself = matches!(
        command,
        Command::Doctor(_) | Command::Status(_) | Command::Completions(_) | Command::Man(_)
    );
    if !checks_itself {
        settings.check_home()?;
        private::enforce(settings)?;
    }
    match command {
        Command::Chat(chat) => chat.run(settings, screen).await,
        Command::Top(top) => top.run(settings, screen).await,
        Command::Init(init) => init.run(settings).await,
        Command::Run(run) => run.run(settings, screen).await,
        Command::Spawn(spawn) => spawn.run(settings, screen).await,
        Command::Tasks(tasks) => tasks.run(settings).await,
        Command::Resume(resume) => resume.run(settings, screen).await,
        #[cfg(feature = "server")]
        Command::Serve(serve) => serve.run(settings, screen).await,
        Command::Worker(worker) => worker.run(settings, screen).await,
        Command::Workers(workers) => workers.run(settings).await,
        Command::Tenants(tenants) => tenants.run(settings).await,
        Command::Open(open) => open.run(settings).await,
        Command::Status(status) => status.run(settings).await,
        Command::Stop(stop) => stop.run(settings).await,
        Command::Store(store) => store.run(settings).await,
        #[cfg(feature = "server")]
        Command::Keys(keys) => keys.run(settings),
        Command::Approvals(approvals) => approvals.run(settings).await,
        Command::Audit(audit) => audit.run(settings).await,
        Command::Policy(policy) => policy.run(settings).await,
        Command::Agents(agents) => agents.run(settings),
        Command::Skills(skills) => skills.run(settings),
        Command::Hooks(hooks) => hooks.run(settings).await,
        #[cfg(feature = "mcp")]
        Command::Mcp(mcp) => mcp.run(settings).await,
        Command::Models(models) => models.run(settings).await,
        Command::Usage(usage) => usage.run(settings).await,
        Command::Replay(replay) => replay.run(settings, screen).await,
        Command::Config(config) => config.run(settings),
        Command::Trust(trust) => trust.run(settings),
        Command::Demo(demo) => demo.run(settings, screen).await,
        Command::Doctor(doctor) => doctor.run(settings).await,
        Command::Completions(completions) => completions.run(settings).await,
        Command::Man(man) => man.run(settings),
    }
}
