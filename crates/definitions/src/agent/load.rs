//! Finds agent files, and decides which agent of a name is used.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sortie_core::agent::AgentDefinition;

use super::keys::{self, Reading};
use super::{Known, LoadedAgent};
use crate::folder::{Folder, FolderError, Kind};
use crate::{Problem, SearchFolder, Severity};

/// Limit of an agent file.
const MAX_FILE_BYTES: u64 = 512 * 1024;
/// Limit of files in total.
const MAX_FILES: usize = 512;
/// Limit of the depth of subfolders.
const MAX_DEPTH: usize = 4;
/// Limit of folders that are searched.
const MAX_FOLDERS: usize = 1_024;

/// The loaded agents, and the result for every file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFiles {
    /// The agents in use, with unique names.
    pub agents: Vec<LoadedAgent>,
    /// Every file that was read, in order.
    pub files: Vec<FileCheck>,
}

/// The result for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// The file, or a folder that could not be read.
    pub file: PathBuf,
    /// The agent's name, where it has one.
    pub name: Option<String>,
    pub verdict: Verdict,
    pub problems: Vec<Problem>,
}

/// The result for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Used as it is written.
    Good,
    /// Used, but something was changed or omitted.
    Changed,
    /// Not an agent, or a disabled one.
    Skipped,
    /// Another agent of the same name takes precedence.
    Hidden,
    /// Rejected and not used.
    Refused,
}

impl Verdict {
    /// Returns the name of the result.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Changed => "warnings",
            Self::Skipped => "skipped",
            Self::Hidden => "hidden",
            Self::Refused => "refused",
        }
    }
}

impl AgentFiles {
    /// Returns all agents, including those of `base`: a file takes precedence over a base agent of its name.
    pub fn definitions(&self, base: &[AgentDefinition]) -> Vec<AgentDefinition> {
        let kept = base
            .iter()
            .filter(|agent| self.get(&agent.name).is_none())
            .cloned();
        let loaded = self.agents.iter().map(|agent| agent.definition.clone());
        kept.chain(loaded).collect()
    }

    /// Returns the agent of that name, ignoring case.
    pub fn get(&self, name: &str) -> Option<&LoadedAgent> {
        let name = name.to_lowercase();
        self.agents
            .iter()
            .find(|agent| agent.definition.name.to_lowercase() == name)
    }

    /// Returns whether no file is refused.
    pub fn is_good(&self) -> bool {
        self.files
            .iter()
            .all(|check| check.verdict != Verdict::Refused)
    }

    /// Returns a report for people: a line for each file, and its problems below.
    pub fn report(&self) -> String {
        let mut report = String::new();
        for check in &self.files {
            let name = check.name.as_deref().unwrap_or("-");
            // Writing to a String cannot fail.
            writeln!(
                report,
                "{:<8} {name}  {}",
                check.verdict.as_str(),
                check.file.display()
            )
            .ok();
            for problem in &check.problems {
                let line = problem.line.map(|line| format!("line {line}: "));
                let line = line.unwrap_or_default();
                writeln!(report, "         - {line}{}", problem.text).ok();
            }
        }
        report
    }
}

/// Loads the agents of these folders, given in order of precedence.
///
/// An invalid file does not affect the others. A file of an untrusted folder never takes a name that is in use.
pub fn load_agents(places: &[SearchFolder], known: &Known<'_>) -> AgentFiles {
    let mut search = Search::default();
    for place in places {
        match place.open() {
            Ok(root) => search.look_in(place, &root, known),
            Err(FolderError::Missing) => {}
            Err(error) => search.refuse(&place.shown(), error.to_string()),
        }
    }
    choose_by_name(search, known)
}

#[derive(Default)]
struct Search {
    files: Vec<FileCheck>,
    /// Agents with the index of their file.
    found: Vec<(usize, LoadedAgent)>,
    /// Folders that were read, because several paths may lead to one.
    folders: Vec<Folder>,
}

impl Search {
    fn look_in(&mut self, place: &SearchFolder, root: &Folder, known: &Known<'_>) {
        let mut waiting = vec![(PathBuf::from("."), 0)];
        while let Some((path, depth)) = waiting.pop() {
            let folder = match root.folder(&path) {
                Ok(folder) => folder,
                Err(FolderError::Missing) => continue,
                Err(error) => {
                    self.refuse(&shown(root, &path), error.to_string());
                    continue;
                }
            };
            if self.folders.iter().any(|other| other.is_same(&folder)) {
                continue;
            }
            if self.folders.len() == MAX_FOLDERS {
                return self.refuse(folder.path(), "too many folders; it is not read");
            }
            let mut inner = self.read_folder(place, root, &path, &folder, known);
            self.folders.push(folder);
            // A stack: the first folder is pushed last.
            inner.reverse();
            if depth + 1 < MAX_DEPTH {
                waiting.extend(inner.into_iter().map(|path| (path, depth + 1)));
            }
        }
    }

