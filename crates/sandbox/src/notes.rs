//! Durable notes of workspaces that a command may change and that were not looked at afterwards.
//!
//! A note is written before its command starts and removed when the workspace was swept. It says what
//! the workspace was like before, so that a later process can do what one that died has left undone.
//! The process that wrote it holds a lock on it for as long as its command lives.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::owned::unique;
use crate::sweep::Baseline;
use crate::watched::Before;

/// The largest note that is read: a hundred thousand paths.
const MAX_NOTE_BYTES: u64 = 64 << 20;
/// The most notes that one start works off; the next start goes on.
const MAX_NOTES: usize = 10_000;

/// What has to be known to put a workspace right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) workspace: PathBuf,
    pub(crate) baseline: Baseline,
    pub(crate) watched: Vec<(PathBuf, Before)>,
}

/// A note that is written, and locked.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    _held: File,
}

impl Note {
    /// Writes one, durably.
    pub(crate) fn write(folder: &Path, pending: &Pending) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let path = folder.join(format!("{}-{}", std::process::id(), unique()));
        let mut held = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        flock(&held, FlockOperation::LockExclusive)?;
        // A dead process of the same number may have left one, which was worked off by now or is
        // worked off with this one.
        held.set_len(0)?;
        held.write_all(&encoded(pending))?;
        held.sync_all()?;
        Ok(Self { path, _held: held })
    }

    /// Removes it: the workspace was swept.
    pub(crate) fn done(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// A note that a process which is gone has left.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) note: Note,
    /// `None` if it was not written to its end: then its command did not start.
    pub(crate) pending: Option<Pending>,
}

/// The notes that no living process holds.
pub(crate) fn left(folder: &Path) -> io::Result<Vec<Left>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries.take(MAX_NOTES) {
        let path = entry?.path();
        let held = match File::open(&path) {
            // Another process has worked it off.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut bytes = Vec::new();
        (&held).take(MAX_NOTE_BYTES).read_to_end(&mut bytes)?;
        let note = Note { path, _held: held };
        found.push(Left {
            note,
            pending: decoded(&bytes),
        });
    }
    Ok(found)
}

fn encoded(pending: &Pending) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |tag: u8, content: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
    };
    let bytes_of = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
    put(b'W', &bytes_of(&pending.workspace));
    for path in &pending.baseline.protected {
        put(b'P', &bytes_of(path));
    }
    for (path, content) in &pending.baseline.settings {
        put(b'S', &bytes_of(path));
        put(b'V', content);
    }
    for path in &pending.baseline.notable {
        put(b'N', &bytes_of(path));
    }
    for path in &pending.baseline.unseen {
        put(b'U', &bytes_of(path));
    }
    for (path, before) in &pending.watched {
        match before {
            Before::Absent => put(b'A', &bytes_of(path)),
            Before::Link(target) => {
                put(b'L', &bytes_of(path));
                put(b'T', &bytes_of(target));
            }
        }
    }
    put(b'E', b"");
    bytes
}

fn decoded(mut bytes: &[u8]) -> Option<Pending> {
    let mut pending = Pending::default();
    let mut last = PathBuf::new();
    loop {
        let (tag, content) = record(&mut bytes)?;
        let path = || PathBuf::from(OsStr::from_bytes(content));
        match tag {
            b'W' => pending.workspace = path(),
            b'P' => drop(pending.baseline.protected.insert(path())),
            b'N' => drop(pending.baseline.notable.insert(path())),
            b'U' => drop(pending.baseline.unseen.insert(path())),
            b'A' => pending.watched.push((path(), Before::Absent)),
            b'S' | b'L' => last = path(),
            b'V' => {
                let settings = &mut pending.baseline.settings;
                settings.insert(std::mem::take(&mut last), content.to_vec());
            }
            b'T' => {
                let before = Before::Link(path());
                pending.watched.push((std::mem::take(&mut last), before));
            }
            b'E' => return pending.workspace.is_absolute().then_some(pending),
            _ => return None,
        }
    }
}

fn record<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Pending {
        Pending {
            workspace: "/project 分析".into(),
            baseline: Baseline {
                protected: [".git".into(), OsStr::from_bytes(b"\xff/.git").into()].into(),
                settings: [("a/.git".into(), b"[core]\n\0".to_vec())].into(),
                notable: [PathBuf::from("a/.vscode")].into(),
                unseen: [PathBuf::from("data")].into(),
            },
            watched: vec![
                ("/project/.vimrc".into(), Before::Absent),
                ("/project/.claude".into(), Before::Link("../x".into())),
            ],
        }
    }

    #[test]
    fn a_note_is_found_only_when_its_writer_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("notes");
        assert!(left(&folder).unwrap().is_empty());
        let note = Note::write(&folder, &pending()).unwrap();
        assert!(left(&folder).unwrap().is_empty(), "it is held");
        drop(note);
        let mut found = left(&folder).unwrap();
        assert_eq!(found.len(), 1);
        let found = found.remove(0);
        assert_eq!(found.pending, Some(pending()));
        found.note.done().unwrap();
        assert!(left(&folder).unwrap().is_empty());
    }

    #[test]
    fn a_note_that_was_cut_off_says_nothing() {
        let whole = encoded(&pending());
        assert_eq!(decoded(&whole), Some(pending()));
        for end in 0..whole.len() {
            assert_eq!(decoded(&whole[..end]), None, "{end}");
        }
    }
}
