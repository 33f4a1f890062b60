//! How a server is written down: the union of what `.mcp.json`, `mcpServers` and other agents' files
//! say. Unknown keys are no mistake.
//!
//! Read by hand rather than derived, because a derived error quotes the value it did not like, and the
//! value may be a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use sortie_base::wildcard::matches_any;

use crate::Secret;
use crate::name::check_server_name;

/// Default timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Default timeout of a start.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);
/// Upper limit of configured timeouts.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;
/// Limit of a configuration file.
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Limit of servers in one file.
const MAX_SERVERS: usize = 64;
/// Limit of arguments, variables, headers or tool names of one server.
const MAX_ENTRIES: usize = 256;

/// One server: how to reach it, and how far to trust it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub endpoint: Endpoint,
    /// Whether the server is configured but not used.
    pub disabled: bool,
    /// Timeout of one call.
    pub timeout: Duration,
    /// Timeout of start, handshake and listing together.
    pub startup_timeout: Duration,
    /// Which of its tools are offered.
    pub tools: ToolRules,
}

/// How to connect to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// A child process with the protocol on its standard input and output.
    Stdio(Program),
    /// A URL with the protocol over streamable HTTP.
    Http(Address),
}

/// A program to start. Its texts may contain `${VAR}`.
#[derive(Clone, PartialEq)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    /// Its variables, beside the allow-listed ones.
    pub env: BTreeMap<String, Secret>,
    /// Working directory, relative to the workspace.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may contain keys: only their number is shown.
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// A URL to connect to. Its texts may contain `${VAR}`.
#[derive(Clone, PartialEq)]
pub struct Address {
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query may contain keys, and the user info passwords.
        let visible = self.url.split(['?', '#']).next().unwrap_or_default();
        let visible = visible.rsplit('@').next().unwrap_or_default();
        f.debug_struct("Address")
            .field("url", &visible)
            .field("headers", &self.headers)
            .finish()
    }
}

/// Which tools of a server are offered: deny takes precedence over allow, `*` matches any text,
/// and case is ignored, as in every other rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Only these; `None` means all, an empty list none.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

impl ToolRules {
    /// Returns whether a tool is offered, by the server's name for it.
    pub fn permits(&self, tool: &str) -> bool {
        let listed = |patterns: &[String]| matches_any(patterns, tool);
        self.allow.as_deref().is_none_or(listed) && !listed(&self.deny)
    }

    /// Returns the patterns that match none of the announced tools.
    pub(crate) fn without_tool<'a, 'b>(
        &'a self,
        tools: impl Iterator<Item = &'b str> + Clone,
    ) -> impl Iterator<Item = &'a str> {
        let patterns = self.allow.iter().flatten().chain(&self.deny);
        patterns.map(String::as_str).filter(move |pattern| {
            let mut tools = tools.clone();
            !tools.any(|tool| matches_any(&[pattern], tool))
        })
    }
}

/// A server from a file: its name, and its settings or the error in them.
pub type ConfiguredServer = (String, Result<ServerConfig, String>);

/// Reads `.mcp.json` and similar files. One invalid server does not affect the others; only text that is
/// not such a file at all is an error.
pub fn parse_mcp_json(text: &str) -> Result<Vec<ConfiguredServer>, String> {
    if text.len() > MAX_FILE_BYTES {
        return Err(format!("it is larger than {MAX_FILE_BYTES} bytes"));
    }
    // The parser's message quotes only the position.
    let whole: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("line {}: it is not a JSON object", error.line()))?;
    let servers = ["mcpServers", "mcp_servers", "servers", "mcp"]
        .iter()
        .find_map(|key| whole.get(*key));
    let servers = match servers {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err("mcpServers must be an object of servers by name".to_owned()),
        None => &whole,
    };
    if servers.len() > MAX_SERVERS {
        return Err(format!("it names more than {MAX_SERVERS} servers"));
    }
    let found = servers.iter();
    Ok(found
        .map(|(name, value)| (name.clone(), named(name, value)))
        .collect())
}

