//! Reads regular files in folders that an agent can write.
//!
//! An agent can replace any file there by a FIFO (an open blocks for ever), a device or a link to a
//! file that only the runtime may read, or make it sparse and huge (a copy fills the disk). Every
//! read of such a file goes through this module: it never follows a link in the last component,
//! never blocks, accepts only regular files and reads at most a given number of bytes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::beneath::FILE_FLAGS;
use crate::exact_folder;

/// Opens a regular file for reading. A link as the last component is refused, not followed.
pub fn open(path: &Path) -> io::Result<File> {
    open_at(CWD, path)
}

/// Opens a regular file for reading, relative to an open folder.
pub fn open_at(folder: impl AsFd, path: &Path) -> io::Result<File> {
    let flags = FILE_FLAGS | OFlags::NOFOLLOW;
    let file = openat(folder, path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP => not_regular("a symbolic link, which is not followed here"),
        Errno::NXIO => not_regular("not a regular file"),
        other => other.into(),
    })?;
    checked(file)
}

/// Opens a regular file for reading by a path that leads through no link at all.
pub fn open_exact(path: &Path) -> io::Result<File> {
    let parts = path.parent().zip(path.file_name());
    let (folder, name) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    open_at(exact_folder::pass(folder)?, Path::new(name))
}

/// Reads a regular file of at most `max_bytes` by a path that leads through no link at all.
pub fn read_exact(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open_exact(path)?, max_bytes)
}

/// Opens a regular file for reading; a link that a person may have put there is followed. Opening
/// never blocks, also if the link leads to a FIFO or a device.
pub fn open_followed(path: &Path) -> io::Result<File> {
    let file = openat(CWD, path, FILE_FLAGS, Mode::empty()).map_err(|errno| match errno {
        Errno::NXIO => not_regular("not a regular file"),
        other => other.into(),
    })?;
    checked(file)
}

/// Reads a regular file of at most `max_bytes`; a link that a person may have put there is followed.
pub fn read_followed(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open_followed(path)?, max_bytes)
}

/// Returns a file that was opened otherwise, if it is regular.
pub fn checked(file: OwnedFd) -> io::Result<File> {
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(not_regular("not a regular file"));
    }
    Ok(File::from(file))
}

fn not_regular(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Reads a regular file of at most `max_bytes`. A longer file is an error and is not read in part.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, max_bytes)
}

/// Reads a regular file of at most `max_bytes`, relative to an open folder.
pub fn read_at(folder: impl AsFd, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open_at(folder, path)?, max_bytes)
}

/// Reads an open regular file of at most `max_bytes`.
pub fn read_all(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    if size > max_bytes {
        return Err(too_large(max_bytes));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The file may grow while it is read: one byte more than allowed shows that it did.
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok(content)
}

fn too_large(max_bytes: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("larger than {max_bytes} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;

    use super::*;

    const MAX_BYTES: u64 = 16;

    fn kind_of(path: &Path) -> io::ErrorKind {
        read(path, MAX_BYTES).unwrap_err().kind()
    }

    #[test]
    fn a_regular_file_within_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 16]).unwrap();
        assert_eq!(read(&path, MAX_BYTES).unwrap(), [7; 16]);
    }

    #[test]
    fn links_fifos_folders_devices_and_large_files_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), [7; 17]).unwrap();
        symlink(path("file"), path("link")).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path("fifo"), FileType::Fifo, mode, 0).unwrap();
        let sparse = File::create(path("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert_eq!(kind_of(&path("file")), io::ErrorKind::FileTooLarge);
        assert_eq!(kind_of(&path("sparse")), io::ErrorKind::FileTooLarge);
        assert_eq!(kind_of(&path("link")), io::ErrorKind::InvalidInput);
        assert_eq!(kind_of(&path("fifo")), io::ErrorKind::InvalidInput);
        assert_eq!(kind_of(folder.path()), io::ErrorKind::InvalidInput);
        assert_eq!(kind_of(Path::new("/dev/zero")), io::ErrorKind::InvalidInput);
        symlink(path("fifo"), path("to fifo")).unwrap();
        symlink("/dev/zero", path("to device")).unwrap();
        for name in ["fifo", "to fifo", "to device", "."] {
            let error = read_followed(&path(name), MAX_BYTES).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn a_link_is_followed_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/file"), "text").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("file", root.join("real/other")).unwrap();
        for (path, exact) in [
            ("real/file", true),
            ("real/other", false),
            ("link/file", false),
        ] {
            let path = root.join(path);
            assert_eq!(read_exact(&path, 4).is_ok(), exact);
            assert_eq!(read_followed(&path, 4).unwrap(), b"text");
        }
    }
}
