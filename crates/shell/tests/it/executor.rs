//! Runs commands under the real bash, in one process, and records the programs that it started.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reads commands from a file and runs each in a shell where every program is only recorded: only
/// bash is on its path, and bash calls the handler for each program that it does not find.
const DRIVER: &str = r#"
exec 2>/dev/null
ln -s "$BASH" "$PROGRAMS/bash"
export PATH=$PROGRAMS
# No case may write over the program of a later one; the shells that cases start inherit it.
set -o noclobber
export SHELLOPTS
command_not_found_handle() { printf '\1%s' "$CASE" "$@" >> "$LOG"; printf '\2' >> "$LOG"; }
export -f command_not_found_handle
export LOG CASE=0
while IFS= read -r -d '' command <&9; do
    ( eval "$command" ) </dev/null >/dev/null 9<&-
    CASE=$((CASE + 1))
done 9< "$CASES"
wait
"#;

/// A program that was started, and the index of its command.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) case: usize,
    pub(crate) argv: Vec<String>,
}

/// Programs that start the command in their arguments; the real ones are used if they exist.
const WRAPPERS: [&str; 22] = [
    "chroot", "choom", "chrt", "env", "find", "flock", "git", "ionice", "linux64", "nice", "nohup",
    "prlimit", "runuser", "script", "setarch", "setpriv", "setsid", "sh", "stdbuf", "taskset",
    "timeout", "unshare",
];
/// The folders that are searched for them.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Commands that were run with the real wrappers, and the programs that they started.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) commands: Vec<String>,
    pub(crate) started: Vec<Started>,
}

/// Runs commands in which `git push -f CASE` is a program that is only recorded. It is called by
/// its path, so that a wrapper that clears the environment cannot find another one.
pub(crate) fn run_recorded(generate: impl FnOnce(&str) -> Vec<String>) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let recorders = folder.path().join("recorders");
    fs::create_dir(&recorders).unwrap();
    let log = folder.path().join("log").display().to_string();
    let text = format!(
        "#!/bin/bash\nprintf '\\1%s' \"$3\" git \"$@\" >> '{log}'; printf '\\2' >> '{log}'\n"
    );
    let recorder = recorders.join("git");
    fs::write(&recorder, text).unwrap();
    fs::set_permissions(&recorder, fs::Permissions::from_mode(0o755)).unwrap();
    let commands = generate(&recorders.display().to_string());
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for name in WRAPPERS.into_iter().chain(["xargs"]) {
        let places = FOLDERS.map(|place| Path::new(place).join(name));
        if let Some(found) = places.iter().find(|place| place.exists()) {
            std::os::unix::fs::symlink(found, programs.join(name)).unwrap();
        }
    }
    let started = run_in(&folder, &commands);
    Recorded { commands, started }
}

/// Runs all commands and returns every program that they started.
pub(crate) fn run(commands: &[String]) -> Vec<Started> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("programs")).unwrap();
    run_in(&folder, commands)
}

fn run_in(folder: &tempfile::TempDir, commands: &[String]) -> Vec<Started> {
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    for name in ["a", "b", "ab", "x"] {
        fs::write(inside.join(name), "").unwrap();
    }
    let programs = folder.path().join("programs");
    local_program(&inside.join("git"));
    let cases = folder.path().join("cases");
    let mut file = fs::File::create(&cases).unwrap();
    for command in commands {
        file.write_all(command.as_bytes()).unwrap();
        file.write_all(b"\0").unwrap();
    }
    let log = folder.path().join("log");
    fs::write(&log, "").unwrap();
    let status = Command::new("bash")
        .args(["--norc", "-c", DRIVER])
        .current_dir(&inside)
        .env_clear()
        .env("PROGRAMS", &programs)
        .env("LC_ALL", "C.UTF-8")
        .env("CASES", &cases)
        .env("LOG", &log)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "the driver ended with {status}");
    parsed(&fs::read(&log).unwrap())
}

/// Creates a program in the folder itself, which a rule for `git` must not cover.
fn local_program(path: &Path) {
    let text = "#!/bin/bash\nprintf '\\1%s' \"$CASE\" ./git \"$@\" >> \"$LOG\"; printf '\\2' >> \"$LOG\"\n";
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn parsed(log: &[u8]) -> Vec<Started> {
    let text = String::from_utf8_lossy(log);
    let records = text.split('\u{2}').filter(|record| !record.is_empty());
    let started = records.map(|record| {
        let mut parts = record.split('\u{1}').skip(1);
        let case = parts.next().and_then(|case| case.parse().ok());
        Started {
            case: case.expect("a record begins with its case"),
            argv: parts.map(str::to_owned).collect(),
        }
    });
    started.collect()
}
