//! Capabilities and limits.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Seconds between the signal that reports the CPU limit and the one that kills the process.
const CPU_GRACE_SECONDS: u64 = 2;

/// Drops all capabilities, and every way to gain new ones.
pub(super) fn drop_all() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => forget(capability)?,
            Ok(false) => {}
            // Beyond the last capability that the kernel supports.
            Err(_) => break,
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)?;
    set_no_new_privs(true)?;
    match capabilities(None)? {
        now if now == none => Ok(()),
        _ => Err(io::Error::other("some capabilities could not be dropped")),
    }
}

fn forget(capability: CapabilitySet) -> io::Result<()> {
    match remove_capability_from_bounding_set(capability) {
        // Without capabilities the bounding set cannot be changed. It then only limits what a
        // privileged program could gain, and from here on no program gains privileges.
        Err(Errno::PERM) => Ok(()),
        other => Ok(other?),
    }
}

/// Lowers a limit; never raises one.
pub(super) fn limit(name: &str, value: u64) -> io::Result<()> {
    let (resource, grace) = match name {
        "processes" => (Resource::Nproc, 0),
        "memory" => (Resource::Data, 0),
        "cpu" => (Resource::Cpu, CPU_GRACE_SECONDS),
        "file" => (Resource::Fsize, 0),
        "open" => (Resource::Nofile, 0),
        "core" => (Resource::Core, 0),
        _ => return Err(io::Error::other("unknown resource limit")),
    };
    let now = getrlimit(resource);
    let maximum = lower(now.maximum, value.saturating_add(grace));
    let wanted = Rlimit {
        current: Some(value.min(maximum)),
        maximum: Some(maximum),
    };
    Ok(setrlimit(resource, wanted)?)
}

fn lower(now: Option<u64>, wanted: u64) -> u64 {
    now.map_or(wanted, |now| now.min(wanted))
}
