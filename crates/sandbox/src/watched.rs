//! What cannot be covered, and is put right when the command has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::held::reach;
use crate::layout::Fates;
use crate::sweep::{make_changeable, move_aside};

/// How something was before the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It was not there.
    Absent,
    /// It was a link to this place. A mount cannot lie on a link.
    Link(PathBuf),
}

impl Before {
    /// How it is now, if there is nothing there or a link.
    pub(crate) fn of(path: &Path) -> Self {
        fs::read_link(path).map_or(Self::Absent, Self::Link)
    }
}

/// How everything was that commands of this process watch now, before the first of them, and how
/// many of them watch it.
pub(crate) type Known = BTreeMap<PathBuf, (Before, usize)>;

/// What commands of this process watch. One that starts while another runs believes what the other
/// found, and not what it may have made of it since: else two together could do what neither may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    known: Arc<Mutex<Known>>,
}

/// Something that must be the same afterwards. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watched {
    path: PathBuf,
    before: Before,
    watches: Watches,
}

impl Watches {
    /// Decides by what is known, and watches the result, both under one lock.
    pub(crate) fn decide(&self, decide: impl FnOnce(&Known) -> Fates) -> (Fates, Vec<Watched>) {
        let mut known = self.lock();
        let fates = decide(&known);
        let all = fates.watched.iter();
        let all = all.map(|(path, before)| self.begin(&mut known, path, before));
        let all = all.collect();
        (fates, all)
    }

    /// Watches one place more.
    pub(crate) fn watch(&self, path: &Path) -> Watched {
        self.begin(&mut self.lock(), path, &Before::of(path))
    }

    fn begin(&self, known: &mut Known, path: &Path, before: &Before) -> Watched {
        let entry = known.entry(path.to_owned());
        let (before, count) = entry.or_insert_with(|| (before.clone(), 0));
        *count += 1;
        Watched {
            path: path.to_owned(),
            before: before.clone(),
            watches: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // It is whole after each step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Where.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How it was.
    pub(crate) fn before(&self) -> &Before {
        &self.before
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut known = self.watches.lock();
        if let Some((_, count)) = known.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.path);
            }
        }
    }
}

/// What was done to make something what it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Righted {
    /// It is what it was.
    Unchanged,
    /// It is what it was again; what was there is kept under this name, if it can hold work.
    Restored(Option<OsString>),
}

/// Puts something right. What stands in its place is moved aside, as it may hold work.
pub(crate) fn put_right(path: &Path, before: &Before) -> io::Result<Righted> {
    let place = match reach(path) {
        // Without its folder it is not there either.
        Err(error) if error.kind() == io::ErrorKind::NotFound && *before == Before::Absent => {
            return Ok(Righted::Unchanged);
        }
        other => other?,
    };
    let path = place.as_ref();
    let wanted = match before {
        Before::Absent => None,
        Before::Link(to) => Some(to),
    };
    let mut facts = fs::symlink_metadata(path);
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if facts.as_ref().is_err_and(denied) {
        open_up(path);
        facts = fs::symlink_metadata(path);
    }
    let kept_as = match facts {
        Err(error) if error.kind() == io::ErrorKind::NotFound && wanted.is_none() => {
            return Ok(Righted::Unchanged);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
        Ok(facts) if facts.is_symlink() => {
            if fs::read_link(path).ok().as_ref() == wanted {
                return Ok(Righted::Unchanged);
            }
            open_up(path);
            fs::remove_file(path)?;
            None
        }
        Ok(_) => {
            let (folder, name) = path
                .parent()
                .zip(path.file_name())
                .ok_or(io::ErrorKind::InvalidInput)?;
            open_up(path);
            let folder = fs::File::open(folder)?;
            make_changeable(folder.as_fd());
            Some(move_aside(folder.as_fd(), name)?)
        }
    };
    if let Some(to) = wanted {
        open_up(path);
        symlink(to, path)?;
    }
    Ok(Righted::Restored(kept_as))
}

/// Gives the owner of the folder of a path the right to change it: a command can take that away. If
/// this fails, so does the change.
fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(folder) = path.parent() else {
        return;
    };
    if let Ok(facts) = fs::metadata(folder) {
        let mode = facts.permissions().mode() & 0o7777;
        if mode & 0o700 != 0o700 {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &Before, act: impl Fn(&Path), changed: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        if let Before::Link(to) = before {
            symlink(to, &path).unwrap();
        }
        act(&path);
        let righted = put_right(&path, before).unwrap();
        assert_eq!(righted != Righted::Unchanged, changed, "{before:?}");
        if let Righted::Restored(Some(kept_as)) = righted {
            assert!(folder.path().join(kept_as).exists());
        }
        assert_eq!(Before::of(&path), *before);
        assert_eq!(path.symlink_metadata().is_ok(), *before != Before::Absent);
        assert_eq!(put_right(&path, before).unwrap(), Righted::Unchanged);
    }

    #[test]
    fn everything_is_as_before() {
        let link = Before::Link("elsewhere".into());
        check(&Before::Absent, |_| {}, false);
        check(&Before::Absent, |path| fs::write(path, "x").unwrap(), true);
        check(&Before::Absent, |path| symlink("y", path).unwrap(), true);
        check(
            &Before::Absent,
            |path| fs::create_dir_all(path.join("y")).unwrap(),
            true,
        );
        check(&link, |_| {}, false);
        check(&link, |path| fs::remove_file(path).unwrap(), true);
        check(
            &link,
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            true,
        );
    }
}
