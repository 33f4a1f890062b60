//! Reads regular files in folders that an agent can write.
//!
//! An agent can replace any file there by a FIFO (an open blocks for ever), a device or a link to a
//! file that only the runtime may read, or make it sparse and huge (a copy fills the disk). Every
//! read of such a file goes through this module: it never follows a link in the last component,
//! never blocks, accepts only regular files and reads at most a given number of bytes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Opens a regular file for reading. A link as the last component is refused, not followed.
pub fn open(path: &Path) -> io::Result<File> {
    open_at(CWD, path)
}

/// Opens a regular file for reading, relative to an open folder.
pub fn open_at(folder: impl AsFd, path: &Path) -> io::Result<File> {
    // NONBLOCK: opening a FIFO that has no writer returns at once. It has no effect on regular files.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(File::from(file))
}

/// Reads a regular file of at most `max_bytes`. A longer file is an error and is not read in part.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, max_bytes)
}

/// Reads a regular file of at most `max_bytes`, relative to an open folder.
pub fn read_at(folder: impl AsFd, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_all(open_at(folder, path)?, max_bytes)
}

fn read_all(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
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
    use rustix::io::Errno;

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
        let linked = read(&path("link"), MAX_BYTES).unwrap_err();
        assert_eq!(linked.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(kind_of(&path("fifo")), io::ErrorKind::InvalidInput);
        assert_eq!(kind_of(folder.path()), io::ErrorKind::InvalidInput);
        assert_eq!(kind_of(Path::new("/dev/zero")), io::ErrorKind::InvalidInput);
    }
}