fn named(name: &str, value: &Value) -> Result<ServerConfig, String> {
    check_server_name(name)?;
    let fields = value
        .as_object()
        .ok_or("a server must be an object with `command` or `url`")?;
    ServerConfig::from_fields(fields)
}

impl<'de> Deserialize<'de> for ServerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)
            .map_err(|_| D::Error::custom("a server must be a table with `command` or `url`"))?;
        Self::from_fields(&fields).map_err(D::Error::custom)
    }
}

impl ServerConfig {
    /// Returns a server that is enabled, offers all its tools, and has the default timeouts.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            disabled: false,
            timeout: CALL_TIMEOUT,
            startup_timeout: STARTUP_TIMEOUT,
            tools: ToolRules::default(),
        }
    }

    /// Reads the settings of one server.
    pub fn from_fields(fields: &Map<String, Value>) -> Result<Self, String> {
        let fields = Fields(fields);
        let enabled = fields.flag(&["enabled"])?.unwrap_or(true);
        Ok(Self {
            endpoint: endpoint(&fields)?,
            disabled: fields.flag(&["disabled"])?.unwrap_or(false) || !enabled,
            timeout: call_timeout(&fields)?.unwrap_or(CALL_TIMEOUT),
            startup_timeout: startup_timeout(&fields)?.unwrap_or(STARTUP_TIMEOUT),
            tools: tool_rules(&fields)?,
        })
    }
}

fn endpoint(fields: &Fields<'_>) -> Result<Endpoint, String> {
    let kind = fields.text(&["type", "transport"])?;
    let command = fields.words(&["command"])?;
    let url = fields.text(&["url", "httpUrl", "http_url", "serverUrl", "server_url"])?;
    match (kind.as_deref(), command, url) {
        (Some("sse"), _, _) => Err(
            "the old `sse` transport is not supported: most such servers also answer streamable \
             HTTP, so write \"type\": \"http\" with their streamable address (often /mcp instead of /sse)"
                .to_owned(),
        ),
        (None | Some("stdio" | "local"), Some(command), None) => program(fields, command),
        (None | Some("http" | "streamable-http" | "streamable_http" | "streamableHttp" | "remote"), None, Some(url)) => {
            address(fields, url)
        }
        (_, Some(_), Some(_)) => {
            Err("it has both `command` and `url`: remove one of them".to_owned())
        }
        (_, None, None) => Err("it has neither `command` nor `url`".to_owned()),
        (Some(_), _, _) => Err(
            "its `type` does not match: use stdio with `command`, or http (streamable-http) with `url`"
                .to_owned(),
        ),
    }
}

fn program(fields: &Fields<'_>, command: Vec<String>) -> Result<Endpoint, String> {
    let mut words = command.into_iter();
    let command = words.next().filter(|command| !command.trim().is_empty());
    let command = command.ok_or("`command` is empty")?;
    let mut args: Vec<String> = words.collect();
    args.extend(fields.texts(&["args"])?.unwrap_or_default());
    Ok(Endpoint::Stdio(Program {
        command,
        args,
        env: fields.secrets(&["env", "environment"])?,
        cwd: fields.text(&["cwd"])?.map(PathBuf::from),
    }))
}

fn address(fields: &Fields<'_>, url: String) -> Result<Endpoint, String> {
    let mut headers = fields.secrets(&["headers", "http_headers", "httpHeaders"])?;
    if let Some(variable) = fields.text(&["bearer_token_env_var"])? {
        let bearer = Secret::new(format!("Bearer ${{{variable}}}"));
        headers.insert("Authorization".to_owned(), bearer);
    }
    Ok(Endpoint::Http(Address { url, headers }))
}

fn call_timeout(fields: &Fields<'_>) -> Result<Option<Duration>, String> {
    let seconds = ["timeout_seconds", "timeoutSeconds", "tool_timeout_sec"];
    // Other agents write milliseconds here.
    fields.duration(&seconds, &["timeout"])
}

