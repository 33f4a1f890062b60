//! `cargo xtask test`: everything that CI runs, in the order in which failures are cheapest.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::scratch::Scratch;
use crate::shell::cargo;
use crate::{api, binary, contract, crash, docs, load, place, setup, shell, tidy, web};

/// The features under which the crash tests can kill the binary at chosen points.
const CRASH_POINTS: &str = "sortie-cli/crash-points";

/// The times of the last run, in the target folder: result, seconds and name of each step.
const TIMES: &str = "test-times.tsv";

/// A step: its headline and what it does.
type Step = (&'static str, fn(&Options) -> Result<()>);

const STEPS: [Step; 19] = [
    ("set up", |_| setup::prepare()),
    ("lock file", |_| lock_file()),
    ("format", |_| {
        shell::run(&mut cargo(&["fmt", "--all", "--check"])?)
    }),
    ("tidy", |_| tidy::run(&[])),
    ("names in documents", |_| docs::run(&[])),
    ("lints, all features", |_| {
        lint(&["--all-targets", "--all-features"])
    }),
    ("lints, no features", |_| lint(&[])),
    ("library without its features", |_| {
        let arguments = ["check", "--quiet", "-p", "sortie", "--no-default-features"];
        shell::run(&mut cargo(&arguments)?)
    }),
    ("page: types and unit tests", |_| web::checks()),
    ("tests", |_| tests()),
    ("documentation tests", |_| {
        shell::run(&mut cargo(&["test", "--quiet", "--doc", "--workspace"])?)
    }),
    ("documentation", |_| documentation()),
    ("licences and sources", deny),
    ("wire contracts", |_| contract::run(&["--ci".to_owned()])),
    ("API against its document", |_| api::run(&[])),
    ("page in a browser", |_| web::browser()),
    ("load, short form", |_| load::run(&["--ci".to_owned()])),
    ("README", |_| readme()),
    ("crash, short form", |_| crash::run(&["--ci".to_owned()])),
];

#[derive(Debug)]
struct Options {
    advisories: bool,
}

/// Runs every step; the first one that fails ends the run with its exit code.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let mut times = Vec::new();
    println!("target folder: {}", place::target()?.display());
    for (number, (name, step)) in STEPS.iter().enumerate() {
        println!("\n==> {} of {}: {name}", number + 1, STEPS.len());
        let start = Instant::now();
        let result = step(&options);
        times.push((*name, start.elapsed()));
        if let Err(error) = result {
            summarise(&times, Some(name))?;
            return Err(error.context(format!("step {name:?} failed")));
        }
    }
    summarise(&times, None)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { advisories: false };
    for argument in arguments {
        match argument.as_str() {
            "--advisories" => options.advisories = true,
            other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
        }
    }
    Ok(options)
}

/// Prints the time of each step and keeps it in a file, so that growth can be seen.
fn summarise(times: &[(&str, Duration)], failed: Option<&str>) -> Result<()> {
    println!("\n==> summary");
    let mut lines = String::new();
    for (name, time) in times {
        let word = if failed == Some(*name) {
            "FAILED"
        } else {
            "ok"
        };
        let seconds = time.as_secs_f64();
        println!("{word:>6}  {seconds:>7.1} s  {name}");
        lines.push_str(&format!("{word}\t{seconds:.1}\t{name}\n"));
    }
    let whole: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:>6}  {:>7.1} s  total", "", whole.as_secs_f64());
    let file = place::target()?.join(TIMES);
    std::fs::write(&file, lines).with_context(|| format!("cannot write {}", file.display()))?;
    println!("times kept in {}", file.display());
    Ok(())
}

fn lint(arguments: &[&str]) -> Result<()> {
    shell::run(
        cargo(&["clippy", "--quiet", "--workspace"])?
            .args(arguments)
            .args(["--", "-D", "warnings"]),
    )
}

fn tests() -> Result<()> {
    let arguments = ["--workspace", "--features", CRASH_POINTS];
    if setup::has_nextest() {
        return shell::run(cargo(&["nextest", "run"])?.args(arguments));
    }
    println!("cargo-nextest is missing: using `cargo test`");
    shell::run(cargo(&["test", "--quiet", "--all-targets"])?.args(arguments))
}

fn documentation() -> Result<()> {
    shell::run(
        cargo(&["doc", "--quiet", "--workspace", "--no-deps"])?.env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn deny(options: &Options) -> Result<()> {
    let mut command = Command::new(setup::cargo_deny()?);
    command
        .args(["--log-level", "error", "check"])
        .args(["bans", "licenses", "sources"])
        .current_dir(place::root());
    if options.advisories {
        command.arg("advisories");
    } else {
        println!("advisories are skipped; `cargo xtask test --advisories` fetches and checks them");
    }
    shell::run(&mut command)
}

/// Runs the README's first command with an empty home, as a newcomer would.
fn readme() -> Result<()> {
    let binary = binary::sortie()?;
    let scratch = Scratch::new(
        &std::env::temp_dir(),
        &format!("sortie-readme-{}", std::process::id()),
    )?;
    let home = scratch.path().join("home");
    std::fs::create_dir(&home).context("cannot create a home folder")?;
    let mut demo = Command::new(binary);
    demo.arg("demo")
        .current_dir(scratch.path())
        .env("HOME", home);
    for name in [
        "SORTIE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
    ] {
        demo.env_remove(name);
    }
    shell::run(&mut demo)
}

/// Checks that the lock file matches the manifests.
fn lock_file() -> Result<()> {
    let arguments = ["metadata", "--locked", "--format-version", "1"];
    shell::output(&mut cargo(&arguments)?).map(|_| ())
}
