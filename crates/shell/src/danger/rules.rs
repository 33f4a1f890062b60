//! The programs that are dangerous, and with which arguments.

use super::arguments::Arguments;
use super::targets::{is_device, is_precious, is_system_root};
use super::{DangerKind, Found, git, services};
use crate::script::{Simple, Word};

/// Checks one command by the rules of its program.
pub(super) fn judge(command: &Simple) -> Found {
    let program = command.program()?;
    let arguments = Arguments::of(command.arguments());
    match program {
        "rm" => removes(&arguments),
        "find" => finds(command),
        "chmod" | "chown" | "chgrp" | "setfacl" => changes(&arguments),
        "dd" => copies_to_device(&arguments),
        "tee" | "cp" | "shred" | "wipefs" | "blkdiscard" | "mkswap" => device_operand(&arguments),
        "fdisk" | "sfdisk" | "parted" | "gdisk" => partitions(&arguments),
        "mke2fs" => Some(DangerKind::WritesDisk),
        "shutdown" | "reboot" | "halt" | "poweroff" => stops(&arguments),
        "init" | "telinit" => when(
            matches!(arguments.first(), "0" | "6"),
            DangerKind::StopsMachine,
        ),
        "kill" => kills(command),
        "killall5" => Some(DangerKind::EndsProcesses),
        "killall" | "pkill" => kills_by_name(command, &arguments),
        "git" => git::judge(command.arguments()),
        _ if program.starts_with("mkfs") => Some(DangerKind::WritesDisk),
        _ => services::judge(program, command, &arguments),
    }
}

pub(super) fn when(condition: bool, kind: DangerKind) -> Found {
    condition.then_some(kind)
}

fn removes(arguments: &Arguments<'_>) -> Found {
    let recursive = arguments.has("rR", &["recursive"]);
    let everything = arguments.has_exactly("no-preserve-root");
    let precious = arguments.operands.iter().any(|path| is_precious(path));
    when(
        recursive && (everything || precious),
        DangerKind::DeletesTree,
    )
}

/// Checks `find`, which deletes everything below an important path if no test selects files.
fn finds(command: &Simple) -> Found {
    let words: Vec<&str> = command.arguments().iter().map(Word::shape).collect();
    let start = words
        .iter()
        .take_while(|text| !text.starts_with(['-', '(', '!']));
    let mut paths: Vec<&str> = start.copied().collect();
    if paths.is_empty() {
        paths.push(".");
    }
    let removers = command
        .effective()
        .into_iter()
        .skip(1)
        .filter_map(Simple::program);
    let removes = words.contains(&"-delete") || removers.into_iter().any(|name| name == "rm");
    let choices = [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-regex",
        "-iregex",
        "-mtime",
        "-mmin",
        "-ctime",
        "-atime",
        "-newer",
        "-size",
        "-empty",
        "-user",
        "-perm",
        "-wholename",
    ];
    let chooses = words.iter().any(|text| choices.contains(text));
    let whole = paths.iter().any(|path| is_precious(path));
    when(removes && whole && !chooses, DangerKind::DeletesTree)
}

fn changes(arguments: &Arguments<'_>) -> Found {
    let root = arguments.operands.iter().any(|path| is_system_root(path));
    let recursive = arguments.has("R", &["recursive"]);
    when(root && recursive, DangerKind::ChangesPermissions)
}

fn copies_to_device(arguments: &Arguments<'_>) -> Found {
    let mut outputs = arguments
        .operands
        .iter()
        .filter_map(|text| text.strip_prefix("of="));
    when(outputs.any(is_device), DangerKind::WritesDisk)
}

fn device_operand(arguments: &Arguments<'_>) -> Found {
    // Reading a device is harmless; `cp` writes to its last operand.
    let device = arguments
        .operands
        .last()
        .is_some_and(|path| is_device(path));
    when(device, DangerKind::WritesDisk)
}

fn partitions(arguments: &Arguments<'_>) -> Found {
    let lists = arguments.has("ld", &["list", "dump", "help", "version"]);
    let device = arguments.operands.iter().any(|path| is_device(path));
    when(device && !lists, DangerKind::WritesDisk)
}

fn stops(arguments: &Arguments<'_>) -> Found {
    let only_prints = arguments.has("ck", &["help", "version"]);
    when(!only_prints, DangerKind::StopsMachine)
}

/// Checks `kill`: `kill -9 -1` ends all processes, and `kill 1` the first process of the machine.
fn kills(command: &Simple) -> Found {
    let mut words: Vec<&str> = command.arguments().iter().map(Word::shape).collect();
    let signal = words.first().copied().unwrap_or_default();
    if matches!(signal, "-s" | "-n" | "--signal") {
        words.drain(..words.len().min(2));
    } else if signal.starts_with('-') && signal != "--" && words.len() > 1 {
        words.remove(0);
    }
    let everything = words.iter().any(|text| matches!(*text, "-1" | "1"));
    when(everything, DangerKind::EndsProcesses)
}

fn kills_by_name(command: &Simple, arguments: &Arguments<'_>) -> Found {
    let all = arguments
        .operands
        .iter()
        .any(|text| matches!(*text, "" | "." | ".*"));
    let of_user = arguments.has("uU", &["user", "euid", "uid"]);
    // The remaining operand is the name of the user.
    let only_user = of_user && arguments.operands.len() <= 1;
    let some = !command.arguments().is_empty();
    when(some && (all || only_user), DangerKind::EndsProcesses)
}
