//! What the scenario files under `xtask/scenarios` do without a kill.

use std::path::PathBuf;

use crate::place;

/// The name of the main run here; its real label is its prompt.
pub(crate) const MAIN: &str = "main";

/// A scenario file and its expected result.
#[derive(Debug)]
pub(crate) struct Scenario {
    file: &'static str,
    /// The instruction of the main run.
    pub(crate) prompt: &'static str,
    /// The final text of the main run.
    pub(crate) final_text: &'static str,
    /// The limit on concurrent children.
    pub(crate) max_concurrent: u32,
    pub(crate) runs: &'static [ExpectedRun],
}

#[derive(Debug)]
pub(crate) struct ExpectedRun {
    pub(crate) label: &'static str,
    pub(crate) parent: Option<&'static str>,
    /// The number of lines that it appends to the ledger: `effect {label} {number}`.
    pub(crate) effects: u32,
}

impl Scenario {
    /// Returns the path of the script.
    pub(crate) fn path(&self) -> PathBuf {
        place::root().join("xtask/scenarios").join(self.file)
    }
}

impl ExpectedRun {
    /// Returns the lines of the ledger that this run writes.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
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

/// Parallel, nested and background children, with effects of every recovery class. There are fewer
/// slots than children, so that the queue is covered.
pub(crate) const TREE: Scenario = Scenario {
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
pub(crate) const SMALL: Scenario = Scenario {
    file: "small.yaml",
    prompt: "Carry out the small scenario.",
    final_text: "The small scenario is complete.",
    max_concurrent: 2,
    runs: &[main_run(0), child("worker alpha", MAIN, 1)],
};

/// Two parallel children with an effect each: small enough to make every system call fail.
pub(crate) const PAIR: Scenario = Scenario {
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

/// Two children, one after the other, through one slot: it hangs if an ended run occupies the slot.
pub(crate) const PROBE: Scenario = Scenario {
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
