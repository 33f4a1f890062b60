//! The file by which a server is found: `server.json` in the home of the store.
//!
//! The file is a hint and the store's lock is the truth: what a dead server left behind names a
//! process that does not hold the lock.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::lock;

/// The file in the home of the store.
const FILE: &str = "server.json";
/// The file that holds the token of the administrator on this machine.
const TOKEN_FILE: &str = "token";
/// Longer files are not ours.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerFile {
    /// Its process.
    pub(crate) pid: u32,
    /// Where it listens; nothing while it starts.
    pub(crate) address: Option<SocketAddr>,
    /// Since when.
    pub(crate) started_at: String,
    /// Which version it is of.
    pub(crate) version: String,
}

/// Who serves a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nobody.
    Nobody,
    /// Somebody who is about to.
    Starting(ServerFile),
    /// Somebody, at this address.
    Serves {
        /// What it says about itself.
        file: ServerFile,
        /// Where it can be asked.
        address: SocketAddr,
    },
}

/// The name of the file.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// The name of the file with the administrator's token.
pub(crate) fn token_path(home: &Path) -> PathBuf {
    home.join(TOKEN_FILE)
}

/// The token of the administrator on this machine.
pub(crate) fn read_token(home: &Path) -> io::Result<String> {
    Ok(read_bounded(&token_path(home))?.trim().to_owned())
}

/// Looks who serves the store in this folder.
pub(crate) fn look(home: &Path) -> io::Result<Found> {
    let Some(file) = read(home)? else {
        return Ok(Found::Nobody);
    };
    if !lock::is_held_by(home, file.pid)? {
        return Ok(Found::Nobody);
    }
    Ok(match file.address {
        Some(listens) => Found::Serves {
            address: reachable(listens),
            file,
        },
        None => Found::Starting(file),
    })
}

/// What the file says, whether it is true or not; nothing if there is none that can be read.
pub(crate) fn read(home: &Path) -> io::Result<Option<ServerFile>> {
    match read_bounded(&path(home)) {
        // What is not whole names nobody.
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// The file of this process; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Notice {
    path: PathBuf,
    file: ServerFile,
}

impl Notice {
    /// Says that this process, which holds the lock, is about to serve.
    pub(crate) fn starting(home: &Path, started_at: String) -> io::Result<Self> {
        let notice = Self {
            path: path(home),
            file: ServerFile {
                pid: std::process::id(),
                address: None,
                started_at,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
        };
        notice.write()?;
        Ok(notice)
    }

    /// Says where it listens.
    pub(crate) fn listening(&mut self, address: SocketAddr) -> io::Result<()> {
        self.file.address = Some(address);
        self.write()
    }

    /// Whole or not at all: others read it at any moment.
    fn write(&self) -> io::Result<()> {
        let new = self.path.with_extension("json.new");
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = private_file(&new)?;
        serde_json::to_writer_pretty(&mut file, &self.file)?;
        file.write_all(b"\n")?;
        std::fs::rename(&new, &self.path)
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // What stays behind is recognised by the lock, which is free.
        std::fs::remove_file(&self.path).ok();
    }
}

/// An address to ask for one that is listened on: this machine where it is all of them.
fn reachable(address: SocketAddr) -> SocketAddr {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(unix)]
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_lock_names_nobody() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        let mut notice = Notice::starting(home.path(), "2026-01-01T00:00:00Z".to_owned()).unwrap();
        notice.listening("127.0.0.1:7878".parse().unwrap()).unwrap();
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        let file = read(home.path()).unwrap().unwrap();
        assert_eq!(file.pid, std::process::id());
        assert_eq!(file.address, Some("127.0.0.1:7878".parse().unwrap()));
        drop(notice);
        assert_eq!(read(home.path()).unwrap(), None);
    }

    #[test]
    fn half_a_file_names_nobody() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(path(home.path()), "{\"pid\": 1").unwrap();
        assert_eq!(read(home.path()).unwrap(), None);
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
    }
}
