//! Repeated `kill -9` at random instants of a tree of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::Bench;
use super::check::{problems, reported_unknown};
use super::observed::Observed;
use super::pool;
use super::process::Ending;
use super::scenario::{ExpectedRun, TREE};
use super::site::{PATIENCE, Site};
use crate::random::Random;
use crate::scratch::Scratch;

/// Kills of one cycle. A run whose process dies a fourth time without progress ends as interrupted, by
/// design.
const MAX_KILLS: u64 = 3;
/// Broken cycles after which the loop stops.
const MAX_BROKEN: usize = 5;
/// The interval of progress lines, in cycles.
const CYCLES_PER_LINE: u64 = 50;

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let whole = undisturbed(bench)?;
    println!(
        "undisturbed, the scenario takes {} ms ({} runs)",
        whole.as_millis(),
        TREE.runs.len()
    );
    let start = Instant::now();
    let totals = Mutex::new(Totals::default());
    pool::for_each(bench.options.cycles, |number| {
        work(bench, whole, number, &totals)
    })?;
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.report(start.elapsed());
    ensure!(
        totals.broken.is_empty(),
        "{} of {} cycles broke a promise",
        totals.broken.len(),
        totals.cycles
    );
    Ok(())
}

/// Measures the scenario without a kill; it must pass.
fn undisturbed(bench: &Bench<'_>) -> Result<Duration> {
    let mut scratch = Scratch::new(bench.folder, "undisturbed")?;
    let site = Site::new(bench.binary, scratch.path())?;
    let start = Instant::now();
    let ending = site.run(&TREE, PATIENCE)?;
    let whole = start.elapsed();
    let mut found = problems(&TREE, &site.observe()?);
    found.extend(site.damage()?);
    if !found.is_empty() {
        scratch.keep();
        bail!(
            "the scenario fails without a kill ({ending:?}): {}; see {}",
            found.join("; "),
            scratch.path().display()
        );
    }
    Ok(whole)
}

fn work(
    bench: &Bench<'_>,
    whole: Duration,
    number: u64,
    totals: &Mutex<Totals>,
) -> Result<ControlFlow<()>> {
    let seed = cycle_seed(bench.options.seed, number);
    let mut scratch = Scratch::new(bench.folder, &format!("cycle-{seed}"))?;
    let site = Site::new(bench.binary, scratch.path())?;
    let cycle = cycle(&site, &Plan::new(seed, whole));
    if !cycle.as_ref().is_ok_and(|cycle| cycle.problems.is_empty()) {
        scratch.keep();
        println!(
            "BROKEN: --loop --cycles 1 --seed {seed}; see {}",
            scratch.path().display()
        );
    }
    let cycle = cycle?;
    for problem in &cycle.problems {
        println!("  {problem}");
    }
    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    totals.add(seed, cycle);
    if totals.cycles.is_multiple_of(CYCLES_PER_LINE) {
        println!("{} cycles, {} broken", totals.cycles, totals.broken.len());
    }
    Ok(if totals.broken.len() < MAX_BROKEN {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    })
}

/// The first cycle has the seed of the whole loop, so that a single cycle can be repeated.
const fn cycle_seed(seed: u64, number: u64) -> u64 {
    match number {
        0 => seed,
        number => Random::new(seed.wrapping_add(number)).next() % 1_000_000_000,
    }
}

/// The instants of the kills: of the run first, then of each resume.
#[derive(Debug)]
struct Plan {
    kills: Vec<Duration>,
}

impl Plan {
    fn new(seed: u64, whole: Duration) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(MAX_KILLS);
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        let kills = (0..count).map(|_| Duration::from_micros(random.below(micros)));
        Self {
            kills: kills.collect(),
        }
    }
}

/// The result of one cycle.
#[derive(Debug, Default)]
struct Cycle {
    problems: Vec<String>,
    /// Kills that hit a running process.
    landed: u64,
    /// Whether the first kill came before the admission, so that the run was started again.
    too_early: bool,
    /// Runs that a kill hit, by the last event in their journals.
    hits: BTreeMap<String, u64>,
    /// Calls whose outcome was reported to the model as unknown.
    reported_unknown_count: u64,
    /// Lines of the ledger that exist more than once after such a report.
    doubled: u64,
}

