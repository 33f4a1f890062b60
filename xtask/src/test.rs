//! `cargo xtask test`: everything that CI runs, in the order in which failures are cheapest.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::scratch::Scratch;
use crate::shell::cargo;
use crate::{
    api, binary, cluster, contract, crash, docs, load, place, setup, shell, sim, tidy, web,
};

/// The features under which the crash tests can kill the binary at chosen points.
const CRASH_POINTS: &str = "sortie-cli/crash-points";

/// The times of the last runs, in the target folder: commit, result, seconds and name of each step.
const TIMES: &str = "test-times.tsv";
/// The lines of that file: about a hundred runs.
const MAX_TIMES: usize = 2_000;

/// A step: the shortest form of the command that runs it, its headline and what it does.
type Step = (Form, &'static str, fn(&Options) -> Result<()>);

/// How much runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// A developer's loop: everything that needs neither a browser nor minutes.
    Quick,
    /// What CI runs.
    Whole,
    /// With the long forms of the tests.
    Long,
}

const STEPS: [Step; 21] = [
    (Form::Whole, "set up", |_| setup::prepare()),
    (Form::Whole, "lock file", |_| lock_file()),
    (Form::Quick, "format", |_| {
        shell::run(&mut cargo(&["fmt", "--all", "--check"])?)
    }),
    (Form::Quick, "tidy", |_| tidy::run(&[])),
    (Form::Quick, "names in documents", |_| docs::run(&[])),
    (Form::Quick, "lints, all features", |_| {
        lint(&["--all-targets", "--all-features"])
    }),
    (Form::Whole, "lints, no features", |_| lint(&[])),
    (Form::Whole, "library without its features", |_| {
        let arguments = ["check", "--quiet", "-p", "sortie", "--no-default-features"];
        shell::run(&mut cargo(&arguments)?)
    }),
    (Form::Whole, "page: types and unit tests", |_| web::checks()),
    (Form::Quick, "tests", tests),
    (Form::Whole, "documentation tests", |_| {
        shell::run(&mut cargo(&["test", "--quiet", "--doc", "--workspace"])?)
    }),
    (Form::Whole, "documentation", |_| documentation()),
    (Form::Whole, "licences and sources", deny),
    (Form::Whole, "wire contracts", |_| {
        contract::run(&["--ci".to_owned()])
    }),
    (Form::Whole, "API against its document", |_| api::run(&[])),
    (Form::Whole, "page in a browser", |_| web::browser()),
    (Form::Whole, "load", load),
    (Form::Whole, "README", |_| readme()),
    (Form::Whole, "crash", crash),
    (Form::Whole, "cluster", |options| {
        cluster::run(&short_form(options))
    }),
    (Form::Long, "long forms of tests", |_| long_tests()),
];

#[derive(Debug)]
struct Options {
    form: Form,
    advisories: bool,
}

/// Runs every step; the first one that fails ends the run with its exit code.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let mut times = Vec::new();
    println!("target folder: {}", place::target()?.display());
    let steps = || STEPS.iter().filter(|(form, ..)| *form <= options.form);
    for (number, (_, name, step)) in steps().enumerate() {
        println!("\n==> {} of {}: {name}", number + 1, steps().count());
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
    let mut options = Options {
        form: Form::Whole,
        advisories: false,
    };
    for argument in arguments {
        match argument.as_str() {
            "--quick" => options.form = Form::Quick,
            "--long" => options.form = Form::Long,
            "--advisories" => options.advisories = true,
            other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
        }
    }
    Ok(options)
}

