//! Translates the file view into arguments of `bwrap`.

use std::ffi::OsString;
use std::path::Path;

use crate::layout::HELPER;
use crate::orders::Order;
use crate::policy::Network;

/// Returns the command line of `bwrap`, up to the program.
pub(crate) fn words(bwrap: &Path, view: &[Order], network: &Network, cwd: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![bwrap.into()];
    let mut add = |parts: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(parts.iter().map(|part| part.as_ref().to_owned()));
    };
    add(&[
        &"--unshare-user",
        &"--unshare-pid",
        &"--unshare-ipc",
        &"--unshare-uts",
        &"--unshare-cgroup-try",
        &"--cap-drop",
        &"ALL",
        &"--die-with-parent",
        // The helper is PID 1, so that no process inside has more rights than the helper.
        &"--as-pid-1",
    ]);
    match network {
        Network::Off | Network::Loopback => add(&[&"--unshare-net"]),
        Network::Ports(_) | Network::On => {}
    }
    for order in view {
        match order {
            Order::Read { from, at } => add(&[&"--ro-bind", from, at]),
            Order::Write { from, at } => add(&[&"--bind", from, at]),
            Order::Scratch { at, size_bytes } => {
                add(&[&"--size", &size_bytes.to_string(), &"--tmpfs", at]);
            }
            Order::Link { to, at } => add(&[&"--symlink", to, at]),
            Order::HideFile { at } => add(&[&"--ro-bind", &"/dev/null", at]),
            Order::HideFolder { at } => {
                add(&[&"--perms", &"0000", &"--tmpfs", at, &"--remount-ro", at]);
            }
            Order::Processes {} => add(&[&"--proc", &"/proc"]),
            Order::Devices {} => add(&[&"--dev", &"/dev"]),
            // The helper carries out these orders itself, inside the sandbox.
            Order::Parent { .. }
            | Order::Lifeline { .. }
            | Order::Join { .. }
            | Order::Adopt { .. }
            | Order::Unshare { .. }
            | Order::DieWithParent {}
            | Order::NewRoot {}
            | Order::EnterRoot {}
            | Order::Part { .. }
            | Order::Same { .. }
            | Order::Along { .. }
            | Order::Mask { .. }
            | Order::Prove {}
            | Order::Loopback {}
            | Order::Text { .. }
            | Order::Start { .. }
            | Order::Session {}
            | Order::Limit { .. }
            | Order::MayRead { .. }
            | Order::MayWrite { .. }
            | Order::MayConnect { .. }
            | Order::Restrict { .. }
            | Order::DropPrivileges {}
            | Order::Filter { .. }
            | Order::Become {}
            | Order::Report {} => {}
        }
    }
    add(&[&"--remount-ro", &"/", &"--chdir", &cwd, &"--", &HELPER]);
    words
}
