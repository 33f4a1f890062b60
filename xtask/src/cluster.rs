//! `cargo xtask cluster`: a server and workers that share one PostgreSQL, killed and stopped at random.
//!
//! Trees of runs with once-only effects are started while processes are killed with `kill -9`, or
//! stopped for longer than their lease and continued. Afterwards nothing may be lost or doubled, and
//! no entry of a journal may have been written under an older claim than the one before it. A control
//! without fences must break that.

mod database;
mod members;
mod trees;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::crash::number;
use crate::random::{Random, any_seed};
use crate::scratch::Scratch;
use crate::{binary, place};
use database::Database;
use members::Members;
use trees::Trees;

/// Kills of the long and of the short form.
const KILLS: (u64, u64) = (300, 30);
/// Workers of the long and of the short form.
const WORKERS: (u64, u64) = (4, 2);
/// Kills for each tree that is started.
const KILLS_PER_TREE: u64 = 4;
/// The lease of the processes.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// A process that was stopped this long has lost its leases, and others have claimed its runs.
const STOPPED: Duration = Duration::from_millis(3_300);
/// The shortest pause between two kills, and how much longer it may be, in milliseconds.
const PAUSE_MS: (u64, u64) = (300, 700);
/// Of so many trees one may contain a run that was killed too often without progress, by chance.
const TREES_PER_GIVEN_UP: usize = 8;
/// How long the last runs may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Attempts of the control to write under a lost claim. A worker that continues often learns first that its
/// leases are lost, and stops: one attempt in three or so writes.
const CONTROLS: u32 = 24;

/// Runs the control and the kill loop.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let binary = match &options.binary {
        Some(path) => path.canonicalize()?,
        None => binary::with_crash_points()?,
    };
    let parent = place::cache()?.join("cluster");
    let mut scratch = Scratch::new(&parent, &format!("{}-{}", options.seed, std::process::id()))?;
    println!("seed {}, folder {}", options.seed, scratch.path().display());
    let database = Database::start()?;
    let result = control(&binary, &scratch, &database)
        .and_then(|()| kill_loop(&binary, &scratch, &database, &options));
    if result.is_err() {
        scratch.keep();
    }
    result
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    kills: u64,
    workers: u64,
    seed: u64,
    /// A binary with crash points, instead of building one.
    binary: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let (mut kills, mut workers, mut binary) = (None, None, None);
        let mut is_short = false;
        let mut seed = any_seed();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--kills" => kills = Some(number("--kills", rest.next())?),
                "--workers" => workers = Some(number("--workers", rest.next())?),
                "--seed" => seed = number("--seed", rest.next())?,
                "--binary" => binary = rest.next().map(PathBuf::from),
                "--ci" => is_short = true,
                other => bail!("unknown argument {other:?}; run `cargo xtask help`"),
            }
        }
        let of_form = |(long, short)| if is_short { short } else { long };
        let options = Self {
            kills: kills.unwrap_or_else(|| of_form(KILLS)),
            workers: workers.unwrap_or_else(|| of_form(WORKERS)),
            seed,
            binary,
        };
        ensure!(options.workers > 0, "--workers must be at least 1");
        Ok(options)
    }
}