/// Prints the time of each step beside that of the run before, and appends it to a file, so that growth can
/// be seen.
fn summarise(times: &[(&str, Duration)], failed: Option<&str>) -> Result<()> {
    let target = place::target()?;
    fs::create_dir_all(&target).with_context(|| format!("cannot create {}", target.display()))?;
    let file = target.join(TIMES);
    let earlier = fs::read_to_string(&file).unwrap_or_default();
    let commit = shell::output(Command::new("git").args(["rev-parse", "--short", "HEAD"]))
        .unwrap_or_else(|_| "unknown".to_owned());
    let mut lines: Vec<String> = earlier.lines().map(str::to_owned).collect();
    println!("\n==> summary");
    println!("{:>6}  {:>9}  {:>9}  step", "", "seconds", "before");
    for (name, time) in times {
        let word = if failed == Some(*name) {
            "FAILED"
        } else {
            "ok"
        };
        let seconds = time.as_secs_f64();
        let before = before(&earlier, name).unwrap_or("");
        println!("{word:>6}  {seconds:>9.1}  {before:>9}  {name}");
        lines.push(format!("{}\t{word}\t{seconds:.1}\t{name}", commit.trim()));
    }
    let whole: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:>6}  {:>9.1}  {:>9}  total", "", whole.as_secs_f64(), "");
    lines.drain(..lines.len().saturating_sub(MAX_TIMES));
    fs::write(&file, lines.join("\n") + "\n")
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("times kept in {}", file.display());
    Ok(())
}

/// Returns the seconds of the last successful run of a step.
fn before<'a>(earlier: &'a str, name: &str) -> Option<&'a str> {
    earlier.lines().rev().find_map(|line| {
        let mut columns = line.split('\t').skip(1);
        let (word, seconds, step) = (columns.next()?, columns.next()?, columns.next()?);
        (word == "ok" && step == name).then_some(seconds)
    })
}

fn lint(arguments: &[&str]) -> Result<()> {
    shell::run(
        cargo(&["clippy", "--quiet", "--workspace"])?
            .args(arguments)
            .args(["--", "-D", "warnings"]),
    )
}

fn tests(options: &Options) -> Result<()> {
    let mut arguments = vec!["--workspace"];
    if !setup::has_nextest() {
        println!("cargo-nextest is missing: using `cargo test`, which runs all of them");
        return shell::run(cargo(&["test", "--quiet", "--all-targets"])?.args(arguments));
    }
    match options.form {
        Form::Quick => arguments.extend(["--profile", "quick"]),
        Form::Whole | Form::Long => arguments.extend(["--features", CRASH_POINTS]),
    }
    shell::run(cargo(&["nextest", "run"])?.args(arguments))
}

/// Runs the tests that take minutes each, and are ignored otherwise.
fn long_tests() -> Result<()> {
    let arguments = [
        "--workspace",
        "--features",
        CRASH_POINTS,
        "--profile",
        "long",
    ];
    shell::run(cargo(&["nextest", "run", "--run-ignored", "only"])?.args(arguments))?;
    sim::run(&[])
}

fn load(options: &Options) -> Result<()> {
    load::run(&short_form(options))
}

fn crash(options: &Options) -> Result<()> {
    crash::run(&short_form(options))
}

/// Returns the argument for the short form of a command, unless all is to run.
fn short_form(options: &Options) -> Vec<String> {
    match options.form {
        Form::Quick | Form::Whole => vec!["--ci".to_owned()],
        Form::Long => Vec::new(),
    }
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
    fs::create_dir(&home).context("cannot create a home folder")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_before_is_that_of_the_last_success() {
        let earlier = "a1\tok\t9.0\ttests\na2\tok\t7.5\ttests\na3\tFAILED\t1.0\ttests\n";
        assert_eq!(before(earlier, "tests"), Some("7.5"));
        assert_eq!(before(earlier, "lints"), None);
    }

    #[test]
    fn the_quick_form_is_a_part_of_the_whole_one() {
        let count = |form: Form| STEPS.iter().filter(|step| step.0 <= form).count();
        assert!(count(Form::Quick) > 0);
        assert!(count(Form::Quick) < count(Form::Whole));
        assert_eq!(count(Form::Whole) + 1, count(Form::Long));
    }
}
