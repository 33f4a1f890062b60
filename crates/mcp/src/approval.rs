//! Stores approved tools: trust on first use, and no silent change afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_base::{atomic_file, private_files};

use crate::Fingerprint;

/// The file's name in the folder that the caller gives.
const FILE_NAME: &str = "mcp-approved.json";
/// Version of the file format.
const VERSION: u32 = 2;
/// Limit of the file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Limit of stored tools per server: a server that invents names must not fill the disk.
const MAX_TOOLS_PER_SERVER: usize = 1_024;
/// Only its owner reads and writes the file.
const OWNER_ONLY: u32 = 0o600;

/// How a tool compares with the approved one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approved {
    /// Identical to the approved description.
    Same,
    /// Not listed by the server before.
    New,
    /// Seen before with another fingerprint.
    Changed {
        /// The approved announcement, if it was kept.
        before: Option<String>,
    },
}

/// A tool as its server announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTool {
    /// Its server's name for it.
    pub tool: String,
    pub fingerprint: Fingerprint,
    /// The announcement, so that a person can compare it with a later one.
    pub text: String,
}

/// Stores which tools are approved.
///
/// Implementers guarantee that records survive a restart, that nothing in a
/// workspace can change it, and that an error means "not approved".
pub trait Approvals: Send + Sync + std::fmt::Debug {
    /// Compares each of these tools with the approved one, in the same order.
    fn approved(&self, server: &str, tools: &[ListedTool]) -> Result<Vec<Approved>, ApprovalError>;
    /// Approves these tools in their current form.
    fn record(&self, server: &str, tools: &[ListedTool]) -> Result<(), ApprovalError>;
}

/// Approvals could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file cannot be used.
    #[error("using the approvals in {}", file.display())]
    Unusable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is not what this program wrote.
    #[error("{} is damaged, too large or of another version: delete it and approve the tools again", file.display())]
    Damaged { file: PathBuf },
    /// Other users may change the file, so it approves nothing.
    #[error("{} is writable by other users: check its content, then run `chmod 600` on it", file.display())]
    Writable { file: PathBuf },
    /// The server has announced too many different tools over time.
    #[error(
        "server {server} has announced more than {MAX_TOOLS_PER_SERVER} different tools over time"
    )]
    TooMany { server: String },
}

/// Approvals in a file outside of every workspace.
#[derive(Clone, Debug)]
pub struct ApprovalFile {
    file: PathBuf,
}

type Servers = BTreeMap<String, BTreeMap<String, Known>>;

/// A tool that was approved.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    fingerprint: Fingerprint,
    /// Left out where the file would be too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    servers: Servers,
}

