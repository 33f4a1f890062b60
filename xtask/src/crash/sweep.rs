//! A kill at every storage system call of a small scenario, by `strace`'s signal injection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::check::problems;
use super::process::{Ending, run_at_most};
use super::scenario::{SMALL, Scenario};
use super::site::{PATIENCE, Site};
use super::{Bench, pool};
use crate::scratch::Scratch;
use crate::{place, shell};

/// Calls by which the store changes files or makes changes durable.
const STORAGE: [&str; 13] = [
    "fallocate",
    "fdatasync",
    "fsync",
    "ftruncate",
    "mkdir",
    "openat",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "write",
];
/// Files that SQLite creates beside its database.
const BESIDE: [&str; 4] = ["", "-journal", "-shm", "-wal"];
/// The variable that permits skipping the sweep on a machine that forbids tracing.
const ALLOW_NO_STRACE: &str = "SORTIE_ALLOW_NO_STRACE";
/// Broken points after which the sweep stops.
pub(super) const MAX_BROKEN: usize = 5;

/// Kills at every point.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let start = Instant::now();
    let traced = Traced::new(bench, &SMALL)?;
    let points = spread(traced.points(), bench.options.max_points);
    println!("{} points, running {}", traced.count(), points.len());
    let totals = Mutex::new(Totals::default());
    pool::for_each(points.len() as u64, |number| {
        let point = &points[usize::try_from(number)?];
        let found = kill_at(bench, &traced, point)?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(totals.add(point, found))
    })?;
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "killed at {} points in {:.0} s; {} were not reached again; {}",
        totals.killed,
        start.elapsed().as_secs_f64(),
        totals.missed,
        totals.by_call()
    );
    ensure!(totals.killed > 0, "no kill hit a call");
    ensure!(
        totals.broken.is_empty(),
        "broken at {}",
        totals.broken.join(", ")
    );
    Ok(())
}

/// Returns whether `strace` works; if not, that is an error unless the variable permits it.
pub(super) fn can_trace() -> Result<bool> {
    if shell::works(Command::new("strace").args(["-f", "-e", "trace=none", "true"])) {
        return Ok(true);
    }
    let what = "strace is missing, or tracing (ptrace) is forbidden on this machine";
    ensure!(
        place::switched_on(ALLOW_NO_STRACE),
        "{what}; set {ALLOW_NO_STRACE}=1 to skip the sweep"
    );
    println!("SKIPPED: {what}, and {ALLOW_NO_STRACE}=1");
    Ok(false)
}

/// The `number`-th call of this name in one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) call: &'static str,
    pub(super) number: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.call, self.number)
    }
}

/// The storage calls of an undisturbed run on the files of its home.
#[derive(Debug)]
pub(super) struct Traced {
    /// The files, relative to the home.
    files: BTreeSet<PathBuf>,
    /// For each call, the count of the thread that made it most often; `strace` counts by thread.
    counts: BTreeMap<&'static str, u32>,
}

impl Traced {
    pub(super) fn new(bench: &Bench<'_>, scenario: &Scenario) -> Result<Self> {
        let files = files_of_a_home(bench, scenario)?;
        let scratch = Scratch::new(bench.folder, "sweep-traced")?;
        let site = Site::new(bench.binary, scratch.path())?;
        let log = scratch.path().join("trace");
        let mut command = strace(&site, &files, &log, &STORAGE.join(","));
        append(&mut command, &site.scenario(scenario));
        let ending = run_at_most(site.logged(&mut command, "run")?, PATIENCE)?;
        ensure!(
            matches!(ending, Ending::Exited(status) if status.success()),
            "the scenario fails under strace without a kill: {ending:?}"
        );
        let text = fs::read_to_string(&log).context("cannot read the trace")?;
        let counts = count(&text);
        ensure!(!counts.is_empty(), "the trace shows no storage call at all");
        Ok(Self { files, counts })
    }

    pub(super) const fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    pub(super) fn points(&self) -> Vec<Point> {
        let all = self.counts.iter();
        all.flat_map(|(call, count)| (1..=*count).map(|number| Point { call, number }))
            .collect()
    }

    fn count(&self) -> u32 {
        self.counts.values().sum()
    }
}

/// Runs the scenario once without tracing, to learn which files a home contains.
fn files_of_a_home(bench: &Bench<'_>, scenario: &Scenario) -> Result<BTreeSet<PathBuf>> {
    let mut scratch = Scratch::new(bench.folder, "sweep-undisturbed")?;
    let site = Site::new(bench.binary, scratch.path())?;
    let ending = site.run(scenario, PATIENCE)?;
    let found = problems(scenario, &site.observe()?);
    if !found.is_empty() {
        scratch.keep();
        bail!(
            "the scenario fails without a kill ({ending:?}): {}; see {}",
            found.join("; "),
            scratch.path().display()
        );
    }
    let mut files = BTreeSet::from([PathBuf::new()]);
    list(&site.home(), Path::new(""), &mut files)?;
    Ok(files)
}

fn list(folder: &Path, below: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &name, files)?;
        }
        for beside in BESIDE {
            let mut name = name.clone().into_os_string();
            name.push(beside);
            files.insert(name.into());
        }
    }
    Ok(())
}

