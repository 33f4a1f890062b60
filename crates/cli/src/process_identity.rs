//! Which process it is, beyond its number: numbers are used again, and each container has its own.

use std::io;

use serde::{Deserialize, Serialize};

/// Where the fields of `stat` after the name begin to count is field 3; this is field 22.
const START_TIME: usize = 22 - 3;

/// What no two processes have in common: the boot of their machine, the namespace in which their number
/// counts, and the moment of their start. Only for comparing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Birth(String);

impl Birth {
    /// This process's.
    pub(crate) fn own() -> io::Result<Self> {
        Self::in_folder("self")
    }

    /// That of the process which has this number where this process lives.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Self::in_folder(&pid.to_string())
    }

    /// Whether both numbers count in the same place: the same boot and the same namespace.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        let place = |birth: &Self| birth.0.rsplit_once(' ').map(|(place, _)| place.to_owned());
        place(self).is_some() && place(self) == place(other)
    }

    fn in_folder(process: &str) -> io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // A name may contain anything, a parenthesis too.
        let fields = stat.rsplit(')').next();
        let start = fields.and_then(|fields| fields.split_whitespace().nth(START_TIME));
        let start = start.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self(format!(
            "{} {} {start}",
            boot.trim(),
            namespace.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_and_nobody_else_is_it() {
        let own = Birth::own().unwrap();
        assert_eq!(own, Birth::of(std::process::id()).unwrap());
        assert_ne!(own, Birth::of(1).unwrap());
        assert!(Birth::of(u32::MAX).is_err());
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = own.0.rsplit(' ').next().unwrap();
        assert_eq!(stat.split(' ').nth(21), Some(start), "{stat}");
    }
}
