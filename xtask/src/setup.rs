//! Installs what a bare Debian machine with Rust and Node lacks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{place, shell, tools};

/// Programs that the tests start, and the Debian packages they come in.
const PROGRAMS: [(&str, &str); 8] = [
    ("bash", "bash"),
    ("bwrap", "bubblewrap"),
    ("cc", "gcc"),
    ("chromium", "chromium"),
    ("fish", "fish"),
    ("git", "git"),
    ("strace", "strace"),
    ("zsh", "zsh"),
];
/// The version of cargo-deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";
/// The version of cargo-deb that reads the metadata of `crates/cli/Cargo.toml`.
const DEB_VERSION: &str = "3.8.0";

/// Installs the Debian packages and toolchain components that are missing.
pub(crate) fn prepare() -> Result<()> {
    install_packages()?;
    for (program, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        install_component(program, component)?;
    }
    Ok(())
}

fn install_packages() -> Result<()> {
    let mut packages: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| place::find_program(program).is_none())
        .map(|(_, package)| package)
        .collect();
    if !tools::has_python() {
        packages.extend(["python3", "python3-venv"]);
    }
    if !has_postgres() {
        // Debian's package may start a server of its own; the tests start theirs in another folder.
        packages.push("postgresql");
    }
    if packages.is_empty() {
        println!("all programs are installed");
        return Ok(());
    }
    if packages.contains(&"gcc") {
        // A C compiler needs the headers of the C library.
        packages.push("libc6-dev");
    }
    let names = packages.join(" ");
    ensure!(
        place::find_program("apt-get").is_some(),
        "programs are missing, and so is apt-get; install the packages that your system calls: {names}"
    );
    println!("installing {names}");
    shell::run(as_root("apt-get")?.args(["update", "-q"]))?;
    shell::run(
        as_root("apt-get")?
            .args(["install", "-q", "-y", "--no-install-recommends"])
            .args(&packages),
    )
}

/// Returns whether PostgreSQL's server is installed. Debian keeps its programs out of the `PATH`.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut installed = versions.filter_map(Result::ok);
    installed.any(|version| version.path().join("bin/initdb").is_file())
        || place::find_program("initdb").is_some()
}

fn as_root(program: &str) -> Result<Command> {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new(program)
    } else {
        let sudo = place::find_program("sudo")
            .context("installing packages needs root: run as root or install sudo")?;
        let mut command = Command::new(sudo);
        command.arg(program);
        command
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

fn install_component(program: &str, component: &str) -> Result<()> {
    if shell::works(Command::new(program).arg("--version")) {
        return Ok(());
    }
    ensure!(
        place::find_program("rustup").is_some(),
        "{program} is missing, and so is rustup; install the component {component}"
    );
    shell::run(Command::new("rustup").args(["component", "add", component]))
}

/// Returns whether nextest is installed; the tests run without it too, slower.
pub(crate) fn has_nextest() -> bool {
    shell::works(Command::new("cargo-nextest").args(["nextest", "--version"]))
}

/// Returns the path of cargo-deny; installs it into the cache if it is missing.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    cargo_tool("cargo-deny", DENY_VERSION)
}

/// Returns the path of cargo-deb; installs it into the cache if it is missing.
pub(crate) fn cargo_deb() -> Result<PathBuf> {
    cargo_tool("cargo-deb", DEB_VERSION)
}

fn cargo_tool(name: &str, version: &str) -> Result<PathBuf> {
    if let Some(found) = place::find_program(name) {
        return Ok(found);
    }
    let tools = place::cache()?.join("tools");
    let binary = tools.join("bin").join(name);
    if binary.is_file() {
        return Ok(binary);
    }
    println!("installing {name} {version} (once, a few minutes)");
    shell::run(
        Command::new(place::cargo())
            .args(["install", "--locked", "--version", version, name])
            .arg("--root")
            .arg(&tools)
            // Its build goes to cargo's own temporary folder, not to our target folder.
            .env_remove("CARGO_TARGET_DIR")
            .current_dir(place::root()),
    )?;
    Ok(binary)
}
