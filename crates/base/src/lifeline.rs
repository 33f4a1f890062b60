//! A connection through which a started program notices that the process that started it is gone.
//!
//! The kernel closes the held end when its process dies, at whatever moment and for whatever reason,
//! so the other end hangs up even if the death comes before the program has armed anything. It is a
//! pair of sockets and not a pipe because a pipe can be opened again through `/proc/PID/fd`: a
//! command could then hold the writing end of its own lifeline and outlive its runtime.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The end of the parent process. Dropping it ends the program.
///
/// It is closed on exec, so no other program that is started meanwhile keeps it open.
#[derive(Debug)]
pub struct Lifeline {
    own_end: UnixStream,
}

impl Lifeline {
    /// Creates a lifeline; the second end becomes the standard input of the supervisor.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (own_end, given_end) = UnixStream::pair()?;
        own_end.set_nonblocking(true)?;
        Ok((Self { own_end }, given_end.into()))
    }

    /// Requests that the supervisor ends the program. Returns `false` if the supervisor is gone.
    pub fn request_end(&self) -> bool {
        (&self.own_end).write_all(b"e").is_ok()
    }

    /// Returns the byte that the supervisor reported, if it reported one. Does not wait.
    pub fn report(&self) -> Option<u8> {
        let mut byte = [0];
        match (&self.own_end).read(&mut byte) {
            Ok(1) => Some(byte[0]),
            Ok(_) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_returns_what_the_supervisor_wrote() {
        let (own_end, given_end) = Lifeline::new().unwrap();
        assert_eq!(own_end.report(), None);
        UnixStream::from(given_end).write_all(b"x").unwrap();
        assert_eq!(own_end.report(), Some(b'x'));
        assert_eq!(own_end.report(), None);
    }

    #[test]
    fn given_end_cannot_be_opened_again() {
        use std::os::fd::AsRawFd as _;
        let (_own_end, given_end) = Lifeline::new().unwrap();
        let path = format!("/proc/self/fd/{}", given_end.as_raw_fd());
        assert!(std::fs::OpenOptions::new().write(true).open(path).is_err());
    }

    #[test]
    fn given_end_hangs_up_when_the_own_end_is_dropped() {
        let (own_end, given_end) = Lifeline::new().unwrap();
        drop(own_end);
        let mut byte = [0];
        assert_eq!(UnixStream::from(given_end).read(&mut byte).unwrap(), 0);
    }
}
