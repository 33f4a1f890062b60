//! `cargo xtask crash`: kills the real binary at any instant and checks that nothing is lost.
//!
//! Four parts: a loop of `kill -9` at random instants, a sweep that kills at every storage system
//! call of a small scenario, one that makes every such call fail, and a control with a broken outbox,
//! which the checks must detect.

pub(crate) mod check;
mod control;
mod errno;
mod kill_loop;
pub(crate) mod observed;
mod pool;
mod process;
pub(crate) mod scenario;
mod site;
mod sweep;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::random::any_seed;
use crate::scratch::Scratch;
use crate::{binary, place};

/// Kill cycles of the long form: without a failure, the rate is below 3 in 1,000.
const LONG_CYCLES: u64 = 1000;
/// Kill cycles of the short form.
const SHORT_CYCLES: u64 = 50;
/// Points of the short sweep.
const SHORT_POINTS: usize = 60;
/// Failing calls of the short form.
const SHORT_FAULTS: usize = 40;

/// Runs the chosen parts.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let binary = binary::with_crash_points()?;
    let parent = place::cache()?.join("crash");
    let mut scratch = Scratch::new(&parent, &format!("{}-{}", options.seed, std::process::id()))?;
    println!("seed {}, folder {}", options.seed, scratch.path().display());
    let bench = Bench {
        binary: &binary,
        folder: scratch.path(),
        options: &options,
    };
    let result = parts(&bench);
    if result.is_err() {
        scratch.keep();
    }
    result
}

fn parts(bench: &Bench<'_>) -> Result<()> {
    let options = bench.options;
    let mut failed = Vec::new();
    let mut part = |wanted: bool, name, run: fn(&Bench<'_>) -> Result<()>| {
        if wanted {
            println!("\n--> {name}");
            if let Err(error) = run(bench) {
                println!("{name}: FAILED: {error:#}");
                failed.push(name);
            }
        }
    };
    part(options.control, "control", control::run);
    part(options.kill_loop, "kill -9 loop", kill_loop::run);
    part(options.sweep, "crash-point sweep", sweep::run);
    part(options.errno, "failing-call sweep", errno::run);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The input of every part.
#[derive(Debug)]
struct Bench<'a> {
    binary: &'a Path,
    folder: &'a Path,
    options: &'a Options,
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    cycles: u64,
    seed: u64,
    kill_loop: bool,
    sweep: bool,
    errno: bool,
    control: bool,
    /// The most points of the sweep; `None` is all.
    max_points: Option<usize>,
    /// The most failing calls; `None` is all.
    max_faults: Option<usize>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            cycles: LONG_CYCLES,
            seed: any_seed(),
            kill_loop: false,
            sweep: false,
            errno: false,
            control: false,
            max_points: None,
            max_faults: None,
        };
        let mut cycles = None;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--cycles" => cycles = Some(number("--cycles", rest.next())?),
                "--seed" => options.seed = number("--seed", rest.next())?,
                "--loop" => options.kill_loop = true,
                "--sweep" => options.sweep = true,
                "--errno" => options.errno = true,
                "--control" => options.control = true,
                "--ci" => {
                    options.cycles = SHORT_CYCLES;
                    options.max_points = Some(SHORT_POINTS);
                    options.max_faults = Some(SHORT_FAULTS);
                }
                other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
            }
        }
        if !(options.kill_loop || options.sweep || options.errno || options.control) {
            (options.kill_loop, options.sweep) = (true, true);
            (options.errno, options.control) = (true, true);
        }
        options.cycles = cycles.unwrap_or(options.cycles);
        Ok(options)
    }
}

pub(crate) fn number(name: &str, value: Option<&String>) -> Result<u64> {
    let value = value.with_context(|| format!("{name} needs a number"))?;
    value
        .parse()
        .with_context(|| format!("{name} needs a number, and got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn the_short_form_does_every_part() {
        let expected = Options {
            cycles: SHORT_CYCLES,
            seed: 7,
            kill_loop: true,
            sweep: true,
            errno: true,
            control: true,
            max_points: Some(SHORT_POINTS),
            max_faults: Some(SHORT_FAULTS),
        };
        assert_eq!(parsed("--ci --seed 7").unwrap(), expected);
    }

    #[test]
    fn a_number_beats_the_short_form_and_a_part_excludes_the_others() {
        let expected = Options {
            cycles: 3,
            seed: 7,
            kill_loop: true,
            sweep: false,
            errno: false,
            control: false,
            max_points: Some(SHORT_POINTS),
            max_faults: Some(SHORT_FAULTS),
        };
        assert_eq!(parsed("--cycles 3 --ci --loop --seed 7").unwrap(), expected);
        let error = parsed("--cycles many").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--cycles needs a number, and got \"many\""
        );
    }
}
