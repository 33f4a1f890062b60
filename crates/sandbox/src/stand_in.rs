//! Empty folders and files in the place of paths that a command must not create.
//!
//! A mount needs a mount point. An empty folder is the one entry that disturbs no program: git does
//! not see it, and removing it loses nothing, because a folder with content stays. Where a folder
//! would break a program, and the program treats a certain file like a missing one (git's
//! `commondir` that names its own folder), such a file is the stand-in. Stand-ins exist only while
//! commands run: some of the names are those of files, and programs outside that look for such a
//! file should not find a folder for hours.
//!
//! Each command that relies on a stand-in holds a shared lock on it, acquired before any decision
//! about the path and released when the command has ended; the command that finds no other holder
//! removes the stand-in. So no command removes a stand-in that another command relies on, whether
//! in this process or in another. The kernel releases the locks of dead processes. A stand-in that
//! a crash leaves behind is recognised by its mode. The next process removes it: the note about the
//! command names it. A command that starts before uses it again.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use sortie_base::regular_file;

use crate::open_exact::reach;
use crate::owned::unique;

/// Sticky and read-only: a mode that users do not give their own folders.
const MARK: u32 = 0o1555;
/// The same mark for a file.
const FILE_MARK: u32 = 0o1444;
/// The mode of a folder that another program has begun to use.
const USUAL: u32 = 0o755;
/// The largest content of a stand-in file.
const MAX_FILE_BYTES: u64 = 16;
/// The most attempts while other processes create and remove the stand-in concurrently.
const MAX_TRIES: usize = 100;

/// The kind of stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Folder,
    /// A file with this content.
    File(&'static str),
}

/// A stand-in folder or file, held by one or more commands.
#[derive(Debug)]
pub(crate) struct StandIn {
    path: PathBuf,
    file: fs::File,
}

/// The stand-ins that commands of this process hold: concurrent commands share them, and their open
/// files.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    by_path: Mutex<BTreeMap<PathBuf, Weak<StandIn>>>,
}

impl StandIns {
    /// Creates a stand-in, or joins its holders. Returns `None` if another entry exists by now, or
    /// if no process of this user could create an entry there.
    pub(crate) fn put(&self, path: &Path, stand: Stand) -> io::Result<Option<Arc<StandIn>>> {
        let known = self.lock().get(path).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| is_still(path, &known.file)) {
            return Ok(Some(known));
        }
        let Some(put) = StandIn::put(path, stand)?.map(Arc::new) else {
            return Ok(None);
        };
        let mut by_path = self.lock();
        by_path.retain(|_, other| other.strong_count() > 0);
        by_path.insert(path.to_owned(), Arc::downgrade(&put));
        Ok(Some(put))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Weak<StandIn>>> {
        // The map is consistent after each step.
        self.by_path.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StandIn {
    fn put(path: &Path, stand: Stand) -> io::Result<Option<Self>> {
        for _ in 0..MAX_TRIES {
            match make(path, stand) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match fs::symlink_metadata(path) {
                        Ok(facts) if is_ours(path, &facts) => {}
                        Ok(_) => return Ok(None),
                        // It was a stand-in a moment ago.
                        Err(_) => continue,
                    }
                }
                Err(error) if cannot_be_made(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            let Ok(file) = fs::File::open(path) else {
                continue;
            };
            flock(&file, FlockOperation::LockShared)?;
            // Another command may have removed it before it was locked.
            if is_still(path, &file) {
                let path = path.to_owned();
                return Ok(Some(Self { path, file }));
            }
        }
        Err(io::Error::other(
            "another process keeps creating and removing it",
        ))
    }
}

/// Removes a stand-in of a dead process, unless a command relies on it.
pub(crate) fn remove_left(path: &Path) {
    let Ok(facts) = fs::symlink_metadata(path) else {
        return;
    };
    if is_ours(path, &facts)
        && let Ok(file) = regular_or_folder(path)
        && is_still(path, &file)
    {
        // Its end removes it, if no other command holds it.
        let path = path.to_owned();
        drop(StandIn { path, file });
    }
}

/// Opens the entry that was recognised as a stand-in, and no link or device that replaced it.
fn regular_or_folder(path: &Path) -> io::Result<fs::File> {
    fs::File::options()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
}

impl StandIn {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let alone = flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !alone || !is_still(&self.path, &self.file) {
            return;
        }
        // If its folder was replaced by a link, there is no stand-in to remove.
        let Ok(place) = reach(&self.path) else {
            return;
        };
        let Ok(facts) = self.file.metadata() else {
            return;
        };
        if facts.is_file() {
            // A stand-in with other content by now is no longer ours; the sweep after the command
            // checks it.
            if is_ours(place.as_ref(), &facts) {
                fs::remove_file(&place).ok();
            }
        } else if let Err(error) = fs::remove_dir(&place)
            && error.kind() == io::ErrorKind::DirectoryNotEmpty
        {
            // A program outside uses it: it belongs to that program from now on, and its mode shows
            // that. If this process may not change the mode, it stays as it is.
            let usual = fs::Permissions::from_mode(USUAL);
            self.file.set_permissions(usual).ok();
        }
    }
}

/// Returns whether the entry at this path is one of our stand-ins. A folder with content is not.
pub(crate) fn is_ours(path: &Path, facts: &Metadata) -> bool {
    if facts.permissions().mode() & 0o1222 != 0o1000 {
        return false;
    }
    if facts.is_file() {
        let content = regular_file::read(path, MAX_FILE_BYTES);
        return content.is_ok_and(|content| FILES.contains(&content.as_slice()));
    }
    facts.is_dir() && fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

/// The contents of stand-in files: programs treat each like a missing file.
const FILES: [&[u8]; 2] = [b"", b".\n"];

/// Creates a stand-in with its mark and its content in one step. The umask of this process does not
/// affect the mark.
fn make(path: &Path, stand: Stand) -> io::Result<()> {
    let place = reach(path)?;
    match stand {
        Stand::Folder => fs::DirBuilder::new().mode(MARK).create(place),
        Stand::File(content) => {
            // Under a temporary name first: git fails on a `commondir` that is still empty.
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".sortie-{}-{}", std::process::id(), unique()));
            let temporary = reach(Path::new(&name))?;
            let mut file = fs::File::create_new(&temporary)?;
            let (from, to) = (temporary.as_ref(), place.as_ref());
            let made = file
                .write_all(content.as_bytes())
                .and_then(|()| file.set_permissions(fs::Permissions::from_mode(FILE_MARK)))
                .and_then(|()| Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?));
            if made.is_err() {
                fs::remove_file(from)?;
            }
            made
        }
    }
}

