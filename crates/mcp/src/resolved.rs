//! Settings of a server with expanded variables.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use reqwest::header::{HeaderName, HeaderValue};
use sortie_base::redact::Redactor;
use sortie_base::secret::Secret;

use crate::config::{Address, Endpoint, Program};
use crate::expand::expand;

/// Headers that belong to HTTP or to the protocol.
const RESERVED_HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// The resolved endpoint of a server. Not printable: it contains secrets.
pub(crate) struct Resolved {
    pub(crate) target: Target,
    /// Redactor for every secret above.
    pub(crate) redactor: Redactor,
}

/// The program or URL after expansion.
pub(crate) enum Target {
    Stdio {
        command: String,
        args: Vec<String>,
        environment: BTreeMap<String, String>,
        folder: PathBuf,
        supervisor: Vec<OsString>,
    },
    Http {
        url: String,
        headers: HashMap<HeaderName, HeaderValue>,
    },
}

/// Variables for expansion, and the working directory.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) workspace: &'a Path,
    pub(crate) supervisor: &'a [OsString],
}

impl Resolved {
    /// Expands the variables; an error names the missing variable, never a value.
    pub(crate) fn new(endpoint: &Endpoint, around: Surroundings<'_>) -> Result<Self, String> {
        let mut filler = Filler {
            variables: around.variables,
            used: Vec::new(),
        };
        let target = match endpoint {
            Endpoint::Stdio(program) => stdio(program, around, &mut filler)?,
            Endpoint::Http(address) => http(address, &mut filler)?,
        };
        let redactor = Redactor::new(&filler.used);
        Ok(Self { target, redactor })
    }
}

fn stdio(
    program: &Program,
    around: Surroundings<'_>,
    filler: &mut Filler<'_>,
) -> Result<Target, String> {
    let args = program.args.iter().enumerate();
    let args = args.map(|(index, arg)| filler.fill(&format!("args[{index}]"), arg));
    let args = args.collect::<Result<_, _>>()?;
    let mut environment = around.environment.clone();
    for (name, value) in &program.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("`env` contains an invalid variable name".to_owned());
        }
        environment.insert(
            name.clone(),
            filler.fill_secret(&format!("env.{name}"), value)?,
        );
    }
    let folder = match &program.cwd {
        Some(folder) => around
            .workspace
            .join(filler.fill("cwd", &folder.to_string_lossy())?),
        None => around.workspace.to_owned(),
    };
    Ok(Target::Stdio {
        command: filler.fill("command", &program.command)?,
        args,
        environment,
        folder,
        supervisor: around.supervisor.to_vec(),
    })
}

fn http(address: &Address, filler: &mut Filler<'_>) -> Result<Target, String> {
    let url = filler.fill("url", &address.url)?;
    // The query is often a key.
    filler
        .used
        .extend(url.split_once('?').map(|(_, query)| query.to_owned()));
    let mut headers = HashMap::new();
    for (name, value) in &address.headers {
        let place = format!("headers.{name}");
        let value = filler.fill_secret(&place, value)?;
        let wrong = |_| format!("`{place}` is not a valid header name");
        let name = HeaderName::try_from(name.as_str()).map_err(|_| wrong(()))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(format!("`{place}` is set by the protocol: remove it"));
        }
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong(()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(Target::Http { url, headers })
}

struct Filler<'a> {
    variables: &'a BTreeMap<String, String>,
    /// Every value that may be a secret.
    used: Vec<String>,
}

impl Filler<'_> {
    fn fill(&mut self, place: &str, text: &str) -> Result<String, String> {
        expand(text, self.variables, &mut self.used).map_err(|why| format!("`{place}`: {why}"))
    }

    fn fill_secret(&mut self, place: &str, secret: &Secret) -> Result<String, String> {
        let value = self.fill(place, secret.expose())?;
        self.used.push(value.clone());
        Ok(value)
    }
}
