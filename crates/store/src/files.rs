//! What differs between operating systems: who else may read the store's files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a directory that only its owner can enter. One that exists is left as it is: it may hold
/// other things, and the store's files are private by themselves.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    platform::owner_only_directory(&mut builder);
    builder.create(path)?;
    platform::keep_entry(path)
}

/// Opens a file that only its owner can read, and makes it if it does not exist.
pub(crate) fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    platform::owner_only_file(&mut options);
    let file = options.open(path)?;
    platform::tighten(&file)?;
    Ok(file)
}

/// Whether a process runs. One that has ended and only waits to be noticed does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    platform::is_alive(pid)
}

#[cfg(unix)]
mod platform {
    use std::fs::{DirBuilder, File, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    const FILE_MODE: u32 = 0o600;
    const DIRECTORY_MODE: u32 = 0o700;

    pub(super) fn owner_only_directory(builder: &mut DirBuilder) {
        builder.mode(DIRECTORY_MODE);
    }

    pub(super) fn owner_only_file(options: &mut OpenOptions) {
        options.mode(FILE_MODE);
    }

    pub(super) fn is_alive(pid: u32) -> bool {
        let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        match test_kill_process(known) {
            Ok(()) => !is_zombie(pid),
            // It is somebody else's, but it is there.
            Err(error) => error == Errno::PERM,
        }
    }

    /// Where there is no such file, a process that has ended counts as running for a moment more.
    fn is_zombie(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.starts_with(" Z"))
        })
    }

    pub(super) fn tighten(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(FILE_MODE))
    }

    /// A new directory survives a power loss only once its parent is on disk.
    pub(super) fn keep_entry(path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(not(unix))]
mod platform {
    //! Other systems protect a person's own folders by themselves.

    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(super) const fn is_alive(_pid: u32) -> bool {
        true
    }

    pub(super) fn owner_only_directory(_builder: &mut DirBuilder) {}

    pub(super) fn owner_only_file(_options: &mut OpenOptions) {}

    pub(super) fn tighten(_file: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn keep_entry(_path: &Path) -> io::Result<()> {
        Ok(())
    }
}
