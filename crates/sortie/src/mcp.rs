//! MCP servers: of the configuration, of a trusted project, and of trusted agent files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use sortie_config::McpServerConfig;
use sortie_definitions::{AgentFiles, McpServer};
use sortie_fetch::{Allow, Guard, HostRule};
use sortie_mcp::{
    Address, ApprovalFile, Endpoint, Pool, PoolSettings, Program, ServerConfig, ServerState,
    ToolRules, parse_mcp_json,
};

use crate::Options;
use crate::error::Error;
use crate::notices::Notices;

/// The file of a project that names MCP servers.
const MCP_FILE: &str = ".mcp.json";
/// Larger files of this name are ignored.
const MAX_MCP_FILE_BYTES: u64 = 1 << 20;

/// Connects to all MCP servers and lists their tools. A server that fails is reported; the others stay
/// usable. The servers end with the pool.
pub(crate) async fn connect(
    options: &Options,
    notices: &Notices,
    agents: &AgentFiles,
) -> Result<Option<Pool>, Error> {
    let (pool, problems) = pool(options, notices, agents)?;
    for problem in problems {
        notices.send(problem);
    }
    let Some(pool) = pool else {
        return Ok(None);
    };
    for report in pool.list_tools().await {
        if let ServerState::Unavailable(why) = &report.state {
            notices.send(format!("MCP server {}: {why}", report.server));
        }
        for change in &report.changes {
            notices.send(format!(
                "MCP server {0}: {1} has changed since it was approved and is not offered; look at it with `sortie mcp list`, then `sortie mcp approve {0}`",
                report.server, change.tool
            ));
        }
    }
    Ok(Some(pool))
}

/// Returns a pool of all MCP servers that are configured, and the problems of those that are left out.
/// No server is started yet.
pub(crate) fn pool(
    options: &Options,
    notices: &Notices,
    agents: &AgentFiles,
) -> Result<(Option<Pool>, Vec<String>), Error> {
    let mut servers = BTreeMap::new();
    let mut problems = Vec::new();
    let mut add = |name: String, found: Result<ServerConfig, String>, source: &str| match found {
        Ok(server) => {
            // Sources come in the order of their authority: the first to name a server wins.
            servers.entry(name).or_insert(server);
        }
        Err(why) => problems.push(format!("MCP server {name} ({source}): {why}")),
    };
    for (name, server) in &options.config.mcp_servers {
        add(name.clone(), configured(server), "configuration");
    }
    for (name, found) in project_servers(options, notices)? {
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
    let guard = guard(servers.values(), &mut problems);
    let helper = options.helper.as_ref();
    let environment = options.environment.for_commands().into_iter();
    let pool = Pool::new(
        servers.into_iter().collect(),
        PoolSettings {
            variables: options.environment.variables(),
            environment: environment
                .filter_map(|(name, value)| {
                    Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
                })
                .collect(),
            workspace: options.workspace.clone(),
            supervisor: helper
                .map(|helper| sortie_sandbox::supervisor(helper.path()))
                .unwrap_or_default(),
            guard,
            approvals: Arc::new(ApprovalFile::in_folder(&options.home)),
        },
    );
    Ok((Some(pool), problems))
}

/// Converts a configured server.
fn configured(server: &McpServerConfig) -> Result<ServerConfig, String> {
    let endpoint = match (&server.command, &server.url) {
        (Some(command), None) if command.trim().is_empty() => {
            return Err("`command` is empty".to_owned());
        }
        (Some(command), None) => Endpoint::Stdio(Program {
            command: command.clone(),
            args: server.args.clone(),
            env: server.env.clone(),
            cwd: server.cwd.as_ref().map(PathBuf::from),
        }),
        (None, Some(url)) => Endpoint::Http(Address {
            url: url.clone(),
            headers: server.headers.clone(),
        }),
        (Some(_), Some(_)) => {
            return Err("it has both `command` and `url`: remove one of them".to_owned());
        }
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    let mut config = ServerConfig::new(endpoint);
    config.disabled = server.disabled;
    if let Some(seconds) = server.timeout_seconds {
        config.timeout = Duration::from_secs(seconds);
    }
    if let Some(seconds) = server.startup_timeout_seconds {
        config.startup_timeout = Duration::from_secs(seconds);
    }
    config.tools = ToolRules {
        allow: server.tools.allow.clone(),
        deny: server.tools.deny.clone(),
    };
    Ok(config)
}

/// Reads the servers of the project's own file, if the project is trusted.
fn project_servers(
    options: &Options,
    notices: &Notices,
) -> Result<Vec<sortie_mcp::ConfiguredServer>, Error> {
    let Some(folder) = project_root(&options.workspace) else {
        return Ok(Vec::new());
    };
    let file = folder.join(MCP_FILE);
    let small = std::fs::metadata(&file)
        .is_ok_and(|file| file.is_file() && file.len() <= MAX_MCP_FILE_BYTES);
    if !small {
        return Ok(Vec::new());
    }
    if !options.is_trusted(folder) {
        notices.send(format!(
            "{} is ignored: the folder is not trusted (`sortie trust` trusts it)",
            file.display()
        ));
        return Ok(Vec::new());
    }
    // The file may have been replaced by a pipe or an endless file since the check above.
    let bytes = sortie_base::regular_file::read_followed(&file, MAX_MCP_FILE_BYTES);
    let text = String::from_utf8_lossy(&bytes.map_err(Error::Io)?).into_owned();
    Ok(match parse_mcp_json(&text) {
        Ok(found) => found,
        Err(why) => vec![(MCP_FILE.to_owned(), Err(why))],
    })
}

/// Returns the nearest folder that has the file, from `folder` up to the repository's root.
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

/// Returns the network guard for these servers: it lets requests through to their hosts, private ones
/// too, because the operator named them.
fn guard<'a>(
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
    let allow = Allow {
        hosts,
        ..Allow::default()
    };
    match Guard::new(allow) {
        Ok(guard) => Some(guard),
        Err(error) => {
            problems.push(format!("the network guard cannot be created: {error}"));
            None
        }
    }
}
