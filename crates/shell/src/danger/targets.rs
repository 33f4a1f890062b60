//! Paths that are too important to be changed as a whole.

/// Folders that contain a system or all files of a user.
const ROOTS: [&str; 24] = [
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/mnt",
    "/opt",
    "/proc",
    "/private",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/var",
];
/// Spellings of the home folder.
const HOMES: [&str; 4] = ["~", "$HOME", "${HOME}", "~root"];
/// Spellings of the current folder, or of all its entries.
const HERE: [&str; 11] = [
    ".", "..", "*", ".*", "**", "$PWD", "${PWD}", "$(pwd)", "`pwd`", "{*,.*}", "{.,}*",
];
/// Devices that accept any data without harm.
const SAFE_DEVICES: [&str; 13] = [
    "fd/", "full", "null", "pts/", "random", "shm/", "stderr", "stdin", "stdout", "tcp/", "tty",
    "udp/", "urandom",
];

/// Returns whether the path is a root of the system or of all files of a user.
pub(super) fn is_system_root(path: &str) -> bool {
    let path = tidy(path);
    let home_of_one = ["/home/", "/Users/"]
        .iter()
        .filter_map(|start| path.strip_prefix(start))
        .any(|name| !name.contains('/'));
    path == "/"
        || home_of_one
        || ROOTS.contains(&path.as_str())
        || HOMES.contains(&path.as_str())
        || path == concat!("/", "root")
}

/// Returns whether deleting the path deletes a system root, a home folder, the current folder, a
/// folder above it, or the repository.
pub(super) fn is_precious(path: &str) -> bool {
    let tidied = tidy(path);
    let above = tidied.split('/').all(|part| part == "..");
    is_system_root(path) || above || HERE.contains(&tidied.as_str()) || tidied == ".git"
}

/// Returns whether writing to the path writes to a disk.
pub(super) fn is_device(path: &str) -> bool {
    let path = tidy(path);
    path.strip_prefix("/dev/").is_some_and(|name| {
        let safe = SAFE_DEVICES
            .iter()
            .any(|device| match device.strip_suffix('/') {
                Some(_) => name.starts_with(device),
                None => name == *device,
            });
        !safe && !name.starts_with("tty")
    })
}

/// Normalizes a path: `/usr/../etc/*` is `/etc`.
fn tidy(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            _ => parts.push(part),
        }
    }
    let matches_all = parts
        .last()
        .is_some_and(|last| matches!(*last, "*" | ".*" | "**"));
    if matches_all && (absolute || parts.len() > 1) {
        parts.pop();
    }
    let joined = parts.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) if !path.is_empty() => ".".to_owned(),
        (false, _) => joined,
    }
}
