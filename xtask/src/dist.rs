//! `cargo xtask dist`: what is released, as files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{self, cargo};
use crate::{place, setup};

/// Shared libraries that the binary may need: those of the C library, which every Linux has.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"];
/// Files beside the binary in the archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

#[derive(Debug, Default)]
struct Options {
    deb: bool,
    image: bool,
}

/// Builds the archive and, if asked for, the package and the image.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--deb" => options.deb = true,
            "--image" => options.image = true,
            other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
        }
    }
    let folder = place::target()?.join("dist");
    let binary = build(&folder)?;
    check(&binary)?;
    archive(&folder, &binary)?;
    if options.deb {
        package(&folder)?;
    }
    if options.image {
        image()?;
    }
    Ok(())
}

/// Builds the binary without paths of this machine and without a shared libgcc.
fn build(folder: &Path) -> Result<PathBuf> {
    let mut flags = vec!["-Clink-arg=-static-libgcc".to_owned()];
    for (from, to) in private_paths()? {
        flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    }
    shell::run(
        cargo(&["build", "--locked", "--profile", "dist", "-p", "sortie-cli"])?
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")),
    )?;
    Ok(folder.join("sortie"))
}

/// Folders whose names must not be in the binary, and what the binary has instead.
fn private_paths() -> Result<[(PathBuf, &'static str); 3]> {
    Ok([
        (place::cargo_home()?, "cargo"),
        (place::target()?, "target"),
        (place::root().to_owned(), "sortie"),
    ])
}

/// Checks what a release promises of its binary.
fn check(binary: &Path) -> Result<()> {
    let content = fs::read(binary).context("cannot read the binary")?;
    for (folder, _) in private_paths()? {
        let name = folder.into_os_string().into_encoded_bytes();
        let found = content.windows(name.len()).any(|window| window == name);
        ensure!(
            !found,
            "the binary contains the path {}",
            String::from_utf8_lossy(&name)
        );
    }
    let dynamic = shell::output(Command::new("readelf").arg("--dynamic").arg(binary))?;
    for library in needed(&dynamic) {
        ensure!(
            LIBRARIES.contains(&library),
            "the binary needs the library {library}"
        );
    }
    println!("{}: {} bytes", binary.display(), content.len());
    Ok(())
}

/// Returns the shared libraries in the output of readelf.
fn needed(dynamic: &str) -> impl Iterator<Item = &str> {
    dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.strip_suffix(']'))
}

fn archive(folder: &Path, binary: &Path) -> Result<()> {
    let version = shell::output(Command::new(binary).arg("--version"))?;
    let version = version.split_whitespace().last().unwrap_or("unknown");
    let name = format!("sortie-{version}-x86_64-linux");
    let content = folder.join(&name);
    fs::create_dir_all(&content).context("cannot create the folder of the archive")?;
    fs::copy(binary, content.join("sortie")).context("cannot copy the binary")?;
    for document in DOCUMENTS {
        fs::copy(place::root().join(document), content.join(document))
            .with_context(|| format!("cannot copy {document}"))?;
    }
    let file = folder.join(format!("{name}.tar.xz"));
    shell::run(
        Command::new("tar")
            .args(["--create", "--xz", "--owner=0", "--group=0", "--file"])
            .arg(&file)
            .arg("--directory")
            .arg(folder)
            .arg(&name),
    )?;
    let bytes = fs::metadata(&file)
        .context("cannot find the archive")?
        .len();
    println!("{}: {bytes} bytes", file.display());
    Ok(())
}

fn package(folder: &Path) -> Result<()> {
    shell::run(
        Command::new(setup::cargo_deb()?)
            .args(["--no-build", "--profile", "dist", "-p", "sortie-cli"])
            .arg("--output")
            .arg(folder)
            .env("CARGO_TARGET_DIR", place::target()?)
            .current_dir(place::root()),
    )
}

fn image() -> Result<()> {
    let engine = ["podman", "docker"]
        .into_iter()
        .find_map(place::find_program)
        .context("an image needs podman or docker; install one of them")?;
    let mut build = Command::new(&engine);
    build.arg("build");
    if engine.ends_with("podman") {
        // Images in the OCI format have no HEALTHCHECK.
        build.args(["--format", "docker"]);
    }
    shell::run(
        build
            .args(["-f", "packaging/Containerfile", "-t", "sortie", "."])
            .current_dir(place::root()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read_from_readelf() {
        let output = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000c (INIT)               0x5a000";
        assert!(needed(output).eq(["libgcc_s.so.1", "libc.so.6"]));
    }
}