/// Kills and stops processes while trees run; nothing may be lost or doubled.
fn kill_loop(
    binary: &Path,
    scratch: &Scratch,
    database: &Database,
    options: &Options,
) -> Result<()> {
    println!("\n--> kill -9 and SIGSTOP, {} workers", options.workers);
    let schema = database.schema("kills")?;
    let folder = scratch.path().join("kills");
    let mut members = Members::start(binary, &folder, &schema, options.workers, None)?;
    let mut trees = Trees::new(&folder, 120)?;
    let mut random = Random::new(options.seed);
    let start = Instant::now();
    let mut counts = Counts::default();
    for kill in 0..options.kills {
        if kill.is_multiple_of(KILLS_PER_TREE) {
            // Most of them on the processes that are killed most often.
            let on_workers = !trees.count().is_multiple_of(3);
            trees.start(&members, on_workers)?;
        }
        sleep(Duration::from_millis(PAUSE_MS.0 + random.below(PAUSE_MS.1)));
        members.continue_stopped(STOPPED)?;
        let worker = random.below(options.workers);
        match random.below(10) {
            0 => {
                members.kill_server()?;
                counts.server += 1;
            }
            1..=6 => {
                members.kill_worker(worker)?;
                counts.workers += 1;
            }
            _ => {
                members.stop_worker(worker)?;
                counts.stopped += 1;
            }
        }
    }
    let disturbed = start.elapsed();
    members.continue_stopped(Duration::ZERO)?;
    let settling = Instant::now();
    while !members.is_idle()? {
        ensure!(
            settling.elapsed() < PATIENCE,
            "runs have not ended {PATIENCE:?} after the last kill"
        );
        sleep(Duration::from_millis(200));
    }
    println!(
        "{} trees; kill -9 of a worker {} times, of the server {} times, stopped past the lease {} \
         times, in {:.0} s; the last runs ended {:.1} s later",
        trees.count(),
        counts.workers,
        counts.server,
        counts.stopped,
        disturbed.as_secs_f64(),
        settling.elapsed().as_secs_f64()
    );
    let report = trees.check(&members)?;
    println!(
        "{} runs, {} entries, {} claims after a loss, {} once-only effects; the model got \
         \"unknown\" {} times",
        report.runs, report.entries, report.recovered, report.effects, report.unknown
    );
    for tree in &report.given_up {
        println!("  given up, by design: {tree}");
    }
    for problem in &report.problems {
        println!("  {problem}");
    }
    ensure!(
        report.given_up.len() * TREES_PER_GIVEN_UP <= trees.count() as usize,
        "too many runs were given up; repeat it with --seed {}",
        options.seed
    );
    ensure!(
        report.problems.is_empty(),
        "{} promises are broken; repeat it with --seed {}",
        report.problems.len(),
        options.seed
    );
    ensure!(
        report.recovered > 0,
        "no kill hit a run: the test shows nothing"
    );
    println!("0 lost, 0 doubled, never two owners of one run");
    Ok(())
}

#[derive(Debug, Default)]
struct Counts {
    workers: u64,
    server: u64,
    stopped: u64,
}

/// Without fences, a worker that continues after its lease writes beside the next owner: the checks
/// must detect it.
fn control(binary: &Path, scratch: &Scratch, database: &Database) -> Result<()> {
    println!("\n--> control without fences");
    let schema = database.schema("control")?;
    let folder = scratch.path().join("control");
    let mut members = Members::start(binary, &folder, &schema, 2, Some("fence"))?;
    let mut trees = Trees::new(&folder, 700)?;
    for attempt in 1..=CONTROLS {
        trees.start(&members, true)?;
        sleep(Duration::from_millis(900));
        members.stop_worker(u64::from(attempt % 2))?;
        sleep(STOPPED);
        members.continue_stopped(Duration::ZERO)?;
        sleep(Duration::from_millis(900));
        let second_owners = trees.second_owners(&members)?;
        if let Some(problem) = second_owners.first() {
            println!("attempt {attempt}: the checks detect it: {problem}");
            return Ok(());
        }
    }
    bail!("fences are broken, and the checks do not detect it in {CONTROLS} attempts")
}

pub(crate) fn sleep(time: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "the processes under test need the time"
    )]
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_has_thirty_kills_and_two_workers() {
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let parsed = Options::parse(&words("--ci --seed 7")).unwrap();
        assert_eq!((parsed.kills, parsed.workers, parsed.seed), (30, 2, 7));
        let parsed = Options::parse(&words("--ci --kills 3")).unwrap();
        assert_eq!(parsed.kills, 3);
        assert!(Options::parse(&words("--workers 0")).is_err());
    }
}
