//! Computes Landlock rights in the real tree, for machines without namespaces. A right covers
//! everything beneath a folder, so a folder with an exception gets rights for its other entries one
//! by one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::layout::{Scene, WRITABLE_DEVICES, hidden, shown};
use crate::orders::Order;
use crate::places::SYSTEM;
use crate::policy::Access;

/// The most Landlock rules of one command.
const MAX_RULES: usize = 8192;

/// The exceptions would need more rules than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Returns the rights of a command, as orders.
pub(crate) fn rights(scene: &Scene<'_>, scratch: &Path) -> Result<Vec<Order>, TooMany> {
    let policy = scene.policy;
    let mut excepted = hidden(policy, scene.places, scene.home);
    excepted.extend_from_slice(scene.private);
    let mut read = Vec::new();
    let programs = shown(policy, scene.places, scene.home);
    for path in SYSTEM.iter().map(PathBuf::from).chain(programs) {
        if let Ok(real) = fs::canonicalize(path) {
            around(&real, &excepted, &mut read)?;
        }
    }
    for path in policy.extra_read.iter().chain([&policy.workspace]) {
        around(path, &excepted, &mut read)?;
    }
    read.push("/proc".into());
    read.push("/sys/devices/system/cpu".into());
    let mut write: Vec<PathBuf> = WRITABLE_DEVICES.iter().map(PathBuf::from).collect();
    write.push(scratch.to_owned());
    excepted.extend(scene.fates.all().cloned());
    if policy.access == Access::ReadWrite {
        around(&policy.workspace, &excepted, &mut write)?;
    }
    for path in &policy.extra_write {
        around(path, &hidden(policy, scene.places, scene.home), &mut read)?;
        around(path, &excepted, &mut write)?;
    }
    let read = read.into_iter().map(|at| Order::MayRead { at });
    let write = write.into_iter().map(|at| Order::MayWrite { at });
    Ok(read.chain(write).collect())
}

/// Collects the folder, or those parts of it that contain no exception. A name that leads through a
/// link gets no right: a planted entry must not choose one.
fn around(folder: &Path, excepted: &[PathBuf], found: &mut Vec<PathBuf>) -> Result<(), TooMany> {
    let Some(real) = fs::canonicalize(folder).ok().filter(|real| real == folder) else {
        return Ok(());
    };
    if excepted.iter().any(|path| real.starts_with(path)) {
        return Ok(());
    }
    if found.len() >= MAX_RULES {
        return Err(TooMany);
    }
    if !excepted.iter().any(|path| path.starts_with(&real)) {
        found.push(real);
        return Ok(());
    }
    for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
        // The target of a link needs a right of its own.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), excepted, found)?;
        }
    }
    Ok(())
}