    /// Reads the files of a folder and returns the folders in it.
    fn read_folder(
        &mut self,
        place: &SearchFolder,
        root: &Folder,
        path: &Path,
        folder: &Folder,
        known: &Known<'_>,
    ) -> Vec<PathBuf> {
        let entries = match folder.entries() {
            Ok((entries, false)) => entries,
            Ok((entries, true)) => {
                self.refuse(
                    folder.path(),
                    "it has too many entries; the rest is left out",
                );
                entries
            }
            Err(error) => {
                self.refuse(folder.path(), error.to_string());
                return Vec::new();
            }
        };
        let mut inner = Vec::new();
        for entry in entries {
            let bytes = entry.name.as_encoded_bytes();
            if bytes.starts_with(b".") {
                continue;
            }
            let path = path.join(&entry.name);
            match entry.kind {
                Kind::File | Kind::Link if bytes.ends_with(b".md") => {
                    self.read_file(place, root, &path, known);
                }
                Kind::Folder | Kind::Link => inner.push(path),
                Kind::File | Kind::Other => {}
            }
        }
        inner
    }

    fn read_file(&mut self, place: &SearchFolder, root: &Folder, path: &Path, known: &Known<'_>) {
        let shown = shown(root, path);
        if self.files.len() >= MAX_FILES {
            if self.files.len() == MAX_FILES {
                self.refuse(&shown, "too many agent files; the rest is left out");
            }
            return;
        }
        let text = match root.read(path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) => return self.refuse(&shown, error.to_string()),
        };
        let (verdict, problems) = match keys::read(&shown, &text, place, known) {
            Reading::Agent(agent) => return self.found(*agent),
            Reading::Skipped(problems) => (Verdict::Skipped, problems),
            Reading::Refused(problems) => (Verdict::Refused, problems),
        };
        self.files.push(FileCheck {
            file: shown,
            name: None,
            verdict,
            problems,
        });
    }

    fn found(&mut self, agent: LoadedAgent) {
        let changed = agent
            .problems
            .iter()
            .any(|problem| problem.severity >= Severity::Warning);
        let verdict = if changed {
            Verdict::Changed
        } else {
            Verdict::Good
        };
        self.files.push(FileCheck {
            file: agent.file.clone(),
            name: Some(agent.definition.name.clone()),
            verdict,
            problems: agent.problems.clone(),
        });
        self.found.push((self.files.len() - 1, agent));
    }

    fn refuse(&mut self, path: &Path, text: impl Into<String>) {
        self.files.push(FileCheck {
            file: path.to_owned(),
            name: None,
            verdict: Verdict::Refused,
            problems: vec![Problem::new(Severity::Refusal, path, text)],
        });
    }
}

/// Returns the path without `.` components.
fn shown(root: &Folder, path: &Path) -> PathBuf {
    root.path().join(path).components().collect()
}

/// Decides which agent of each name is used: trusted before untrusted, the nearest first.
fn choose_by_name(search: Search, known: &Known<'_>) -> AgentFiles {
    let mut files = search.files;
    let mut agents: Vec<LoadedAgent> = Vec::new();
    let (trusted, others): (Vec<_>, Vec<_>) = search
        .found
        .into_iter()
        .partition(|(_, agent)| agent.trusted);
    for (index, agent) in trusted.into_iter().chain(others) {
        let name = agent.definition.name.to_lowercase();
        let earlier = agents
            .iter()
            .find(|other| other.definition.name.to_lowercase() == name);
        let is_base = |base: &AgentDefinition| base.name.to_lowercase() == name;
        let check = &mut files[index];
        let mut set_aside = |verdict, severity, text: String| {
            check.verdict = verdict;
            let problem = Problem::new(severity, &check.file, text);
            check.problems.push(problem);
        };
        match earlier {
            Some(earlier) if agent.trusted || !earlier.trusted => set_aside(
                Verdict::Hidden,
                Severity::Warning,
                format!("{} has the same name and is nearer", earlier.file.display()),
            ),
            Some(earlier) => set_aside(
                Verdict::Refused,
                Severity::Refusal,
                format!(
                    "{} has this name, and the folder is not trusted",
                    earlier.file.display()
                ),
            ),
            None if !agent.trusted && known.agents.iter().any(is_base) => set_aside(
                Verdict::Refused,
                Severity::Refusal,
                "a built-in agent has this name, and the folder is not trusted".to_owned(),
            ),
            None => agents.push(agent),
        }
    }
    AgentFiles { agents, files }
}
