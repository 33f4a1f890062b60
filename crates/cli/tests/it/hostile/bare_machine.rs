//! A machine without any sandbox: no `bwrap` in the path, and a kernel that supports neither
//! namespaces nor Landlock. A seccomp filter simulates it; child processes inherit the filter.

use std::process::Command;

use crate::world::{CommandOutput, World};

/// Installs the filter on itself and executes the program that follows. Perl comes with git.
const WITHOUT: &str = r#"
my ($prctl, $seccomp, $unshare, $landlock) = splice @ARGV, 0, 4;
my $refuse = 0x00050000 | 38;
my @filter = (
    [0x20, 0, 0, 0],
    [0x15, 2, 0, $unshare],
    [0x15, 1, 0, $landlock],
    [0x06, 0, 0, 0x7fff0000],
    [0x06, 0, 0, $refuse],
);
my $program = join '', map { pack 'SCCL', @$_ } @filter;
my $pointer = pack 'S x6 P', scalar @filter, $program;
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "prctl: $!";
syscall($seccomp, 1, 0, $pointer) == 0 or die "seccomp: $!";
exec @ARGV or die "exec: $!";
"#;

/// The numbers of `prctl`, `seccomp`, `unshare` and `landlock_create_ruleset`.
#[cfg(target_arch = "x86_64")]
const NUMBERS: [&str; 4] = ["157", "317", "272", "444"];
#[cfg(target_arch = "aarch64")]
const NUMBERS: [&str; 4] = ["167", "277", "97", "444"];

/// Runs the binary on such a machine.
pub(crate) fn run(world: &World, arguments: &[&str]) -> CommandOutput {
    let usual = world.command(arguments);
    let output = Command::new("/usr/bin/perl")
        .args(["-e", WITHOUT])
        .args(NUMBERS)
        .arg(usual.get_program())
        .args(usual.get_args())
        .env_clear()
        .envs(
            usual
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", "/nonexistent")
        .current_dir(world.workspace())
        .output()
        .unwrap();
    CommandOutput {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
