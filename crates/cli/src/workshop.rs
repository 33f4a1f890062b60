//! The tools that agents are given, and what holds them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::{Value, json};
use sortie_base::hidden::write_out_line;
use sortie_config::{McpServerConfig, SandboxChoice, Secret, TrustStore};
use sortie_core::Tool;
use sortie_definitions::{AgentFiles, McpServer, SkillTool};
use sortie_fetch::{Allow, Guard, HostRule, SearchSettings, WebFetch, WebSearch};
use sortie_mcp::{
    ApprovalFile, Endpoint, Pool, PoolSettings, ServerConfig, ServerState, parse_mcp_json,
};
use sortie_sandbox::{Mode, Offer, Places, Sandbox, probe};
use sortie_text::t;
use sortie_tools::{ExecSettings, ToolSettings, standard_tools};

use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// The folder of the home with notes of workspaces that were not swept after a command.
const NOTES: &str = "unswept";
/// The file of a project that names MCP servers.
const MCP_FILE: &str = ".mcp.json";
/// The largest such file that is read.
const MAX_MCP_FILE_BYTES: u64 = 1 << 20;

/// The tools that need no server: files, shell, delegation, skills and the web.
pub(crate) fn tools(
    settings: &Settings,
    sandbox: &Arc<Sandbox>,
) -> Result<Vec<Arc<dyn Tool>>, Problem> {
    let mut tools = standard_tools(ToolSettings {
        exec: ExecSettings {
            environment: settings.exec_environment.clone(),
        },
        sandbox: Some(Arc::clone(sandbox)),
        places: places(settings),
    });
    tools.push(Arc::new(SkillTool::new()));
    tools.extend(web_tools(settings)?);
    Ok(tools)
}

/// The MCP servers, with their tools listed; what is wrong with one is said, and stops nobody.
pub(crate) async fn mcp_servers(
    settings: &Settings,
    agents: &AgentFiles,
) -> Result<Option<Pool>, Problem> {
    let (pool, problems) = mcp_pool(settings, agents)?;
    for problem in problems {
        output::note(&problem);
    }
    let Some(pool) = pool else {
        return Ok(None);
    };
    for report in pool.list_tools().await {
        if let ServerState::Unavailable(why) = &report.state {
            output::note(&format!("MCP server {}: {why}", report.server));
        }
        for change in &report.changes {
            output::note(&format!(
                "MCP server {0}: {1} has changed since it was approved and is not offered; look at it with `sortie mcp list`, then `sortie mcp approve {0}`",
                report.server, change.tool
            ));
        }
    }
    Ok(Some(pool))
}

/// The MCP servers of the configuration, of a trusted project, and of trusted agent files; with what
/// is wrong with others.
pub(crate) fn mcp_pool(
    settings: &Settings,
    agents: &AgentFiles,
) -> Result<(Option<Pool>, Vec<String>), Problem> {
    let mut servers = BTreeMap::new();
    let mut problems = Vec::new();
    let mut add = |name: String, found: Result<ServerConfig, String>, source: &str| match found {
        Ok(server) => {
            // The first to name a server is the nearest to the operator.
            servers.entry(name).or_insert(server);
        }
        Err(why) => problems.push(format!("MCP server {name} ({source}): {why}")),
    };
    for (name, server) in &settings.configuration.config().mcp_servers {
        add(name.clone(), configured(server), "configuration");
    }
    for (name, found) in project_servers(settings)? {
        add(name, found, MCP_FILE);
    }
    for agent in &agents.agents {
        for server in &agent.mcp_servers {
            if let McpServer::Inline { name, config } = server {
                let found = ServerConfig::deserialize(config).map_err(|error| error.to_string());
                add(name.clone(), found, &agent.file.display().to_string());
            }
        }
    }
    if servers.is_empty() {
        return Ok((None, problems));
    }
    let guard = mcp_guard(servers.values(), &mut problems);
    let helper = std::env::current_exe().map_err(Problem::Process)?;
    let environment = settings.exec_environment.iter();
    let pool = Pool::new(
        servers.into_iter().collect(),
        PoolSettings {
            variables: settings.provider_variables.clone(),
            environment: environment
                .filter_map(|(name, value)| {
                    Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
                })
                .collect(),
            workspace: settings.folder.clone(),
            supervisor: sortie_sandbox::supervisor(&helper),
            guard,
            approvals: Arc::new(ApprovalFile::in_folder(&settings.home)),
        },
    );
    Ok((Some(pool), problems))
}

/// A server as it was configured. Its secrets are needed here, and nowhere else.
fn configured(server: &McpServerConfig) -> Result<ServerConfig, String> {
    let exposed = |secrets: &BTreeMap<String, Secret>| -> BTreeMap<String, String> {
        let pairs = secrets.iter();
        pairs
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect()
    };
    let mut written = json!({
        "command": server.command,
        "args": server.args,
        "env": exposed(&server.env),
        "cwd": server.cwd,
        "url": server.url,
        "headers": exposed(&server.headers),
        "disabled": server.disabled,
        "timeout_seconds": server.timeout_seconds,
        "startup_timeout_seconds": server.startup_timeout_seconds,
        "tools": {"allow": server.tools.allow, "deny": server.tools.deny},
    });
    if let Value::Object(fields) = &mut written {
        // What was not set is not there, and a program has no headers.
        fields.retain(|_, value| {
            !value.is_null() && value.as_object().is_none_or(|inside| !inside.is_empty())
        });
        if let Some(Value::Object(rules)) = fields.get_mut("tools") {
            rules.retain(|_, list| !list.is_null());
        }
        if server.url.is_some() {
            fields.remove("args");
        }
    }
    ServerConfig::deserialize(written).map_err(|error| error.to_string())
}

