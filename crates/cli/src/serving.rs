//! The file by which commands find a server: `server.json` in the home folder.
//!
//! The file is a hint; the store's lock decides: the file of a dead server names a process that does not
//! hold the lock. A server proves with the secret of the file that it wrote the file, before a command
//! sends it a token.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sortie_base::{atomic_file, process, regular_file};
use sortie_protocol::{Proof, local_address};
use sortie_store::Owner;
use tokio::time::Instant;

use crate::lock::{self, Holder};
use crate::process_identity::ProcessIdentity;

/// The file in the home folder.
const FILE: &str = "server.json";
/// The file that holds the token of the administrator on this machine.
const TOKEN_FILE: &str = "token";
/// A server writes no longer file.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// How long a server waits for the lock of a killed one: as long as the store does.
const DEAD_OWNER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts to read the file.
const PAUSE: Duration = Duration::from_millis(10);
/// The most folders that are moved aside; more of them are no accident.
const MAX_SET_ASIDE: u32 = 100;

/// The contents of `server.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerFile {
    pub(crate) pid: u32,
    /// The address it listens on; none while it starts.
    pub(crate) address: Option<SocketAddr>,
    /// The identity of the process; none if `/proc` does not tell.
    pub(crate) identity: Option<ProcessIdentity>,
    /// When it locked the store.
    pub(crate) started_at: String,
    pub(crate) version: String,
    /// The secret by which it proves that it wrote the file.
    #[serde(rename = "secret", with = "secret")]
    pub(crate) proof: Proof,
}

impl ServerFile {
    /// Whether its process has ended or was killed, as far as this process can see.
    fn is_dead(&self) -> bool {
        let Some(identity) = &self.identity else {
            return false;
        };
        match ProcessIdentity::of(self.pid) {
            Ok(present) if present.same_namespace(identity) => {
                present != *identity || process::is_over(self.pid)
            }
            Ok(_elsewhere) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                ProcessIdentity::own().is_ok_and(|own| own.same_namespace(identity))
            }
            Err(_) => false,
        }
    }

    /// Whether its server holds the store. Another holder has another id or start time.
    pub(crate) fn owns_store(&self, home: &Path) -> io::Result<bool> {
        Ok(match lock::holder(home)? {
            Holder::Locked(Some(owner)) => {
                owner.pid == self.pid && owner.since.to_rfc3339() == self.started_at
            }
            // A server writes its file after its name in the lock.
            Holder::Locked(None) | Holder::Unlocked => false,
        })
    }
}

/// Serializes the secret as text: the file is private to its owner.
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
        // The error does not repeat the text.
        Proof::read(&text).ok_or_else(|| D::Error::custom("the secret is invalid"))
    }
}

/// The server of a home folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPresence {
    /// No server has this home.
    Absent,
    /// A server that does not listen yet.
    Starting(ServerFile),
    /// A server that listens at this address.
    Listening {
        file: ServerFile,
        address: SocketAddr,
    },
}

/// Returns the path of the file.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// Returns the path of the administrator's token.
pub(crate) fn token_path(home: &Path) -> PathBuf {
    home.join(TOKEN_FILE)
}

/// Reads the token of the administrator on this machine.
pub(crate) fn read_token(home: &Path) -> io::Result<String> {
    let bytes = regular_file::read(&token_path(home), MAX_FILE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(text.trim().to_owned())
}

/// Returns the server of this home folder.
pub(crate) fn look(home: &Path) -> io::Result<ServerPresence> {
    let file = match left_in(home)? {
        Left::Readable(file) => file,
        Left::Nothing | Left::Damaged => return Ok(ServerPresence::Absent),
    };
    if !file.owns_store(home)? {
        return Ok(ServerPresence::Absent);
    }
    Ok(match file.address {
        Some(listens) => ServerPresence::Listening {
            address: local_address(listens),
            file,
        },
        None => ServerPresence::Starting(file),
    })
}

/// Does the same for a server that starts. The lock of a killed server stays held for a moment by a child
/// that it had forked and that has not called `exec` yet; so this waits for a server that is named and
/// dead. Without `/proc`, or from another process namespace, it counts as alive.
pub(crate) async fn wait_for_dead_owner(home: &Path) -> io::Result<ServerPresence> {
    let deadline = Instant::now() + DEAD_OWNER_TIMEOUT;
    loop {
        let found = look(home)?;
        let is_dead = match &found {
            ServerPresence::Absent => false,
            ServerPresence::Starting(file) | ServerPresence::Listening { file, .. } => {
                file.is_dead()
            }
        };
        if !is_dead || Instant::now() >= deadline {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads the file, whether or not its server is alive. The next server replaces a file that is damaged,
/// too long or no regular file.
pub(crate) fn left_in(home: &Path) -> io::Result<Left> {
    match regular_file::read(&path(home), MAX_FILE_BYTES) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Left::Damaged, Left::Readable)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Left::Nothing),
        // A link, a FIFO, a folder, or too many bytes.
        Err(error) if is_no_file(&error) => Ok(Left::Damaged),
        Err(error) => Err(error),
    }
}

/// What is at the path of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Something that no server wrote completely.
    Damaged,
    /// The file of a server.
    Readable(ServerFile),
}

