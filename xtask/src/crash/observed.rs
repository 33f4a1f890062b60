//! What the command line reports about a home after all runs have ended.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// All runs of a home with their journals, and the ledger their effects wrote.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The runs, main runs included.
    pub(crate) runs: Vec<Run>,
    /// The lines of the ledger.
    pub(crate) ledger: Vec<String>,
}

/// A run as its record and journal describe it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) parent: Option<String>,
    pub(crate) status: String,
    pub(crate) result: Option<String>,
    pub(crate) delivery: String,
    pub(crate) entries: Vec<Value>,
}

/// A tool call with its results in the journal.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The shell command, if it is one.
    pub(crate) command: Option<String>,
    /// The number of its results.
    pub(crate) answers: u32,
    /// Whether its outcome was reported to the model as unknown.
    pub(crate) interrupted: bool,
}

impl Run {
    /// Parses a task of the list, without its journal.
    pub(crate) fn from_task(task: &Value) -> Result<Self> {
        let text = |key: &str| {
            let value = task[key].as_str().map(str::to_owned);
            value.with_context(|| format!("a task without {key}: {task}"))
        };
        Ok(Self {
            id: text("task_id")?,
            label: text("label")?,
            parent: task["parent_id"].as_str().map(str::to_owned),
            status: text("status")?,
            result: task["result"].as_str().map(str::to_owned),
            delivery: text("delivery")?,
            entries: Vec::new(),
        })
    }

    /// Returns whether the run has ended.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(
            self.status.as_str(),
            "completed" | "failed" | "timeout" | "cancelled"
        )
    }

    /// Returns the entries of this kind.
    pub(crate) fn events<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.entries
            .iter()
            .filter(move |entry| entry["event"] == name)
    }

    /// Counts each child's announcements in the journal.
    pub(crate) fn announced(&self) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for child in self
            .announcements()
            .filter_map(|item| item["child"].as_str())
        {
            *counts.entry(child).or_default() += 1;
        }
        counts
    }

    /// Returns every call of the journal with its results.
    pub(crate) fn calls(&self) -> BTreeMap<&str, Call> {
        let mut calls = BTreeMap::new();
        for block in self
            .events("answered")
            .flat_map(|entry| list(&entry["blocks"]))
        {
            if let (Some("call"), Some(id)) = (block["type"].as_str(), block["id"].as_str()) {
                let command = block["arguments"]["json"]["command"].as_str();
                calls.insert(
                    id,
                    Call {
                        command: command.map(str::to_owned),
                        ..Call::default()
                    },
                );
            }
        }
        for result in self.events("tool_finished").map(|entry| &entry["result"]) {
            let call: &mut Call = calls.entry(id(&result["call"])).or_default();
            call.answers += 1;
            call.interrupted |= result["status"] == "interrupted";
        }
        for item in self
            .announcements()
            .filter(|item| item["mode"] == "blocking")
        {
            calls.entry(id(&item["call"])).or_default().answers += 1;
        }
        calls
    }

    /// Returns the event before each claim that followed a kill: where the kill hit this run.
    pub(crate) fn events_before_kills(&self) -> impl Iterator<Item = &str> {
        self.entries.windows(2).filter_map(|pair| {
            let died = pair[1]["event"] == "claimed" && pair[1]["recovered"] == true;
            died.then(|| pair[0]["event"].as_str().unwrap_or("?"))
        })
    }

    fn announcements(&self) -> impl Iterator<Item = &Value> {
        self.events("inbox_taken")
            .flat_map(|entry| list(&entry["items"]))
            .filter(|item| item["kind"] == "announcement")
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn id(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
