//! Empty folders and files in the place of what must not be made.
//!
//! A mount needs something to lie on. An empty folder is the one thing that disturbs no program:
//! git does not see it, and to remove it can lose nothing, as a folder with something in it stays.
//! Where a program would stumble over a folder and reads a certain file as if it were absent
//! (`commondir` of git that names its own folder), such a file stands in. It is there while
//! commands run and no longer: some of the names are those of files, and programs that look for one
//! of these outside should not meet a folder for hours.
//!
//! Who relies on one holds a shared lock on it, taken before anything is decided about it and given
//! up when the command has ended; the command that finds no other holder removes it. So no command
//! removes what another command stands on, be it of this process or of another. The kernel gives up
//! the locks of the dead, so what a crash leaves is marked by its mode, taken over by the next
//! command in the same workspace, and removed after it.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use sortie_base::regular_file;

use crate::held::reach;
use crate::owned::unique;

/// Sticky and read-only: a mode that people do not give their own folders.
const MARK: u32 = 0o1555;
/// The same for a file.
const FILE_MARK: u32 = 0o1444;
/// The mode of a folder that another program has begun to use.
const USUAL: u32 = 0o755;
/// The most that a file which stands in holds.
const MAX_FILE_BYTES: u64 = 16;
/// How often is tried again when others make and remove it at the same time.
const MAX_TRIES: usize = 100;

/// What stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// An empty folder.
    Folder,
    /// A file with this content.
    File(&'static str),
}

/// A folder or file that stands in the place of something, held by one command or more.
#[derive(Debug)]
pub(crate) struct StandIn {
    path: PathBuf,
    held: fs::File,
}

/// Those that commands of this process hold: commands side by side share them, and the files that
/// are open for them.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    held: Mutex<BTreeMap<PathBuf, Weak<StandIn>>>,
}

impl StandIns {
    /// Puts one there, or joins those who hold it. None if something else is there by now, or if
    /// no process of this user could create anything there.
    pub(crate) fn put(&self, path: &Path, stand: Stand) -> io::Result<Option<Arc<StandIn>>> {
        let known = self.lock().get(path).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| is_still(path, &known.held)) {
            return Ok(Some(known));
        }
        let Some(put) = StandIn::put(path, stand)?.map(Arc::new) else {
            return Ok(None);
        };
        let mut held = self.lock();
        held.retain(|_, other| other.strong_count() > 0);
        held.insert(path.to_owned(), Arc::downgrade(&put));
        Ok(Some(put))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Weak<StandIn>>> {
        // It is whole after each step.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
                        // It was one of ours just now.
                        Err(_) => continue,
                    }
                }
                Err(error) if cannot_be_made(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            let Ok(held) = fs::File::open(path) else {
                continue;
            };
            flock(&held, FlockOperation::LockShared)?;
            // Another one may have removed it before it was locked.
            if is_still(path, &held) {
                let path = path.to_owned();
                return Ok(Some(Self { path, held }));
            }
        }
        Err(io::Error::other("others keep making and removing it"))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let alone = flock(&self.held, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !alone || !is_still(&self.path, &self.held) {
            return;
        }
        // Where its folder was swapped for a link, there is nothing of ours.
        let Ok(place) = reach(&self.path) else {
            return;
        };
        let Ok(facts) = self.held.metadata() else {
            return;
        };
        if facts.is_file() {
            // One that holds something else by now is not ours any more, and is looked at by the
            // sweep after the command.
            if is_ours(place.as_ref(), &facts) {
                fs::remove_file(&place).ok();
            }
        } else if let Err(error) = fs::remove_dir(&place)
            && error.kind() == io::ErrorKind::DirectoryNotEmpty
        {
            // A program outside uses it: it belongs to that program from now on, and its mode shows
            // that. One that we may not change stays as it is.
            let usual = fs::Permissions::from_mode(USUAL);
            self.held.set_permissions(usual).ok();
        }
    }
}

/// Whether what was found here is one of ours. One that has something in it is not.
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

/// What files that stand in hold: each is read as if there were no file.
const FILES: [&[u8]; 2] = [b"", b".\n"];

/// Makes it with its mark and its content at once. What the mask of this process takes away is not
/// part of that.
fn make(path: &Path, stand: Stand) -> io::Result<()> {
    let place = reach(path)?;
    match stand {
        Stand::Folder => fs::DirBuilder::new().mode(MARK).create(place),
        Stand::File(content) => {
            // Under another name first: git gives up at a `commondir` that is still empty.
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

fn is_still(path: &Path, held: &fs::File) -> bool {
    match (fs::symlink_metadata(path), held.metadata()) {
        (Ok(now), Ok(then)) => now.ino() == then.ino() && now.dev() == then.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_removes_it() {
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
    fn what_others_made_stays() {
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
    fn one_with_something_in_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        let held = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1755)).unwrap();
        fs::write(path.join("made by a person"), "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(MARK)).unwrap();
        assert!(!is_ours(&path, &fs::symlink_metadata(&path).unwrap()));
        drop(held);
        assert!(path.join("made by a person").exists());
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, USUAL, "it is theirs now");
    }

    #[test]
    fn what_a_crash_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        make(&path, Stand::Folder).unwrap();
        drop(StandIn::put(&path, Stand::Folder).unwrap().unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn many_at_once_never_lose_it_while_they_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let held = StandIn::put(&path, Stand::Folder).unwrap().unwrap();
                        assert!(is_still(&path, &held.held));
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn commands_of_one_process_share_it() {
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
            // What a crash left is taken over.
            make(&path, Stand::File(content)).unwrap();
            drop(StandIn::put(&path, Stand::File(content)).unwrap().unwrap());
            assert!(!path.exists());
        }
        fs::write(&path, "../x").unwrap();
        assert!(StandIn::put(&path, Stand::File("")).unwrap().is_none());
        assert!(path.exists());
    }
}
