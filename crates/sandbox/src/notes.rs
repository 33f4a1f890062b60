//! Durable notes about workspaces that a command may change and that have not been swept yet.
//!
//! A note is written before its command starts and removed when the workspace has been swept. It
//! records the state of the workspace before the command, so that a later process can complete what
//! a dead process left undone. The process that wrote it holds a lock on it for as long as its
//! command lives.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, fstat, stat};

use crate::owned::unique;
use crate::sweep::Baseline;
use crate::watched::Before;

/// The largest note that is read: about a hundred thousand paths.
const MAX_NOTE_BYTES: u64 = 64 << 20;
/// The most notes that one start processes; the next start continues.
const MAX_NOTES: usize = 10_000;
/// The most names that are tried for a note: a leftover note of a dead process with the same id may
/// have one.
const MAX_NAMES: usize = 1000;
/// How often work on notes is tried before the command is refused.
const MAX_TRIES: u32 = 3;
/// The pause between two tries: short enough for the start of a command.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The state that is needed to sweep a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) workspace: PathBuf,
    pub(crate) baseline: Baseline,
    pub(crate) watched: Vec<(PathBuf, Before)>,
    /// Entries in the place of paths that the command must not create.
    pub(crate) stand_ins: Vec<PathBuf>,
}

/// A note that is written and locked.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    _locked: File,
}

/// Repeats work on notes that fails: a command must not be refused because the disk was full for a
/// moment.
#[expect(
    clippy::disallowed_methods,
    reason = "the caller prepares a command on a thread that may block"
)]
pub(crate) fn retried<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..MAX_TRIES {
        match work() {
            Ok(done) => return Ok(done),
            Err(_) => std::thread::sleep(RETRY_AFTER),
        }
    }
    work()
}

impl Note {
    /// Writes a note durably.
    pub(crate) fn write(folder: &Path, pending: &Pending) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let bytes = encoded(pending);
        if bytes.len() as u64 > MAX_NOTE_BYTES {
            // A reader would treat it as incomplete.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        for _ in 0..MAX_NAMES {
            let path = folder.join(format!("{}-{}", std::process::id(), unique()));
            let made = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            let mut file = match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            flock(&file, FlockOperation::LockExclusive)?;
            if !is_at(&file, &path) {
                // A process that recovers notes removed it as incomplete.
                continue;
            }
            file.write_all(&bytes)?;
            file.sync_all()?;
            return Ok(Self {
                path,
                _locked: file,
            });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the note: the workspace has been swept.
    pub(crate) fn done(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// A note that a dead process left behind.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) note: Note,
    /// `None` if the note is incomplete: then its command did not start.
    pub(crate) pending: Option<Pending>,
}

fn is_at(file: &File, path: &Path) -> bool {
    let Ok((file, named)) = fstat(file).and_then(|file| Ok((file, stat(path)?))) else {
        return false;
    };
    (file.st_dev, file.st_ino) == (named.st_dev, named.st_ino)
}

/// Returns the paths of all notes, of living and of dead processes.
pub(crate) fn all(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let entries = entries.take(MAX_NOTES);
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Claims a note that no living process has locked; `None` if one has, or if the note is gone.
pub(crate) fn claim(path: PathBuf) -> io::Result<Option<Left>> {
    let file = match File::open(&path) {
        // Another process has completed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_at(&file, &path) {
        return Ok(None);
    }
    let pending = read(&file)?;
    let note = Note {
        path,
        _locked: file,
    };
    Ok(Some(Left { note, pending }))
}

/// Returns the baselines of the commands that run in a workspace now, in this process and in
/// others.
pub(crate) fn running(folder: &Path, workspace: &Path) -> io::Result<Vec<Baseline>> {
    let mut found = Vec::new();
    for path in all(folder)? {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        // A shared lock does not prevent another process from claiming the note afterwards.
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            continue;
        }
        // An incomplete note belongs to a command that has not started.
        if let Some(pending) = read(&file)?.filter(|pending| pending.workspace == workspace) {
            found.push(pending.baseline);
        }
    }
    Ok(found)
}

fn read(file: &File) -> io::Result<Option<Pending>> {
    let mut bytes = Vec::new();
    file.take(MAX_NOTE_BYTES).read_to_end(&mut bytes)?;
    Ok(decoded(&bytes))
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
    for path in &pending.stand_ins {
        put(b'I', &bytes_of(path));
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
            b'I' => pending.stand_ins.push(path()),
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
            stand_ins: vec!["/project/.envrc".into()],
        }
    }

    fn left(folder: &Path) -> io::Result<Vec<Left>> {
        let claimed = all(folder)?.into_iter().map(claim);
        claimed.filter_map(Result::transpose).collect()
    }

    #[test]
    fn work_that_fails_for_a_moment_is_repeated_and_then_given_up() {
        for (failures, works) in [(0, true), (MAX_TRIES - 1, true), (MAX_TRIES, false)] {
            let mut tries = 0;
            let result = retried(|| {
                tries += 1;
                match tries > failures {
                    true => Ok(()),
                    false => Err(io::ErrorKind::StorageFull.into()),
                }
            });
            assert_eq!(result.is_ok(), works, "{failures}");
        }
    }

    #[test]
    fn running_commands_are_found_by_their_notes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("notes");
        let note = Note::write(&folder, &pending()).unwrap();
        let workspace = pending().workspace;
        assert_eq!(running(&folder, &workspace).unwrap(), [pending().baseline]);
        assert_eq!(running(&folder, Path::new("/other")).unwrap(), []);
        drop(note);
        assert_eq!(running(&folder, &workspace).unwrap(), []);
    }

    #[test]
    fn a_note_that_is_kept_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Note::write(folder.path(), &pending()).unwrap().path;
        let number: u64 = kept
            .to_str()
            .unwrap()
            .rsplit('-')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        for next in 1..20 {
            let name = format!("{}-{}", std::process::id(), number + next);
            fs::write(folder.path().join(name), "kept").unwrap();
        }
        Note::write(folder.path(), &pending()).unwrap();
        let count = fs::read_dir(folder.path()).unwrap();
        let count =
            count.filter(|entry| fs::read(entry.as_ref().unwrap().path()).unwrap() == b"kept");
        assert_eq!(count.count(), 19);
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
    fn truncated_note_is_ignored() {
        let whole = encoded(&pending());
        assert_eq!(decoded(&whole), Some(pending()));
        for end in 0..whole.len() {
            assert_eq!(decoded(&whole[..end]), None, "{end}");
        }
    }
}