impl ApprovalFile {
    /// Approvals in `mcp-approved.json` of a folder; both need not exist yet.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            file: folder.join(FILE_NAME),
        }
    }

    fn read(&self) -> Result<Servers, ApprovalError> {
        let damaged = || ApprovalError::Damaged {
            file: self.file.clone(),
        };
        let metadata = match fs::metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Servers::new()),
            metadata => metadata.map_err(|source| self.unusable(source))?,
        };
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return Err(damaged());
        }
        if private_files::others_may_write(&metadata) {
            return Err(ApprovalError::Writable {
                file: self.file.clone(),
            });
        }
        let bytes = fs::read(&self.file).map_err(|source| self.unusable(source))?;
        let written: Written = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if written.version == VERSION {
            Ok(written.servers)
        } else {
            Err(damaged())
        }
    }

    fn write(&self, servers: Servers) -> Result<(), ApprovalError> {
        let mut written = Written {
            version: VERSION,
            servers,
        };
        let unusable = |source| self.unusable(source);
        let text = |written: &Written| {
            let text = serde_json::to_string_pretty(written);
            text.map_err(|error| unusable(io::Error::other(error)))
        };
        let mut whole = text(&written)?;
        // A file that could not be read again would approve nothing. The fingerprints decide; the
        // texts are for people.
        if u64::try_from(whole.len()).is_ok_and(|bytes| bytes > MAX_FILE_BYTES) {
            let known = written.servers.values_mut().flat_map(BTreeMap::values_mut);
            known.for_each(|known| known.text = None);
            whole = text(&written)?;
        }
        atomic_file::replace(&self.file, whole.as_bytes()).map_err(unusable)
    }

    /// Locks the approvals against other processes. The lock file is separate, because the file is replaced.
    fn lock(&self) -> Result<File, ApprovalError> {
        let locked = || {
            private_files::make_folder(folder_of(&self.file))?;
            let mut options = OpenOptions::new();
            options
                .create(true)
                .write(true)
                .truncate(false)
                .mode(OWNER_ONLY);
            let lock = options.open(self.file.with_extension("lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        locked().map_err(|source| self.unusable(source))
    }

    fn unusable(&self, source: io::Error) -> ApprovalError {
        ApprovalError::Unusable {
            file: self.file.clone(),
            source,
        }
    }
}

impl Approvals for ApprovalFile {
    fn approved(&self, server: &str, tools: &[ListedTool]) -> Result<Vec<Approved>, ApprovalError> {
        let servers = self.read()?;
        let known = servers.get(server);
        let judge = |seen: &ListedTool| match known.and_then(|known| known.get(&seen.tool)) {
            None => Approved::New,
            Some(known) if known.fingerprint == seen.fingerprint => Approved::Same,
            Some(known) => Approved::Changed {
                before: known.text.clone(),
            },
        };
        Ok(tools.iter().map(judge).collect())
    }

    fn record(&self, server: &str, tools: &[ListedTool]) -> Result<(), ApprovalError> {
        let lock = self.lock()?;
        let mut servers = self.read()?;
        let known = servers.entry(server.to_owned()).or_default();
        known.extend(tools.iter().cloned().map(|seen| {
            let approved = Known {
                fingerprint: seen.fingerprint,
                text: Some(seen.text),
            };
            (seen.tool, approved)
        }));
        if known.len() > MAX_TOOLS_PER_SERVER {
            return Err(ApprovalError::TooMany {
                server: server.to_owned(),
            });
        }
        self.write(servers)?;
        drop(lock);
        Ok(())
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn seen(tool: &str, description: &str) -> ListedTool {
        let announced = serde_json::json!({
            "name": tool, "description": description, "inputSchema": {}
        });
        ListedTool {
            tool: tool.to_owned(),
            fingerprint: Fingerprint::of(&serde_json::from_value(announced).unwrap()),
            text: description.to_owned(),
        }
    }

    #[test]
    fn approvals_survive_restarts_and_changes_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("deep/state");
        let tools = [seen("a", "x"), seen("b", "y")];
        let open = || ApprovalFile::in_folder(&state);
        assert_eq!(
            open().approved("s", &tools).unwrap(),
            [Approved::New, Approved::New]
        );
        open().record("s", &tools[..1]).unwrap();
        assert_eq!(
            open().approved("s", &tools).unwrap(),
            [Approved::Same, Approved::New]
        );
        assert_eq!(
            open().approved("s", &[seen("a", "z")]).unwrap(),
            [Approved::Changed {
                before: Some("x".to_owned())
            }]
        );
        assert_eq!(
            open().approved("other", &tools).unwrap(),
            [Approved::New, Approved::New]
        );
        open().record("s", &[seen("a", "z")]).unwrap();
        assert_eq!(
            open().approved("s", &[seen("a", "z")]).unwrap(),
            [Approved::Same]
        );
        let mode = fs::metadata(state.join(FILE_NAME))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
    }

    #[test]
    fn fails_closed() {
        let check = |text: &str, mode: u32, expected: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(FILE_NAME);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let approvals = ApprovalFile::in_folder(folder.path());
            let error = approvals.approved("s", &[seen("a", "x")]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(approvals.record("s", &[seen("a", "x")]).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        };
        check("{", 0o600, "damaged");
        check(r#"{"version": 1, "servers": {}}"#, 0o600, "damaged");
        check(
            r#"{"version": 2, "servers": {}}"#,
            0o666,
            "writable by other users",
        );
    }

    #[test]
    fn a_server_cannot_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let approvals = ApprovalFile::in_folder(folder.path());
        let many: Vec<ListedTool> = (0..MAX_TOOLS_PER_SERVER)
            .map(|i| seen(&i.to_string(), ""))
            .collect();
        approvals.record("s", &many).unwrap();
        let error = approvals.record("s", &[seen("more", "")]).unwrap_err();
        assert!(error.to_string().contains("more than 1024"), "{error}");
        assert_eq!(
            approvals.approved("s", &many[..1]).unwrap(),
            [Approved::Same]
        );
    }
}