/// The servers of the project's own file, if the project is trusted.
fn project_servers(settings: &Settings) -> Result<Vec<sortie_mcp::Found>, Problem> {
    let places = &settings.configuration.places;
    let Some(folder) = project_root(&settings.folder) else {
        return Ok(Vec::new());
    };
    let file = folder.join(MCP_FILE);
    let small = std::fs::metadata(&file)
        .is_ok_and(|file| file.is_file() && file.len() <= MAX_MCP_FILE_BYTES);
    let trusted = TrustStore::open(&places.trust_file).is_ok_and(|store| store.is_trusted(folder));
    if !small {
        return Ok(Vec::new());
    }
    if !trusted {
        output::note(&format!(
            "{} is left alone: the folder is not trusted (`sortie trust` changes that)",
            file.display()
        ));
        return Ok(Vec::new());
    }
    // The file may have become a pipe or an endless one since it was looked at.
    let bytes = sortie_base::regular_file::read_followed(&file, MAX_MCP_FILE_BYTES);
    let text = String::from_utf8_lossy(&bytes.map_err(Problem::Process)?).into_owned();
    Ok(match parse_mcp_json(&text) {
        Ok(found) => found,
        Err(why) => vec![(MCP_FILE.to_owned(), Err(why))],
    })
}

/// The folder itself or the nearest above it that has the file, up to the repository's root.
fn project_root(folder: &Path) -> Option<&Path> {
    for above in folder.ancestors() {
        if above.join(MCP_FILE).exists() {
            return Some(above);
        }
        if above.join(".git").exists() {
            return None;
        }
    }
    None
}

/// Lets servers be asked where the operator says they are, wherever that is.
fn mcp_guard<'a>(
    servers: impl Iterator<Item = &'a ServerConfig>,
    problems: &mut Vec<String>,
) -> Option<Guard> {
    let mut hosts = Vec::new();
    for server in servers {
        if let Endpoint::Http(address) = &server.endpoint
            && let Ok(url) = address.url.parse::<url::Url>()
            && let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default())
        {
            match HostRule::exact(host, port) {
                Ok(rule) => hosts.push(rule),
                Err(why) => problems.push(format!("MCP server at {host}: {why}")),
            }
        }
    }
    guard(hosts, problems)
}

fn guard(hosts: Vec<HostRule>, problems: &mut Vec<String>) -> Option<Guard> {
    let allow = Allow {
        hosts,
        ..Allow::default()
    };
    match Guard::new(allow) {
        Ok(guard) => Some(guard),
        Err(error) => {
            problems.push(format!("the network guard cannot be made: {error}"));
            None
        }
    }
}

fn web_tools(settings: &Settings) -> Result<Vec<Arc<dyn Tool>>, Problem> {
    let config = &settings.configuration.config().web;
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if config.fetch {
        let hosts: Result<Vec<HostRule>, _> =
            config.allow_hosts.iter().map(|host| host.parse()).collect();
        let hosts = hosts.map_err(|error| Problem::Web(error.to_string()))?;
        let mut problems = Vec::new();
        match guard(hosts, &mut problems) {
            Some(guard) => tools.push(Arc::new(WebFetch::new(guard))),
            None => return Err(Problem::Web(problems.join("; "))),
        }
    }
    let search = &config.search;
    let named = search.api_key_env.as_ref();
    let key = search
        .api_key
        .as_ref()
        .map(Secret::expose)
        .or_else(|| Some(settings.provider_variables.get(named?)?.as_str()));
    let search = WebSearch::new(&SearchSettings {
        provider: search.provider.clone().unwrap_or_default(),
        key: key.map(Secret::trimmed),
        base_url: search.base_url.clone(),
        count: search.count.map(|count| count as usize),
    });
    if let Some(search) = search.map_err(|error| Problem::Web(error.to_string()))? {
        tools.push(Arc::new(search));
    }
    Ok(tools)
}

/// What holds the commands of agents, as the operator chose it.
pub(crate) fn sandbox(settings: &Settings) -> Result<Sandbox, Problem> {
    let mode = match settings.configuration.config().sandbox.mode {
        SandboxChoice::Required => Mode::Best,
        SandboxChoice::Off => Mode::Off,
    };
    let helper = std::env::current_exe().map_err(Problem::Process)?;
    Ok(
        Sandbox::new(mode, offer(settings)?, places(settings), helper)
            .with_notes(settings.home.join(NOTES)),
    )
}

/// Neutralises what commands of processes that died have left in their workspaces, and reports it.
pub(crate) async fn recover(settings: &Settings, sandbox: &Arc<Sandbox>) {
    let sandbox = Arc::clone(sandbox);
    let recovered = tokio::task::spawn_blocking(move || sandbox.recover()).await;
    let recovered = recovered.map_err(std::io::Error::other).flatten();
    match recovered {
        Ok(reports) => {
            for (workspace, things) in reports {
                for thing in things {
                    output::note(&t!(
                        settings.lang,
                        "recovered-workspace",
                        workspace = write_out_line(&workspace.display().to_string()),
                        thing = write_out_line(&thing.sentence())
                    ));
                }
            }
        }
        Err(error) => output::note(&t!(
            settings.lang,
            "recover-failed",
            problem = error.to_string()
        )),
    }
}

/// What this machine can hold commands with.
pub(crate) fn offer(settings: &Settings) -> Result<Offer, Problem> {
    let helper = std::env::current_exe().map_err(Problem::Process)?;
    Ok(probe(&places(settings), &helper))
}

fn places(settings: &Settings) -> Places {
    Places {
        home: settings.user_home.clone(),
        path: settings.safe_path(),
        scratch: settings.scratch.clone(),
        own: vec![settings.home.clone(), settings.config_folder.clone()],
    }
}
