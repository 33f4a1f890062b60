//! Builds `/web` into `OUT_DIR/dist`, or writes a plain page there.
//!
//! A build of Sortie never fails because of its page: whatever goes wrong here is a warning, and
//! the plain page says how to get the real one. Nothing is written to the source tree but
//! `web/node_modules`.

mod steps;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use steps::Trouble;

/// Set to anything but nothing or `0`, the page is not built: for work on Rust code only.
const SKIP: &str = "SORTIE_SKIP_WEB";

/// What the page is built from, besides the folders `src` and `public`.
const INPUTS: [&str; 6] = [
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    ".npmrc",
];

fn main() -> io::Result<()> {
    let places = Places::read()?;
    println!("cargo:rerun-if-env-changed={SKIP}");
    println!("cargo:rerun-if-changed=build");
    places.watch();
    steps::empty(&places.dist)?;
    if let Err(trouble) = build(&places) {
        match trouble {
            // Disabled, or no sources: no reason for a warning.
            Trouble::Skipped | Trouble::NoSources => {}
            Trouble::NoNode(_) => {
                watch_programs();
                println!("cargo:warning=the web page is not built: {trouble}");
            }
            // Not tried again by itself: a network that is away would slow each build.
            Trouble::Failed(_) | Trouble::File(_) => println!(
                "cargo:warning=the web page is not built: {trouble} (`touch web/package.json` and \
                 build to try again)"
            ),
        }
        steps::empty(&places.dist)?;
        fs::write(places.dist.join("index.html"), include_str!("plain.html"))?;
    }
    Ok(())
}

fn build(places: &Places) -> Result<(), Trouble> {
    if skipped() {
        return Err(Trouble::Skipped);
    }
    if !places.web.join("package.json").is_file() {
        return Err(Trouble::NoSources);
    }
    steps::need_node()?;
    // Locked to the end: two builds with different targets share `node_modules`.
    let _turn = steps::take_turn(&places.web)?;
    steps::install(&places.web)?;
    steps::bundle(&places.web, &places.dist)?;
    if places.dist.join("index.html").is_file() {
        Ok(())
    } else {
        Err(Trouble::Failed("the build left no index.html".to_owned()))
    }
}

/// Where sources are and where the page goes.
struct Places {
    web: PathBuf,
    dist: PathBuf,
}

impl Places {
    fn read() -> io::Result<Self> {
        Ok(Self {
            web: variable("CARGO_MANIFEST_DIR")?.join("../../web"),
            dist: variable("OUT_DIR")?.join("dist"),
        })
    }

    /// Names each input to cargo. A folder is watched with all that is in it. A path that is not there
    /// would make cargo run this each time, so only what is there is named.
    fn watch(&self) {
        let folders = ["src", "public"].into_iter();
        for input in INPUTS.into_iter().chain(folders) {
            let path = self.web.join(input);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
}

/// Has cargo run this again as soon as programs were installed, as Node may be one of them.
fn watch_programs() {
    println!("cargo:rerun-if-env-changed=PATH");
    let Ok(path) = variable("PATH") else { return };
    for folder in env::split_paths(path.as_os_str()).filter(|folder| folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script everything by the environment"
)]
fn variable(name: &str) -> io::Result<PathBuf> {
    let value = env::var_os(name);
    let value = value.ok_or_else(|| io::Error::other(format!("cargo did not set {name}")))?;
    Ok(Path::new(&value).to_path_buf())
}

fn skipped() -> bool {
    let has_page = variable("CARGO_FEATURE_PAGE").is_ok();
    !has_page
        || variable(SKIP)
            .is_ok_and(|value| !value.as_os_str().is_empty() && value != Path::new("0"))
}