fn cannot_be_made(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn is_still(path: &Path, file: &fs::File) -> bool {
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(now), Ok(then)) => now.ino() == then.ino() && now.dev() == then.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_holder_removes_the_stand_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("分 析");
        let first = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
        let second = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
        drop(first);
        assert!(is_ours(&path, &fs::symlink_metadata(&path).unwrap()));
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn entries_of_other_programs_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["folder", "file"] {
            let path = folder.path().join(name);
            match name {
                "file" => fs::write(&path, "x").unwrap(),
                _ => fs::create_dir(&path).unwrap(),
            }
            assert!(StandIn::put(&path, Stand::Folder).unwrap().is_none());
            assert!(path.exists());
        }
    }

    #[test]
    fn non_empty_stand_in_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        let stand_in = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1755)).unwrap();
        fs::write(path.join("made by a person"), "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(MARK)).unwrap();
        assert!(!is_ours(&path, &fs::symlink_metadata(&path).unwrap()));
        drop(stand_in);
        assert!(path.join("made by a person").exists());
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, USUAL, "it is theirs now");
    }

    #[test]
    fn a_stand_in_left_by_a_crash_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        make(&path, Stand::Folder).unwrap();
        drop(StandIn::put(&path, Stand::Folder).unwrap().unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn stand_in_of_a_dead_process_is_removed_unless_a_command_relies_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        make(&path, Stand::Folder).unwrap();
        let held = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
        remove_left(&path);
        assert!(path.exists());
        drop(held);
        make(&path, Stand::File("")).unwrap();
        remove_left(&path);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        remove_left(&path);
        assert!(path.exists(), "a folder of the user is kept");
    }

    #[test]
    fn concurrent_holders_never_lose_the_stand_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let stand_in = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
                        assert!(is_still(&path, &stand_in.file));
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn commands_of_one_process_share_a_stand_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        let all = StandIns::default();
        let first = all.put(&path, Stand::Folder).unwrap().unwrap();
        let second = all.put(&path, Stand::Folder).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        // A stand-in that was removed meanwhile is created again.
        fs::remove_dir(&path).unwrap();
        let third = all.put(&path, Stand::Folder).unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
        drop((first, second));
        assert!(path.exists());
        drop(third);
        assert!(!path.exists());
        drop(all.put(&path, Stand::Folder).unwrap().unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_stands_in_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("commondir");
        for content in ["", ".\n"] {
            let first = StandIn::put(&path, Stand::File(content)).unwrap().unwrap();
            let second = StandIn::put(&path, Stand::File(content)).unwrap().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            drop(first);
            assert!(is_ours(&path, &fs::symlink_metadata(&path).unwrap()));
            drop(second);
            assert!(!path.exists());
            // A stand-in that a crash left is reused.
            make(&path, Stand::File(content)).unwrap();
            drop(StandIn::put(&path, Stand::File(content)).unwrap().unwrap());
            assert!(!path.exists());
        }
        fs::write(&path, "../x").unwrap();
        assert!(StandIn::put(&path, Stand::File("")).unwrap().is_none());
        assert!(path.exists());
    }
}