fn is_no_file(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::IsADirectory
    ) || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        // A socket cannot be opened.
        || error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// The file of this process; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Notice {
    path: PathBuf,
    file: ServerFile,
}

impl Notice {
    /// Writes that this process, which holds the lock as this owner, starts a server.
    pub(crate) fn starting(home: &Path, owner: &Owner, proof: Proof) -> io::Result<Self> {
        set_folder_aside(&path(home))?;
        let notice = Self {
            path: path(home),
            file: ServerFile {
                pid: owner.pid,
                address: None,
                // Without it, `sortie stop` refuses to signal the server.
                identity: ProcessIdentity::own().ok(),
                started_at: owner.since.to_rfc3339(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                proof,
            },
        };
        notice.write()?;
        Ok(notice)
    }

    /// Writes the address it listens on.
    pub(crate) fn listening(&mut self, address: SocketAddr) -> io::Result<()> {
        self.file.address = Some(address);
        self.write()
    }

    /// Writes the file atomically: other processes read it at any moment.
    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(&self.file)?;
        text.push(b'\n');
        atomic_file::replace(&self.path, &text)
    }
}

/// Moves a folder at the path of the file aside. Anything else is replaced.
fn set_folder_aside(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path).is_ok_and(|about| about.is_dir()) {
        return Ok(());
    }
    (0..MAX_SET_ASIDE)
        .map(|number| path.with_extension(format!("json.set-aside-{number}")))
        .find(|aside| std::fs::symlink_metadata(aside).is_err())
        .map_or_else(
            || Err(io::ErrorKind::AlreadyExists.into()),
            |aside| std::fs::rename(path, aside),
        )
}

