//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{fan_out, growth};

/// Rounds of the fan-out.
const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 3;

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) json: bool,
    /// Fewer rounds and smaller scenes.
    pub(crate) quick: bool,
    /// Also the scenes that take long.
    pub(crate) long: bool,
    /// Where the plot of the growth is written.
    pub(crate) plot: Option<PathBuf>,
    /// Where a flame graph of the fan-out is written, in place of all measurements.
    pub(crate) flame: Option<PathBuf>,
    only: Option<Part>,
    rounds: Option<usize>,
    latencies_ms: Option<Vec<u64>>,
    children: Option<Vec<u32>>,
    binaries: Vec<(String, PathBuf)>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The real binary beside a bare client.
    FanOut,
    /// The parts of the runtime.
    Parts,
    /// How the cost of a step grows. Only on request, because it takes long.
    Growth,
}

impl Options {
    pub(crate) fn wants(&self, part: Part) -> bool {
        match self.only {
            Some(only) => only == part,
            None => part != Part::Growth,
        }
    }

    pub(crate) fn growth(&self) -> Result<growth::Plan> {
        Ok(growth::Plan {
            binary: self.binary()?.clone(),
            quick: self.quick,
            long: self.long,
        })
    }

    /// Returns the first binary.
    pub(crate) fn binary(&self) -> Result<&PathBuf> {
        let first = self.binaries.first().context("no binary to measure")?;
        Ok(&first.1)
    }

    pub(crate) fn fan_out(&self) -> fan_out::Plan {
        let rounds = match self.quick {
            true => ROUNDS_QUICK,
            false => ROUNDS,
        };
        let mut children = vec![1, 8, 32, 100];
        if self.long {
            children.push(1000);
        }
        let latencies = self.latencies_ms.clone().unwrap_or_else(|| vec![50, 0]);
        fan_out::Plan {
            rounds: self.rounds.unwrap_or(rounds),
            latencies: latencies.into_iter().map(Duration::from_millis).collect(),
            children: self.children.clone().unwrap_or(children),
            binaries: self.binaries.clone(),
        }
    }
}

/// Reads the options of the command line.
pub(crate) fn parse(words: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match *word {
            "--json" => options.json = true,
            "--quick" => options.quick = true,
            "--long" => options.long = true,
            "--sortie" => options
                .binaries
                .insert(0, binary(&format!("sortie run={}", value()?))?),
            "--binary" => options.binaries.push(binary(value()?)?),
            "--growth" => options.only = Some(Part::Growth),
            "--flame" => options.flame = Some(value()?.into()),
            "--plot" => options.plot = Some(value()?.into()),
            "--only" => options.only = Some(part(value()?)?),
            "--rounds" => options.rounds = Some(value()?.parse().context("--rounds")?),
            "--latency" => options.latencies_ms = Some(numbers(value()?).context("--latency")?),
            "--children" => options.children = Some(numbers(value()?).context("--children")?),
            other => bail!("unknown option {other:?}; `cargo xtask help` lists the options"),
        }
    }
    ensure!(
        !options.binaries.is_empty() || options.only == Some(Part::Parts),
        "no binary to measure; use --sortie PATH or --binary NAME=PATH"
    );
    Ok(options)
}

fn binary(value: &str) -> Result<(String, PathBuf)> {
    let (name, path) = value
        .split_once('=')
        .with_context(|| format!("--binary takes NAME=PATH, not {value:?}"))?;
    let path = std::path::absolute(path)?;
    ensure!(path.is_file(), "there is no file {}", path.display());
    Ok((name.to_owned(), path))
}

fn part(value: &str) -> Result<Part> {
    match value {
        "fan-out" => Ok(Part::FanOut),
        "parts" => Ok(Part::Parts),
        other => bail!("--only takes fan-out or parts, not {other:?}"),
    }
}

fn numbers<T: std::str::FromStr>(value: &str) -> Result<Vec<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let numbers = value.split(',').map(|word| word.trim().parse::<T>());
    Ok(numbers.collect::<Result<Vec<T>, _>>()?)
}
