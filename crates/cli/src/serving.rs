//! The file by which a server is found: `server.json` in the home of the store.
//!
//! The file is a hint and the store's lock is the truth: what a dead server left behind names somebody
//! who does not hold the lock. Whoever listens at the address shows with the secret that it is the one
//! who wrote the file, before it gets a token.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sortie_protocol::Proof;
use sortie_store::Owner;

use crate::birth::Birth;
use crate::lock::{self, Holder};

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
    /// Which process of all that ever had that number; nothing where that cannot be found out.
    pub(crate) birth: Option<Birth>,
    /// Since when it holds the store.
    pub(crate) started_at: String,
    /// Which version it is of.
    pub(crate) version: String,
    /// How it shows that it is the one.
    #[serde(rename = "secret", with = "secret")]
    pub(crate) proof: Proof,
}

impl ServerFile {
    /// Whether its server holds the store. Another holder has another name, or began at another time.
    pub(crate) fn holds(&self, home: &Path) -> io::Result<bool> {
        Ok(match lock::holder(home)? {
            Holder::Somebody(Some(owner)) => {
                owner.pid == self.pid && owner.since.to_rfc3339() == self.started_at
            }
            // A server writes its file after its name in the lock.
            Holder::Somebody(None) | Holder::Nobody => false,
        })
    }
}

/// How a secret is written in the file, which is for its owner alone.
mod secret {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use sortie_protocol::Proof;

    pub(super) fn serialize<S: Serializer>(
        proof: &Proof,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&proof.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Proof, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The text is no part of the message.
        Proof::read(&text).ok_or_else(|| D::Error::custom("that is no secret"))
    }
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
    let Some(file) = left_in(home)? else {
        return Ok(Found::Nobody);
    };
    if !file.holds(home)? {
        return Ok(Found::Nobody);
    }
    Ok(match file.address {
        Some(listens) => Found::Serves {
            address: sortie_server::here(listens),
            file,
        },
        None => Found::Starting(file),
    })
}

/// What the file of this home says, whether it is true or not; nothing if there is none that can be
/// read.
pub(crate) fn left_in(home: &Path) -> io::Result<Option<ServerFile>> {
    read(&path(home))
}

fn read(path: &Path) -> io::Result<Option<ServerFile>> {
    match read_bounded(path) {
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
    /// Says that this process, which holds the lock as this owner, is about to serve.
    pub(crate) fn starting(home: &Path, owner: &Owner, proof: Proof) -> io::Result<Self> {
        let notice = Self {
            path: path(home),
            file: ServerFile {
                pid: owner.pid,
                address: None,
                // Without it, nobody can stop the server but by hand.
                birth: Birth::own().ok(),
                started_at: owner.since.to_rfc3339(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                proof,
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
        // The store was given back before, so the file may be the next server's already.
        let is_ours = read(&self.path)
            .is_ok_and(|file| file.is_some_and(|file| file.proof == self.file.proof));
        if is_ours {
            // What stays behind is recognised by the lock, which is free.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// The address that somebody means who writes where a server is to listen.
pub(crate) fn listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        // Other names would have to be looked up, and could mean another address tomorrow.
        Some(port) => format!("127.0.0.1:{port}").parse().ok(),
        None => text.parse().ok(),
    }
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
    use sortie_core::Timestamp;

    use super::*;

    fn owner(since: i64) -> Owner {
        Owner {
            pid: std::process::id(),
            command: "sortie serve".to_owned(),
            since: Timestamp(since),
        }
    }

    fn notice(home: &Path) -> Notice {
        let mut notice = Notice::starting(home, &owner(1), Proof::new([7; 32])).unwrap();
        notice.listening("127.0.0.1:7878".parse().unwrap()).unwrap();
        notice
    }

    #[test]
    fn a_file_without_a_lock_names_nobody() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        let notice = notice(home.path());
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        let file = left_in(home.path()).unwrap().unwrap();
        assert_eq!(file.pid, std::process::id());
        assert_eq!(file.address, Some("127.0.0.1:7878".parse().unwrap()));
        assert_eq!(file.proof, Proof::new([7; 32]));
        assert!(!format!("{file:?}").contains("0707"), "{file:?}");
        drop(notice);
        assert_eq!(left_in(home.path()).unwrap(), None);
    }

    #[test]
    fn whoever_leaves_does_not_take_the_file_of_the_next_one_along() {
        let home = tempfile::tempdir().unwrap();
        let first = notice(home.path());
        let next = Notice::starting(home.path(), &owner(2), Proof::new([8; 32])).unwrap();
        drop(first);
        let file = left_in(home.path()).unwrap().unwrap();
        assert_eq!(file.proof, Proof::new([8; 32]));
        drop(next);
        assert_eq!(left_in(home.path()).unwrap(), None);
    }

    #[test]
    fn a_name_to_listen_at_is_this_machine_or_nothing() {
        for (text, address) in [
            (" localhost:7878 ", Some("127.0.0.1:7878")),
            ("[::1]:0", Some("[::1]:0")),
            ("example.com:80", None),
            ("localhost", None),
        ] {
            let expected = address.map(|address| address.parse().unwrap());
            assert_eq!(listen_address(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_names_somebody_only_while_that_one_holds_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let notice = notice(home.path());
        // The process lives and is named in the lock, as one is that got a dead server's number.
        let lock = home.path().join("lock");
        std::fs::write(&lock, serde_json::to_vec(&owner(1)).unwrap()).unwrap();
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        let held = File::open(&lock).unwrap();
        held.lock().unwrap();
        assert!(matches!(look(home.path()).unwrap(), Found::Serves { .. }));
        // Somebody else with the same number, as every first process of a container has it.
        std::fs::write(&lock, serde_json::to_vec(&owner(2)).unwrap()).unwrap();
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
        drop(notice);
    }

    #[test]
    fn half_a_file_names_nobody() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(path(home.path()), "{\"pid\": 1").unwrap();
        assert_eq!(left_in(home.path()).unwrap(), None);
        assert_eq!(look(home.path()).unwrap(), Found::Nobody);
    }
}