fn startup_timeout(fields: &Fields<'_>) -> Result<Option<Duration>, String> {
    let seconds = [
        "startup_timeout_seconds",
        "startupTimeoutSeconds",
        "startup_timeout_sec",
    ];
    fields.duration(&seconds, &["startup_timeout_ms"])
}

fn tool_rules(fields: &Fields<'_>) -> Result<ToolRules, String> {
    let inner = match fields.get(&["tools"]) {
        Some(Value::Object(tools)) => Some(Fields(tools)),
        Some(Value::Null) | None => None,
        Some(_) => return Err("`tools` must be an object with `allow` and `deny`".to_owned()),
    };
    let (mut allow, mut deny) = match inner {
        Some(tools) => (
            tools.texts(&["allow"])?,
            tools.texts(&["deny"])?.unwrap_or_default(),
        ),
        None => (None, Vec::new()),
    };
    if allow.is_none() {
        allow = fields.texts(&["includeTools", "enabled_tools"])?;
    }
    for key in ["excludeTools", "disabled_tools", "disabledTools"] {
        deny.extend(fields.texts(&[key])?.unwrap_or_default());
    }
    Ok(ToolRules { allow, deny })
}

/// Reads keys in any of their spellings; errors name the key, never the value.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, names: &[&str]) -> Option<&Value> {
        let found = names.iter().find_map(|name| self.0.get(*name));
        found.filter(|value| !value.is_null())
    }

    fn text(&self, names: &[&str]) -> Result<Option<String>, String> {
        let wrong = || format!("`{}` must be text", names[0]);
        let value = self.get(names);
        value
            .map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong))
            .transpose()
    }

    fn flag(&self, names: &[&str]) -> Result<Option<bool>, String> {
        let wrong = || format!("`{}` must be true or false", names[0]);
        let value = self.get(names);
        value
            .map(|value| value.as_bool().ok_or_else(wrong))
            .transpose()
    }

    fn texts(&self, names: &[&str]) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("`{}` must be a list of texts", names[0]);
        let Some(value) = self.get(names) else {
            return Ok(None);
        };
        let items = value.as_array().filter(|items| items.len() <= MAX_ENTRIES);
        let items = items.ok_or_else(wrong)?.iter();
        let texts: Option<Vec<String>> = items.map(scalar).collect();
        texts.map(Some).ok_or_else(wrong)
    }

    /// One text, or a list of them.
    fn words(&self, names: &[&str]) -> Result<Option<Vec<String>>, String> {
        match self.get(names) {
            Some(Value::String(word)) => Ok(Some(vec![word.clone()])),
            Some(_) | None => self.texts(names),
        }
    }

    fn secrets(&self, names: &[&str]) -> Result<BTreeMap<String, Secret>, String> {
        let wrong = || format!("`{}` must be an object of texts", names[0]);
        let Some(value) = self.get(names) else {
            return Ok(BTreeMap::new());
        };
        let items = value.as_object().filter(|items| items.len() <= MAX_ENTRIES);
        let items = items.ok_or_else(wrong)?.iter();
        let secrets = items.map(|(name, value)| Some((name.clone(), Secret::new(scalar(value)?))));
        secrets.collect::<Option<_>>().ok_or_else(wrong)
    }

    fn duration(&self, seconds: &[&str], millis: &[&str]) -> Result<Option<Duration>, String> {
        let in_seconds = self.get(seconds).map(|value| (value.as_f64(), seconds[0]));
        let in_millis = || {
            let value = self.get(millis)?;
            Some((value.as_f64().map(|millis| millis / 1000.0), millis[0]))
        };
        let Some((value, name)) = in_seconds.or_else(in_millis) else {
            return Ok(None);
        };
        let value = value.filter(|value| (0.001..=MAX_TIMEOUT_SECONDS).contains(value));
        let value = value.map(Duration::from_secs_f64);
        value.map(Some).ok_or_else(|| {
            format!("`{name}` must be a time of at most {MAX_TIMEOUT_SECONDS} seconds")
        })
    }
}

/// Reads text; numbers and booleans are accepted as written.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
