//! The identity of a process beyond its id: ids are reused, and each container has its own.

use std::io;

use serde::{Deserialize, Serialize};

/// The start time is field 22 of `stat`; the fields after the name begin with field 3.
const START_TIME: usize = 22 - 3;

/// The identity of a process: the boot of its machine, the namespace of its id, and its start time. No
/// two processes have the same one. Only for comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ProcessIdentity(String);

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub(crate) fn own() -> io::Result<Self> {
        Self::in_folder("self")
    }

    /// Returns the identity of the process with this id in the namespace of this process.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Self::in_folder(&pid.to_string())
    }

    /// Whether both ids count in the same namespace, since the same boot.
    pub(crate) fn same_namespace(&self, other: &Self) -> bool {
        let namespace = |it: &Self| {
            it.0.rsplit_once(' ')
                .map(|(namespace, _)| namespace.to_owned())
        };
        namespace(self).is_some() && namespace(self) == namespace(other)
    }

    fn in_folder(process: &str) -> io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name is in parentheses and may contain one.
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
    fn identities_of_two_processes_differ() {
        let own = ProcessIdentity::own().unwrap();
        assert_eq!(own, ProcessIdentity::of(std::process::id()).unwrap());
        assert_ne!(own, ProcessIdentity::of(1).unwrap());
        assert!(ProcessIdentity::of(u32::MAX).is_err());
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = own.0.rsplit(' ').next().unwrap();
        assert_eq!(stat.split(' ').nth(21), Some(start), "{stat}");
    }
}
