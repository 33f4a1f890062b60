//! What the scenario files under `xtask/scenarios` do when nobody interferes.

use std::path::PathBuf;

use crate::place;

/// The label that stands for the main run here; its real one is its prompt.
pub(super) const MAIN: &str = "main";

/// A scenario file, and what must have happened at its end.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The script.
    file: &'static str,
    /// What the main run is asked.
    pub(super) prompt: &'static str,
    /// What it says at the end.
    pub(super) final_text: &'static str,
    /// How many children may run at once.
    pub(super) max_concurrent: u32,
    /// All runs.
    pub(super) runs: &'static [ExpectedRun],
}

/// A run that there must be, once.
#[derive(Debug)]
pub(super) struct ExpectedRun {
    /// Its label.
    pub(super) label: &'static str,
    /// Its parent's label.
    pub(super) parent: Option<&'static str>,
    /// How many lines it appends to the ledger: `effect {label} {number}`.
    pub(super) effects: u32,
}

impl Scenario {
    /// Where the script is.
    pub(super) fn path(&self) -> PathBuf {
        place::root().join("xtask/scenarios").join(self.file)
    }
}

impl ExpectedRun {
    /// The lines of the ledger that are this run's.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        (1..=self.effects).map(|number| format!("effect {} {number}", self.label))
    }
}

const fn main_run(effects: u32) -> ExpectedRun {
    ExpectedRun {
        label: MAIN,
        parent: None,
        effects,
    }
}

const fn child(label: &'static str, parent: &'static str, effects: u32) -> ExpectedRun {
    ExpectedRun {
        label,
        parent: Some(parent),
        effects,
    }
}

/// Parallel, nested and background children, with effects of every recovery class. Fewer slots
/// than children, so that the queue is part of it.
pub(super) const TREE: Scenario = Scenario {
    file: "tree.yaml",
    prompt: "Carry out the crash scenario.",
    final_text: "The crash scenario is complete.",
    max_concurrent: 3,
    runs: &[
        main_run(1),
        child("worker alpha", MAIN, 2),
        child("worker beta", MAIN, 2),
        child("lead gamma", MAIN, 1),
        child("worker delta", MAIN, 2),
        child("worker epsilon", "lead gamma", 2),
        child("scout zeta", "lead gamma", 0),
    ],
};

/// One child, one effect: small enough to kill at every system call.
pub(super) const SMALL: Scenario = Scenario {
    file: "small.yaml",
    prompt: "Carry out the small scenario.",
    final_text: "The small scenario is complete.",
    max_concurrent: 2,
    runs: &[main_run(0), child("worker alpha", MAIN, 1)],
};

/// Two children beside each other, an effect each: small enough to let every system call fail.
pub(super) const PAIR: Scenario = Scenario {
    file: "pair.yaml",
    prompt: "Carry out the pair scenario.",
    final_text: "The pair scenario is complete.",
    max_concurrent: 2,
    runs: &[
        main_run(0),
        child("worker alpha", MAIN, 1),
        child("worker beta", MAIN, 1),
    ],
};

/// Two children one after the other through one slot: stands still if a dead run holds it.
pub(super) const PROBE: Scenario = Scenario {
    file: "probe.yaml",
    prompt: "Try the slots.",
    final_text: "The slots are free.",
    max_concurrent: 1,
    runs: &[
        main_run(0),
        child("probe one", MAIN, 0),
        child("probe two", MAIN, 0),
    ],
};
