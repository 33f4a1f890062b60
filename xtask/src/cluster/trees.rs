//! Trees of runs with once-only effects, each in a folder of its own, and what has to be true of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::members::{Members, NewTree};
use crate::crash::check::{problems, reported_unknown};
use crate::crash::observed::{Observed, Run};
use crate::crash::scenario::{ExpectedRun, TREE};

#[derive(Debug)]
pub(crate) struct Trees {
    folder: PathBuf,
    model: String,
    count: u32,
}

/// What was found when all runs have ended.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) runs: usize,
    pub(crate) entries: usize,
    /// Claims of runs whose process was lost.
    pub(crate) recovered: usize,
    pub(crate) effects: usize,
    /// Calls whose outcome was reported to the model as unknown.
    pub(crate) unknown: usize,
    /// Trees with a run that reached the limit of deaths without progress, by design.
    pub(crate) given_up: Vec<String>,
    pub(crate) problems: Vec<String>,
}

impl Trees {
    /// Prepares the scenario, with this latency of the model.
    pub(crate) fn new(folder: &Path, latency_ms: u32) -> Result<Self> {
        let script = fs::read_to_string(TREE.path()).context("cannot read the scenario")?;
        let slower = script.replacen("latency_ms: 8\n", &format!("latency_ms: {latency_ms}\n"), 1);
        let path = folder.join("scenario.yaml");
        fs::write(&path, slower).context("cannot write the scenario")?;
        Ok(Self {
            folder: folder.to_owned(),
            model: format!("script:{}", path.display()),
            count: 0,
        })
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    fn workspace(&self, number: u32) -> PathBuf {
        self.folder.join(format!("workspace-{number}"))
    }

    /// Starts another tree; on workers only, or wherever there is a slot.
    pub(crate) fn start(&mut self, members: &Members, on_workers: bool) -> Result<()> {
        self.count += 1;
        let workspace = self.workspace(self.count);
        fs::create_dir_all(&workspace)?;
        fs::write(workspace.join("ledger.txt"), "")?;
        fs::write(workspace.join("notes.txt"), "a note\n")?;
        let label = format!("{} {}", TREE.prompt, self.count);
        members.create(&NewTree {
            label: &label,
            task: TREE.prompt,
            model: &self.model,
            folder: &workspace,
            on_workers,
        })
    }

    /// Checks every promise about every tree.
    pub(crate) fn check(&self, members: &Members) -> Result<Report> {
        let mut report = Report::default();
        let mut trees = observe(members)?;
        for number in 1..=self.count {
            let ledger = fs::read_to_string(self.workspace(number).join("ledger.txt"))?;
            let observed = Observed {
                runs: trees.remove(&number).unwrap_or_default(),
                ledger: ledger.lines().map(str::to_owned).collect(),
            };
            let mut found = problems(&TREE, &observed);
            if let Some(reason) = observed.runs.iter().find_map(given_up) {
                report.given_up.push(format!("tree {number}: {reason}"));
                // What such a run leaves undone is lost by design; nothing may be doubled.
                found.retain(|problem| is_doubled(problem));
            }
            let owners = observed.runs.iter().filter_map(second_owner);
            let found = found.into_iter().chain(owners);
            report
                .problems
                .extend(found.map(|problem| format!("tree {number}: {problem}")));
            report.runs += observed.runs.len();
            report.effects += observed.ledger.len();
            for run in &observed.runs {
                report.entries += run.entries.len();
                report.recovered += run.events_before_kills().count();
                let lines = TREE.runs.iter().flat_map(ExpectedRun::lines);
                report.unknown += lines
                    .map(|line| reported_unknown(run, &line))
                    .sum::<usize>();
            }
        }
        Ok(report)
    }

    /// Returns the runs that two owners have written, while trees may still run.
    pub(crate) fn second_owners(&self, members: &Members) -> Result<Vec<String>> {
        let runs = observe(members)?.into_values().flatten();
        Ok(runs.filter_map(|run| second_owner(&run)).collect())
    }
}

/// Returns why a run was given up: its process died too often without progress in between.
fn given_up(run: &Run) -> Option<String> {
    let outcome = &run.entries.last()?["outcome"];
    let is_interrupted = outcome["reason"] == "interrupted";
    is_interrupted.then(|| format!("{:?}: {}", run.label, outcome["message"]))
}

/// Whether a problem is that something happened more often than it should.
fn is_doubled(problem: &str) -> bool {
    let is_duplicate = problem.starts_with("duplicated") || problem.contains(" happened ");
    let is_announced = problem.contains("was announced") && !problem.contains("announced 0 times");
    is_duplicate || is_announced
}

/// Returns the entry that an executor wrote although another one had claimed the run.
fn second_owner(run: &Run) -> Option<String> {
    let epochs = run.entries.iter().map(|entry| entry["epoch"].as_i64());
    let epochs: Vec<i64> = epochs.map(Option::unwrap_or_default).collect();
    let late = epochs.windows(2).position(|pair| pair[1] < pair[0])?;
    Some(format!(
        "{:?} has two owners: entry {} was written under claim {}, after one under claim {}",
        run.label,
        late + 2,
        epochs.get(late + 1)?,
        epochs.get(late)?
    ))
}

/// Returns all runs with their journals, by the number of their tree.
fn observe(members: &Members) -> Result<BTreeMap<u32, Vec<Run>>> {
    let mut runs = Vec::new();
    for task in members.json(&["tasks", "list", "--all", "--json"])? {
        let mut run = Run::from_task(&task)?;
        run.entries = members.json(&["tasks", "events", &run.id, "--json"])?;
        runs.push(run);
    }
    let parents: BTreeMap<String, Option<String>> = runs
        .iter()
        .map(|run| (run.id.clone(), run.parent.clone()))
        .collect();
    let labels: BTreeMap<String, String> = runs
        .iter()
        .map(|run| (run.id.clone(), run.label.clone()))
        .collect();
    let mut trees: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for run in runs {
        let mut root = run.id.clone();
        while let Some(Some(parent)) = parents.get(&root) {
            root.clone_from(parent);
        }
        let label = labels.get(&root).map(String::as_str).unwrap_or_default();
        let number = label.rsplit(' ').next().and_then(|end| end.parse().ok());
        trees
            .entry(number.unwrap_or_default())
            .or_default()
            .push(run);
    }
    Ok(trees)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_doubled_things_count_in_a_tree_that_was_given_up() {
        assert!(is_doubled("duplicated: there are 2 runs \"a\""));
        assert!(is_doubled("the effect \"e\" happened 2 times, and"));
        assert!(is_doubled("\"a\" was announced 2 times to \"main\""));
        assert!(!is_doubled("\"a\" was announced 0 times to \"main\""));
        assert!(!is_doubled("the effect \"e\" is lost"));
    }

    #[test]
    fn an_entry_under_an_older_claim_is_a_second_owner() {
        let run = |epochs: &[i64]| Run {
            id: "A".into(),
            label: "worker".into(),
            parent: None,
            status: "running".into(),
            result: None,
            delivery: "pending".into(),
            entries: epochs.iter().map(|epoch| json!({"epoch": epoch})).collect(),
        };
        assert_eq!(second_owner(&run(&[0, 1, 1, 2, 2])), None);
        let found = second_owner(&run(&[0, 1, 2, 1]));
        let expected =
            "\"worker\" has two owners: entry 4 was written under claim 1, after one under claim 2";
        assert_eq!(found.as_deref(), Some(expected));
    }
}
