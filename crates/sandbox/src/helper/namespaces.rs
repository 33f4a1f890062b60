//! Creates the namespaces of the helper.

use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};

/// The capabilities that the next helper needs to build its root and its network. If it is not
/// root, the kernel drops all capabilities at its start except these.
const KEPT: [CapabilitySet; 3] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SETPCAP,
    CapabilitySet::NET_ADMIN,
];

/// Leaves the namespaces of the parent. The next child process is PID 1 of its own PID namespace.
pub(super) fn leave(network: bool) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    flags.set(CloneFlags::CLONE_NEWNET, network);
    unshare(flags).map_err(io::Error::from)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    let (user, group) = (user.as_raw(), group.as_raw());
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    hand_on()
}

fn hand_on() -> io::Result<()> {
    let now = capabilities(None)?;
    let kept = KEPT.iter().copied().collect();
    let sets = CapabilitySets {
        inheritable: kept,
        ..now
    };
    set_capabilities(None, sets)?;
    for capability in KEPT {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
