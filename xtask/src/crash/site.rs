//! One home and one workspace, with the real binary running in them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::observed::{Observed, Run};
use super::process::{Ending, run_at_most};
use super::scenario::{PROBE, Scenario};

/// The longest that an undisturbed command may take: many times what it takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The checks of `sortie doctor` that have to pass: the database, the hash chain of every journal, and
/// that nothing is active or undelivered.
const DOCTOR_CHECKS: [&str; 3] = ["store", "journal", "tasks"];

/// A fresh home and workspace.
#[derive(Debug)]
pub(super) struct Site<'a> {
    binary: &'a Path,
    folder: PathBuf,
    /// Part of the runtime to break, for the control.
    broken: Option<&'static str>,
}

impl<'a> Site<'a> {
    pub(super) fn new(binary: &'a Path, folder: &Path) -> Result<Self> {
        let site = Self {
            binary,
            folder: folder.to_owned(),
            broken: None,
        };
        for folder in [site.home(), site.workspace()] {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(site.ledger(), "").context("cannot create the ledger")?;
        fs::write(site.workspace().join("notes.txt"), "a note\n").context("cannot write a note")?;
        Ok(site)
    }

    /// Creates a site with a broken part of the runtime.
    pub(super) const fn with_broken(mut self, part: &'static str) -> Self {
        self.broken = Some(part);
        self
    }

    /// Returns the home folder.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    fn ledger(&self) -> PathBuf {
        self.workspace().join("ledger.txt")
    }

    /// Runs the scenario and kills it after the limit.
    pub(super) fn run(&self, scenario: &Scenario, limit: Duration) -> Result<Ending> {
        run_at_most(self.logged(&mut self.scenario(scenario), "run")?, limit)
    }

    /// Resumes interrupted runs and kills the process after the limit.
    pub(super) fn resume(&self, limit: Duration) -> Result<Ending> {
        let mut command = self.sortie();
        command.args(["resume", "--json"]);
        run_at_most(self.logged(&mut command, "resume")?, limit)
    }

    /// Resumes until all runs have ended, and returns the reasons if that fails.
    pub(super) fn resume_to_the_end(&self) -> Result<Vec<String>> {
        Ok(match self.resume(PATIENCE)? {
            Ending::Exited(status) if status.success() => Vec::new(),
            Ending::Exited(status) => {
                let stderr = fs::read_to_string(self.folder.join("resume.err"))?;
                let error = stderr.lines().rfind(|line| line.starts_with("error"));
                vec![format!(
                    "resume: {status}: {}",
                    error.unwrap_or("no message")
                )]
            }
            Ending::Killed => vec!["resume does not end".to_owned()],
        })
    }

    /// Returns the command that starts a scenario.
    pub(super) fn scenario(&self, scenario: &Scenario) -> Command {
        let mut command = self.sortie();
        command
            .args(["run", scenario.prompt, "--yes", "--json"])
            .arg("--model")
            .arg(format!("script:{}", scenario.path().display()))
            .arg("--workspace")
            .arg(self.workspace())
            .args(["--max-depth", "2"])
            .arg("--max-concurrent")
            .arg(scenario.max_concurrent.to_string());
        command
    }

    fn sortie(&self) -> Command {
        let mut command = Command::new(self.binary);
        command
            .arg("--home")
            .arg(self.home())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("LANG", "C.UTF-8")
            .env_remove("SORTIE_CRASH_AT")
            .env_remove("SORTIE_BREAK");
        if let Some(part) = self.broken {
            command.env("SORTIE_BREAK", part);
        }
        command
    }

    /// Redirects the output to files beside the home: no pipe can fill up, and a person can read them.
    pub(super) fn logged<'c>(
        &self,
        command: &'c mut Command,
        name: &str,
    ) -> Result<&'c mut Command> {
        let open = |ending: &str| {
            let path = self.folder.join(format!("{name}.{ending}"));
            let file = File::options().create(true).append(true).open(&path);
            file.with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(command.stdout(open("out")?).stderr(open("err")?))
    }

    /// Returns what the command line reports about the home.
    pub(super) fn observe(&self) -> Result<Observed> {
        let mut runs = Vec::new();
        for task in self.json_output(&["tasks", "list", "--all", "--json"])? {
            let mut run = Run::from_task(&task)?;
            run.entries = self.json_output(&["tasks", "events", &run.id, "--json"])?;
            runs.push(run);
        }
        let ledger = fs::read_to_string(self.ledger()).context("cannot read the ledger")?;
        Ok(Observed {
            runs,
            ledger: ledger.lines().map(str::to_owned).collect(),
        })
    }

    /// Returns problems of the home itself: an occupied slot, a damaged journal.
    pub(super) fn damage(&self) -> Result<Vec<String>> {
        let mut found = match self.run(&PROBE, PATIENCE)? {
            Ending::Exited(status) if status.success() => Vec::new(),
            Ending::Exited(status) => vec![format!("a new run afterwards fails: {status}")],
            Ending::Killed => vec!["a new run afterwards gets no slot".to_owned()],
        };
        // Its exit code covers the whole machine; only the store matters here.
        let output = self.sortie().args(["doctor", "--json"]).output()?;
        let report: Value =
            serde_json::from_slice(&output.stdout).context("invalid output of `sortie doctor`")?;
        for name in DOCTOR_CHECKS {
            let checks = report["checks"].as_array().into_iter().flatten();
            match checks.into_iter().find(|check| check["name"] == name) {
                Some(check) if check["state"] == "ok" => {}
                Some(check) => found.push(format!("sortie doctor: {name}: {}", check["found"])),
                None => found.push(format!("sortie doctor has no check {name:?}")),
            }
        }
        Ok(found)
    }

    /// Runs a command that prints JSON: an array, or one value on each line.
    fn json_output(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let output = self.sortie().args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "`sortie {}` ended with {}: {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let mut values = Vec::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let value = value.with_context(|| format!("invalid output of {arguments:?}"))?;
            if let Value::Array(items) = value {
                values.extend(items);
            } else {
                values.push(value);
            }
        }
        Ok(values)
    }
}