/// Returns `strace`, restricted to these calls on the files of the site's home.
pub(super) fn strace(
    site: &Site<'_>,
    files: &BTreeSet<PathBuf>,
    log: &Path,
    calls: &str,
) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(log);
    command.arg("-e").arg(format!("trace={calls}"));
    for file in files {
        // Without the trailing separator that `join` leaves for the home itself.
        let path: PathBuf = site.home().join(file).components().collect();
        command.arg("-P").arg(path);
    }
    command
}

/// Returns the command, started by another program.
pub(super) fn append(outer: &mut Command, inner: &Command) {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
}

/// Counts entries of a trace (`pid call(…`) for each call, in the thread with most of them.
fn count(trace: &str) -> BTreeMap<&'static str, u32> {
    let mut by_thread: BTreeMap<(&str, &'static str), u32> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        if let Some(call) = STORAGE.into_iter().find(|call| *call == name) {
            *by_thread.entry((thread, call)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in by_thread {
        let entry = most.entry(call).or_insert(0);
        *entry = count.max(*entry);
    }
    most
}

/// Returns at most this many of the points, evenly spread.
pub(super) fn spread<T: Clone>(points: Vec<T>, most: Option<usize>) -> Vec<T> {
    match most {
        Some(most) if most < points.len() => (0..most)
            .map(|index| points[index * points.len() / most].clone())
            .collect(),
        Some(_) | None => points,
    }
}

/// The outcome of one point.
enum PointOutcome {
    /// The run made fewer such calls this time.
    Missed,
    /// The process was killed there; these problems were found afterwards.
    Killed(Vec<String>),
}

fn kill_at(bench: &Bench<'_>, traced: &Traced, point: &Point) -> Result<PointOutcome> {
    let name = format!("sweep-{}-{}", point.call, point.number);
    let mut scratch = Scratch::new(bench.folder, &name)?;
    let site = Site::new(bench.binary, scratch.path())?;
    let log = scratch.path().join("trace");
    let mut command = strace(&site, &traced.files, &log, point.call);
    let injection = format!("inject={}:signal=SIGKILL:when={}", point.call, point.number);
    append(command.arg("-e").arg(injection), &site.scenario(&SMALL));
    let ending = run_at_most(site.logged(&mut command, "run")?, PATIENCE)?;
    match ending {
        Ending::Exited(status) if status.signal().is_some() => {}
        Ending::Exited(_) => return Ok(PointOutcome::Missed),
        Ending::Killed => bail!("{point}: the traced run does not end; see its folder"),
    }
    let found = after_the_kill(&site)?;
    if !found.is_empty() {
        scratch.keep();
        println!("BROKEN at {point}; see {}", scratch.path().display());
        found.iter().for_each(|problem| println!("  {problem}"));
    }
    Ok(PointOutcome::Killed(found))
}

fn after_the_kill(site: &Site<'_>) -> Result<Vec<String>> {
    let mut found = site.resume_to_the_end()?;
    let mut observed = site.observe()?;
    if observed.runs.is_empty() {
        // Killed before the admission was durable: nothing had been promised.
        site.run(&SMALL, PATIENCE)?;
        observed = site.observe()?;
    }
    found.extend(problems(&SMALL, &observed));
    found.extend(site.damage()?);
    Ok(found)
}

#[derive(Debug, Default)]
struct Totals {
    killed: u32,
    missed: u32,
    counts: BTreeMap<&'static str, u32>,
    broken: Vec<String>,
}

impl Totals {
    fn add(&mut self, point: &Point, found: PointOutcome) -> ControlFlow<()> {
        match found {
            PointOutcome::Missed => self.missed += 1,
            PointOutcome::Killed(problems) => {
                self.killed += 1;
                *self.counts.entry(point.call).or_default() += 1;
                if !problems.is_empty() {
                    self.broken.push(point.to_string());
                }
            }
        }
        if self.broken.len() < MAX_BROKEN {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn by_call(&self) -> String {
        let counts = self.counts.iter();
        let counts: Vec<String> = counts
            .map(|(call, count)| format!("{call} × {count}"))
            .collect();
        counts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_thread() {
        let trace = "\
11 openat(AT_FDCWD, \"x.db\", O_RDWR) = 3
11 pwrite64(3, \"a\", 1, 0 <unfinished ...>
12 pwrite64(3, \"b\", 1, 0) = 1
11 <... pwrite64 resumed>) = 1
11 pwrite64(3, \"c\", 1, 0) = 1
12 getpid() = 12
";
        assert_eq!(
            count(trace),
            BTreeMap::from([("openat", 1), ("pwrite64", 2)])
        );
    }

    #[test]
    fn a_short_sweep_is_spread_over_all_points() {
        let points: Vec<Point> = (0..10)
            .map(|number| Point {
                call: "write",
                number,
            })
            .collect();
        let numbers = |most| -> Vec<u32> {
            let chosen = spread(points.clone(), most);
            chosen.iter().map(|point| point.number).collect()
        };
        assert_eq!(numbers(Some(4)), [0, 2, 5, 7]);
        assert_eq!(numbers(Some(20)).len(), 10);
        assert_eq!(numbers(None).len(), 10);
    }
}
