//! Places that cannot be covered by a mount, and are restored when the command has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::Fates;
use crate::open_exact::reach;
use crate::sweep::{make_changeable, move_aside};

/// The state of a place before the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Absent,
    /// A link with this target. A mount cannot cover a link.
    Link(PathBuf),
}

impl Before {
    /// Returns the current state of a place that is absent or a link.
    pub(crate) fn of(path: &Path) -> Self {
        fs::read_link(path).map_or(Self::Absent, Self::Link)
    }
}

/// The state of each watched place before the first of the commands of this process that watch it,
/// and the number of those commands.
pub(crate) type Known = BTreeMap<PathBuf, (Before, usize)>;

/// The places that commands of this process watch. A command that starts while another runs uses
/// the state that the other found, not what it may have changed since: otherwise two commands
/// together could do what neither may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    known: Arc<Mutex<Known>>,
}

/// A place that must be in the same state afterwards. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watched {
    path: PathBuf,
    before: Before,
    watches: Watches,
}

impl Watches {
    /// Decides by the known states, and watches the result, both under one lock.
    pub(crate) fn decide(&self, decide: impl FnOnce(&Known) -> Fates) -> (Fates, Vec<Watched>) {
        let mut known = self.lock();
        let fates = decide(&known);
        let all = fates.watched.iter();
        let all = all.map(|(path, before)| self.begin(&mut known, path, before));
        let all = all.collect();
        (fates, all)
    }

    /// Watches one more place.
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
        // The map is consistent after each step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

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

/// The outcome of restoring a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Righted {
    Unchanged,
    /// The earlier state was restored; the replaced entry is kept under this name, if it can
    /// contain work.
    Restored(Option<OsString>),
}

/// Restores the earlier state of a place. An entry in its place is moved aside, because it may
/// contain work.
pub(crate) fn put_right(path: &Path, before: &Before) -> io::Result<Righted> {
    let place = match reach(path) {
        // A missing folder means that the place is absent, too.
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

/// Restores the owner's right to change the parent folder of a path: a command can remove that
/// right. If this fails, the later change fails, too.
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
