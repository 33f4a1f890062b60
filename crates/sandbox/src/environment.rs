//! The environment of a confined command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::policy::Access;

/// Variables that name resources outside the sandbox: sockets of agents and of the desktop, and
/// their folders.
const OUTSIDE: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Folders of a home folder that get an explicit variable when the command has another home folder.
const FOLDERS: &[(&str, &str)] = &[
    ("CARGO_HOME", ".cargo"),
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("NVM_DIR", ".nvm"),
    ("GOMODCACHE", "go/pkg/mod"),
];

/// The private folders of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'a> {
    pub(crate) home: &'a Path,
    pub(crate) temporary: &'a Path,
    /// The user's home folder, if it differs from `home`.
    pub(crate) real_home: Option<&'a Path>,
}

/// Returns the environment of the helper and of the command, derived from the requested one.
pub(crate) fn confined(
    requested: Vec<(OsString, OsString)>,
    own: Own<'_>,
    access: Access,
) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<_> = requested
        .into_iter()
        .filter(|(name, _)| !is_outside(name))
        .collect();
    set(&mut environment, "HOME", own.home.as_os_str());
    set(&mut environment, "TMPDIR", own.temporary.as_os_str());
    if access == Access::ReadOnly {
        // Otherwise even `git status` tries to refresh the index.
        set(&mut environment, "GIT_OPTIONAL_LOCKS", OsStr::new("0"));
    }
    for (name, folder) in own.real_home.into_iter().flat_map(|_| FOLDERS) {
        let known = environment.iter().any(|(other, _)| other == name);
        if let Some(place) = own.real_home.map(|home| home.join(folder))
            && !known
            && place.is_dir()
        {
            set(&mut environment, name, place.as_os_str());
        }
    }
    environment
}

/// Returns whether a variable names a resource outside, or code that would be loaded into the
/// helper itself.
fn is_outside(name: &OsStr) -> bool {
    OUTSIDE.iter().any(|other| name == *other) || name.as_bytes().starts_with(b"LD_")
}

fn set(environment: &mut Vec<(OsString, OsString)>, name: &str, value: &OsStr) {
    environment.retain(|(other, _)| other != name);
    environment.push((name.into(), value.to_owned()));
}
