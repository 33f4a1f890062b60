//! Drops rights to files and ports with Landlock.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    NetPort, PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::FileType;

use super::Gathered;

/// The newest ABI version that we support. On an older kernel fewer rights are restricted; the
/// probe reports that.
const NEWEST: ABI = ABI::V9;
/// The rights to read, and to run what is read.
const LOOK: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
/// Sockets and devices: never created, never opened.
const NEVER: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{MakeChar | MakeBlock | MakeSock | ResolveUnix});

/// Drops every right to files except those collected, and to ports as well if `ports` is set.
pub(super) fn restrict(gathered: &Gathered, ports: bool, needed: bool) -> io::Result<()> {
    let status = rules(gathered, ports)
        .and_then(|rules| rules.restrict_self().map_err(io::Error::other))?
        .ruleset;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced if needed => {
            Err(io::Error::other("this kernel does not support Landlock"))
        }
        // The file view confines the command without Landlock.
        RulesetStatus::NotEnforced => Ok(()),
    }
}

/// Returns the Landlock ABI version of the kernel, 0 if unavailable. Restricts this process.
pub(super) fn version() -> i32 {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    match status.map(|status| status.landlock) {
        Ok(LandlockStatus::Available {
            effective_abi,
            kernel_abi,
            ..
        }) => kernel_abi.unwrap_or(effective_abi as i32),
        Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => 0,
    }
}

fn rules(gathered: &Gathered, ports: bool) -> io::Result<RulesetCreated> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .map_err(io::Error::other)?;
    if ports {
        rules = rules
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::ConnectTcp | AccessNet::BindTcp)
            .map_err(io::Error::other)?
            .set_compatibility(CompatLevel::BestEffort);
    }
    let mut rules = rules.create().map_err(io::Error::other)?;
    for at in &gathered.read {
        rules = allow(rules, at, LOOK)?;
    }
    for at in &gathered.write {
        rules = allow(rules, at, AccessFs::from_all(NEWEST) & !NEVER)?;
    }
    if ports {
        for port in &gathered.ports {
            rules = rules
                .add_rule(NetPort::new(*port, AccessNet::ConnectTcp))
                .map_err(io::Error::other)?;
        }
    }
    Ok(rules)
}

fn allow(
    rules: RulesetCreated,
    at: &Path,
    rights: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    // Opened without following links: a link on the way was put there after the rights were
    // decided.
    let opened = crate::open_exact::walk(at).and_then(|place| {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        Ok((place, kind))
    });
    let (place, rights) = match opened {
        // The target of a link needs a rule of its own.
        Ok((_, FileType::Symlink)) => return Ok(rules),
        Ok((place, FileType::Directory)) => (place, rights),
        Ok((place, _)) => (place, rights & AccessFs::from_file(NEWEST)),
        // A missing file needs no rights.
        Err(_) => return Ok(rules),
    };
    rules
        .add_rule(PathBeneath::new(place, rights))
        .map_err(io::Error::other)
}
