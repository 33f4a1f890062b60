//! Every storage system call of a small scenario fails once, by `strace`'s fault injection; and all
//! of them fail for a while. A run must complete in the same process, or continue after a restart.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::Bench;
use super::check::problems;
use super::pool;
use super::process::{Ending, run_at_most};
use super::scenario::PAIR;
use super::site::{PATIENCE, Site};
use super::sweep::{MAX_BROKEN, Point, Traced, append, can_trace, spread, strace};
use crate::scratch::Scratch;

/// Errors of a full disk and of a broken one.
const ERRORS: [&str; 2] = ["ENOSPC", "EIO"];
/// Consecutive calls that fail in a lasting failure: more than a few retries, and then calls succeed.
const LASTING: u32 = 12;
/// Points of the lasting failures for each point of the others.
const LASTING_SHARE: usize = 8;
/// Calls by which data reaches the disk: those that a lasting failure hits.
const WRITES: [&str; 3] = ["fdatasync", "fsync", "pwrite64"];

/// Makes each call fail.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    if !can_trace()? {
        return Ok(());
    }
    let start = Instant::now();
    let traced = Traced::new(bench, &PAIR)?;
    let all = cases(&traced.points());
    let cases = spread(all.clone(), bench.options.max_faults);
    println!("{} cases, running {}", all.len(), cases.len());
    let totals = Mutex::new(Totals::default());
    pool::for_each(cases.len() as u64, |number| {
        let case = &cases[usize::try_from(number)?];
        let found = fail_at(bench, &traced, case)?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(totals.add(case, found))
    })?;
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} calls failed in {:.0} s: {} scenarios completed at once, {} after a restart; {} calls \
         were not reached again; the slowest took {:.1} s; {}",
        totals.failed,
        start.elapsed().as_secs_f64(),
        totals.failed - totals.restarted,
        totals.restarted,
        totals.missed,
        totals.slowest.as_secs_f64(),
        totals.by_call()
    );
    ensure!(totals.failed > 0, "no injected failure was reached");
    ensure!(
        totals.broken.is_empty(),
        "broken at {}",
        totals.broken.join(", ")
    );
    Ok(())
}

/// A call that fails.
#[derive(Clone, Debug)]
struct Case {
    point: Point,
    error: &'static str,
    /// The number of consecutive calls that fail.
    times: u32,
}

impl Case {
    /// Returns the argument of `strace`.
    fn injection(&self) -> String {
        let Point { call, number } = &self.point;
        let last = number + self.times - 1;
        format!("inject={call}:error={}:when={number}..{last}", self.error)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.error)?;
        if self.times > 1 {
            write!(f, "×{}", self.times)?;
        }
        Ok(())
    }
}

/// Every point with every error once, and some points with a failure that lasts.
fn cases(points: &[Point]) -> Vec<Case> {
    let case = |point: &Point, error, times| Case {
        point: point.clone(),
        error,
        times,
    };
    let once = points
        .iter()
        .flat_map(|point| ERRORS.map(|error| case(point, error, 1)));
    let writes = points.iter().filter(|point| WRITES.contains(&point.call));
    let lasting = writes
        .step_by(LASTING_SHARE)
        .map(|point| case(point, "ENOSPC", LASTING));
    once.chain(lasting).collect()
}

/// The outcome of one case.
enum CaseOutcome {
    /// The run made fewer such calls this time.
    Missed,
    Failed(AfterFailure),
}

/// What happened after the failure.
struct AfterFailure {
    /// Whether the process ended without having completed the scenario.
    restarted: bool,
    took: Duration,
    problems: Vec<String>,
}

fn fail_at(bench: &Bench<'_>, traced: &Traced, case: &Case) -> Result<CaseOutcome> {
    let name = format!(
        "errno-{}-{}-{}-{}",
        case.point.call, case.point.number, case.error, case.times
    );
    let mut scratch = Scratch::new(bench.folder, &name)?;
    let site = Site::new(bench.binary, scratch.path())?;
    let log = scratch.path().join("trace");
    let mut command = strace(&site, traced.files(), &log, case.point.call);
    append(
        command.arg("-e").arg(case.injection()),
        &site.scenario(&PAIR),
    );
    let start = Instant::now();
    let ending = run_at_most(site.logged(&mut command, "run")?, PATIENCE)?;
    let took = start.elapsed();
    let trace = std::fs::read_to_string(&log).unwrap_or_default();
    if !trace.contains("(INJECTED)") {
        return Ok(CaseOutcome::Missed);
    }
    let restarted = match ending {
        Ending::Exited(status) => !status.success(),
        Ending::Killed => bail!("{case}: the run does not end; see its folder"),
    };
    let mut found = Vec::new();
    if restarted {
        found.extend(site.resume_to_the_end()?);
    }
    let mut observed = site.observe()?;
    if observed.runs.is_empty() {
        // The command failed before the admission was durable, and reported that.
        site.run(&PAIR, PATIENCE)?;
        observed = site.observe()?;
    }
    found.extend(problems(&PAIR, &observed));
    found.extend(site.damage()?);
    if !found.is_empty() {
        scratch.keep();
        println!("BROKEN at {case}; see {}", scratch.path().display());
        found.iter().for_each(|problem| println!("  {problem}"));
    }
    Ok(CaseOutcome::Failed(AfterFailure {
        restarted,
        took,
        problems: found,
    }))
}

#[derive(Debug, Default)]
struct Totals {
    failed: u32,
    restarted: u32,
    missed: u32,
    slowest: Duration,
    counts: BTreeMap<&'static str, u32>,
    broken: Vec<String>,
}

impl Totals {
    fn add(&mut self, case: &Case, found: CaseOutcome) -> ControlFlow<()> {
        match found {
            CaseOutcome::Missed => self.missed += 1,
            CaseOutcome::Failed(came) => {
                self.failed += 1;
                self.restarted += u32::from(came.restarted);
                self.slowest = self.slowest.max(came.took);
                *self.counts.entry(case.point.call).or_default() += 1;
                if !came.problems.is_empty() {
                    self.broken.push(case.to_string());
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
    fn every_call_fails_with_every_error_and_some_writes_for_a_while() {
        let points: Vec<Point> = ["pwrite64", "openat"]
            .into_iter()
            .flat_map(|call| (1..=9).map(move |number| Point { call, number }))
            .collect();
        let cases = cases(&points);
        assert_eq!(cases.len(), 18 * 2 + 2);
        assert_eq!(
            cases[0].injection(),
            "inject=pwrite64:error=ENOSPC:when=1..1"
        );
        assert_eq!(cases[37].to_string(), "pwrite64:9:ENOSPC×12");
    }
}