fn cycle(site: &Site<'_>, plan: &Plan) -> Result<Cycle> {
    let mut cycle = Cycle::default();
    for (index, after) in plan.kills.iter().enumerate() {
        let ending = match index {
            0 => site.run(&TREE, *after)?,
            _ => site.resume(*after)?,
        };
        cycle.landed += u64::from(ending == Ending::Killed);
    }
    cycle.problems.extend(site.resume_to_the_end()?);
    let mut observed = site.observe()?;
    if observed.runs.is_empty() {
        cycle.too_early = true;
        site.run(&TREE, PATIENCE)?;
        observed = site.observe()?;
    }
    cycle.problems.extend(problems(&TREE, &observed));
    cycle.note(&observed);
    cycle.problems.extend(site.damage()?);
    Ok(cycle)
}

impl Cycle {
    fn note(&mut self, observed: &Observed) {
        for run in &observed.runs {
            for fact in run.events_before_kills() {
                *self.hits.entry(fact.to_owned()).or_default() += 1;
            }
            for line in TREE.runs.iter().flat_map(ExpectedRun::lines) {
                self.reported_unknown_count += reported_unknown(run, &line) as u64;
            }
        }
        let mut lines = observed.ledger.clone();
        lines.sort_unstable();
        lines.dedup();
        self.doubled += (observed.ledger.len() - lines.len()) as u64;
    }
}

#[derive(Debug, Default)]
struct Totals {
    cycles: u64,
    landed: u64,
    too_early: u64,
    reported_unknown_count: u64,
    doubled: u64,
    hits: BTreeMap<String, u64>,
    /// Number of cycles by number of runs hit.
    width: BTreeMap<u64, u64>,
    broken: Vec<u64>,
}

impl Totals {
    fn add(&mut self, seed: u64, cycle: Cycle) {
        self.cycles += 1;
        self.landed += cycle.landed;
        self.too_early += u64::from(cycle.too_early);
        self.reported_unknown_count += cycle.reported_unknown_count;
        self.doubled += cycle.doubled;
        *self.width.entry(cycle.hits.values().sum()).or_default() += 1;
        for (fact, count) in cycle.hits {
            *self.hits.entry(fact).or_default() += count;
        }
        if !cycle.problems.is_empty() {
            self.broken.push(seed);
        }
    }

    fn report(&self, time: Duration) {
        println!(
            "{} cycles in {:.0} s ({:.1} cycles/s), {} kills hit a running process, {} of them before the admission",
            self.cycles,
            time.as_secs_f64(),
            self.cycles as f64 / time.as_secs_f64(),
            self.landed,
            self.too_early
        );
        println!(
            "cycles by runs under way when killed: {}",
            Counts(&self.width)
        );
        println!(
            "runs hit, by the last event in their journal: {}",
            Counts(&self.hits)
        );
        println!(
            "the model got \"unknown\" {} times; {} lines of the ledger are duplicated after that",
            self.reported_unknown_count, self.doubled
        );
        if self.broken.is_empty() {
            println!(
                "no promise broken: with 95 % confidence fewer than 1 in {:.0} cycles breaks one (3/n, n = {})",
                self.cycles as f64 / 3.0,
                self.cycles
            );
        } else {
            println!("seeds of broken cycles: {:?}", self.broken);
        }
    }
}

/// Formats counts as `name × count`, in order of the names.
struct Counts<'a, K>(&'a BTreeMap<K, u64>);

impl<K: fmt::Display> fmt::Display for Counts<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self
            .0
            .iter()
            .map(|(name, count)| format!("{name} × {count}"));
        f.write_str(&counts.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_plan_again() {
        let whole = Duration::from_millis(500);
        let plans: Vec<_> = (0..100)
            .map(|number| Plan::new(cycle_seed(42, number), whole).kills)
            .collect();
        assert_eq!(plans[0], Plan::new(42, whole).kills);
        assert_eq!(plans[7], Plan::new(cycle_seed(42, 7), whole).kills);
        for count in 1..=3 {
            assert!(plans.iter().any(|kills| kills.len() == count), "{count}");
        }
        assert!(plans.iter().flatten().all(|after| *after < whole));
    }
}