impl Drop for Notice {
    fn drop(&mut self) {
        // The store is released already, so the file may be the next server's.
        let left = self.path.parent().map(left_in);
        let is_ours = matches!(
            left,
            Some(Ok(Left::Readable(file))) if file.proof == self.file.proof
        );
        if is_ours {
            // A file that stays behind is harmless: the lock is free.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// Parses an address to listen on.
pub(crate) fn listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        // Other names need a lookup, and could mean another address tomorrow.
        Some(port) => format!("127.0.0.1:{port}").parse().ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use sortie_core::time::Timestamp;

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
    fn server_file_without_a_held_lock_means_no_server() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(look(home.path()).unwrap(), ServerPresence::Absent);
        let notice = notice(home.path());
        assert_eq!(look(home.path()).unwrap(), ServerPresence::Absent);
        let file = readable(home.path());
        assert_eq!(file.pid, std::process::id());
        assert_eq!(file.address, Some("127.0.0.1:7878".parse().unwrap()));
        assert_eq!(file.proof, Proof::new([7; 32]));
        assert!(!format!("{file:?}").contains("0707"), "{file:?}");
        drop(notice);
        assert_eq!(left_in(home.path()).unwrap(), Left::Nothing);
    }

    fn readable(home: &Path) -> ServerFile {
        match left_in(home).unwrap() {
            Left::Readable(file) => file,
            left @ (Left::Nothing | Left::Damaged) => panic!("{left:?}"),
        }
    }

    #[test]
    fn exiting_server_keeps_the_file_of_its_successor() {
        let home = tempfile::tempdir().unwrap();
        let first = notice(home.path());
        let next = Notice::starting(home.path(), &owner(2), Proof::new([8; 32])).unwrap();
        drop(first);
        let file = readable(home.path());
        assert_eq!(file.proof, Proof::new([8; 32]));
        drop(next);
        assert_eq!(left_in(home.path()).unwrap(), Left::Nothing);
    }

    #[test]
    fn listen_address_accepts_no_host_name_but_localhost() {
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
    fn server_file_counts_only_while_its_process_holds_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let notice = notice(home.path());
        // A live process is named in the lock, like one that reused the pid of a dead server.
        let lock = home.path().join("lock");
        std::fs::write(&lock, serde_json::to_vec(&owner(1)).unwrap()).unwrap();
        assert_eq!(look(home.path()).unwrap(), ServerPresence::Absent);
        let locked = File::open(&lock).unwrap();
        locked.lock().unwrap();
        assert!(matches!(
            look(home.path()).unwrap(),
            ServerPresence::Listening { .. }
        ));
        // Another process with the same pid, as the first process of every container has.
        std::fs::write(&lock, serde_json::to_vec(&owner(2)).unwrap()).unwrap();
        assert_eq!(look(home.path()).unwrap(), ServerPresence::Absent);
        drop(notice);
    }

    #[test]
    fn damaged_server_file_is_ignored_and_replaced() {
        type Plant = fn(&Path);
        let plants: [(&str, Plant); 7] = [
            ("half a file", |at| {
                std::fs::write(at, "{\"pid\": 1").unwrap();
            }),
            ("no UTF-8", |at| std::fs::write(at, [0xff, 0xfe]).unwrap()),
            ("a huge file", |at| {
                File::create(at).unwrap().set_len(1 << 40).unwrap();
            }),
            ("a folder", |at| {
                std::fs::create_dir(at).unwrap();
                std::fs::write(at.join("kept"), "x").unwrap();
            }),
            ("a FIFO", |at| {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                mknodat(CWD, at, FileType::Fifo, Mode::RUSR, 0).unwrap();
            }),
            ("a link", |at| {
                std::os::unix::fs::symlink("/dev/zero", at).unwrap();
            }),
            ("a socket", |at| {
                drop(std::os::unix::net::UnixListener::bind(at).unwrap());
            }),
        ];
        for (what, plant) in plants {
            let home = tempfile::tempdir().unwrap();
            plant(&path(home.path()));
            assert_eq!(left_in(home.path()).unwrap(), Left::Damaged, "{what}");
            assert_eq!(look(home.path()).unwrap(), ServerPresence::Absent, "{what}");
            let notice = notice(home.path());
            assert_eq!(readable(home.path()).proof, Proof::new([7; 32]), "{what}");
            drop(notice);
            assert_eq!(left_in(home.path()).unwrap(), Left::Nothing, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn start_waits_for_the_lock_of_a_dead_server_only() {
        let home = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let mut left = notice(home.path());
        left.file.identity = ProcessIdentity::of(dead.id()).ok();
        dead.wait().unwrap();
        left.file.pid = dead.id();
        left.write().unwrap();
        let named = Owner {
            pid: dead.id(),
            ..owner(1)
        };
        let lock = home.path().join("lock");
        std::fs::write(&lock, serde_json::to_vec(&named).unwrap()).unwrap();
        // Like a child of the dead server that holds the lock and has not called `exec` yet.
        let locked = File::open(&lock).unwrap();
        locked.lock().unwrap();
        assert!(matches!(
            look(home.path()).unwrap(),
            ServerPresence::Listening { .. }
        ));
        let (found, ()) = tokio::join!(wait_for_dead_owner(home.path()), async {
            tokio::time::sleep(3 * PAUSE).await;
            drop(locked);
        });
        assert_eq!(found.unwrap(), ServerPresence::Absent);
        let living = notice(home.path());
        std::fs::write(&lock, serde_json::to_vec(&owner(1)).unwrap()).unwrap();
        let locked = File::open(&lock).unwrap();
        locked.lock().unwrap();
        let began = Instant::now();
        let found = wait_for_dead_owner(home.path()).await.unwrap();
        assert!(
            matches!(found, ServerPresence::Listening { .. }),
            "{found:?}"
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop((locked, living, left));
    }
}
