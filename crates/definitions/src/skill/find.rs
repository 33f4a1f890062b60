//! Finds skills.

use std::path::{Path, PathBuf};

use sortie_text::{first_chars, one_line};

use super::{MAX_SKILL_BYTES, SKILL_FILES, Skill, Skills};
use crate::fields::Fields;
use crate::folder::{Entry, Folder, FolderError, Kind};
use crate::{Problem, SearchFolder, Severity, front_matter};

/// Limit of skills in total.
const MAX_SKILLS: usize = 256;
/// Limit of folders that are searched.
const MAX_FOLDERS: usize = 4_096;
const MAX_NAME_CHARS: usize = 64;
/// Limit of a description, from the open specification.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Limit of a description together with its `when_to_use`.
const MAX_PURPOSE_CHARS: usize = 1_536;
/// Keys that other systems read and that have no meaning here.
const UNUSED: [&str; 16] = [
    "license",
    "compatibility",
    "metadata",
    "argument-hint",
    "arguments",
    "model",
    "effort",
    "context",
    "agent",
    "background",
    "paths",
    "shell",
    "priority",
    "type",
    "version",
    "disallowed-tools",
];

pub(super) fn find(places: &[SearchFolder]) -> Skills {
    let mut search = Search::default();
    for place in places {
        match place.open() {
            Ok(root) => search.look_in(place, root),
            Err(FolderError::Missing) => {}
            Err(error) => search.refuse(&place.shown(), error.to_string()),
        }
    }
    search.found
}

#[derive(Default)]
struct Search {
    found: Skills,
    /// Folders that were read, because several paths may lead to one.
    roots: Vec<Folder>,
    opened: usize,
    full: bool,
}

impl Search {
    fn look_in(&mut self, place: &SearchFolder, root: Folder) {
        if self.roots.iter().any(|other| other.is_same(&root)) {
            return;
        }
        for entry in self.folders(&root) {
            let path = PathBuf::from(&entry.name);
            let Some(folder) = self.open(&root, &path, &entry) else {
                continue;
            };
            if self.take(place, &root, &folder) {
                continue;
            }
            for inner in self.folders(&folder) {
                let path = path.join(&inner.name);
                if let Some(folder) = self.open(&root, &path, &inner) {
                    self.take(place, &root, &folder);
                }
            }
        }
        self.roots.push(root);
    }

    /// Returns the candidates for skill folders. Names with a leading dot belong to other programs.
    fn folders(&mut self, folder: &Folder) -> Vec<Entry> {
        match folder.entries() {
            Ok((entries, more)) => {
                if more {
                    let text = "the folder has too many entries; the rest is left out";
                    self.warn(folder.path(), text);
                }
                let visible = entries
                    .into_iter()
                    .filter(|entry| matches!(entry.kind, Kind::Folder | Kind::Link))
                    .filter(|entry| !entry.name.as_encoded_bytes().starts_with(b"."));
                visible.collect()
            }
            Err(error) => {
                self.refuse(folder.path(), error.to_string());
                Vec::new()
            }
        }
    }

    fn open(&mut self, root: &Folder, path: &Path, entry: &Entry) -> Option<Folder> {
        if self.full {
            return None;
        }
        self.opened += 1;
        if self.opened > MAX_FOLDERS {
            self.full = true;
            let text = format!("more than {MAX_FOLDERS} folders; the rest is left out");
            self.warn(root.path(), text);
            return None;
        }
        match root.folder(path) {
            Ok(folder) => Some(folder),
            // A link to a file, or to nothing.
            Err(FolderError::Missing) if entry.kind == Kind::Link => None,
            Err(error) => {
                self.refuse(&root.path().join(path), error.to_string());
                None
            }
        }
    }

    /// Reads the skill of a folder; returns `false` if it has none.
    fn take(&mut self, place: &SearchFolder, root: &Folder, folder: &Folder) -> bool {
        let Some((file, text)) = read(folder) else {
            return false;
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.refuse(&file, error.to_string());
                return true;
            }
        };
        if self.found.skills.len() == MAX_SKILLS {
            self.full = true;
            let text = format!("more than {MAX_SKILLS} skills; the rest is left out");
            self.warn(root.path(), text);
            return true;
        }
        let (skill, problems) = understand(&file, &text, place, root, folder);
        self.found.problems.extend(problems);
        if let Some(skill) = skill {
            self.add(skill, &file);
        }
        true
    }

    fn add(&mut self, skill: Skill, file: &Path) {
        let name = skill.name.to_lowercase();
        let mut earlier = self.found.skills.iter();
        match earlier.find(|earlier| earlier.name.to_lowercase() == name) {
            // Another path to the same folder.
            Some(earlier) if earlier.folder == skill.folder => {}
            Some(earlier) => {
                let text = format!(
                    "`{}` is hidden by the skill of the same name in {}",
                    skill.name,
                    earlier.folder.display()
                );
                self.warn(file, text);
            }
            None => self.found.skills.push(skill),
        }
    }

    fn warn(&mut self, path: &Path, text: impl Into<String>) {
        let problem = Problem::new(Severity::Warning, path, text);
        self.found.problems.push(problem);
    }

    fn refuse(&mut self, path: &Path, text: impl Into<String>) {
        let problem = Problem::new(Severity::Refusal, path, text);
        self.found.problems.push(problem);
    }
}

/// Returns the text of a folder's `SKILL.md`; `None` if it has none.
pub(super) fn read(folder: &Folder) -> Option<(PathBuf, Result<String, FolderError>)> {
    SKILL_FILES
        .iter()
        .find_map(|name| match folder.read(Path::new(name), MAX_SKILL_BYTES) {
            Err(FolderError::Missing) => None,
            text => Some((folder.path().join(name), text)),
        })
}

fn understand(
    file: &Path,
    text: &str,
    place: &SearchFolder,
    root: &Folder,
    folder: &Folder,
) -> (Option<Skill>, Vec<Problem>) {
    let mut fields = match fields(file, text) {
        Ok(fields) => fields,
        Err(problem) => return (None, vec![problem]),
    };
    let name = name(&mut fields, folder.path());
    let description = description(&mut fields, file);
    let for_models = !fields.restriction(&["disable-model-invocation"]);
    let for_people = fields.flag(&["user-invocable"]).unwrap_or(true);
    let wanted_tools = wanted_tools(&mut fields);
    if fields.take(&["hooks"]).is_some() {
        fields.problem(
            Severity::Warning,
            "hooks",
            "hooks of a skill are never run; they are left out",
        );
    }
    for key in UNUSED {
        fields.take(&[key]);
    }
    let unknown = fields.unknown();
    for key in &unknown {
        fields.problem(Severity::Note, key, format!("`{key}` is not known"));
    }
    let refused = fields
        .problems
        .iter()
        .any(|problem| problem.severity == Severity::Refusal);
    let skill = name.zip(description).map(|(name, description)| Skill {
        name,
        description,
        folder: folder.path().to_owned(),
        root: root.path().to_owned(),
        scope: place.scope,
        for_models,
        for_people,
        wanted_tools,
        unknown,
    });
    (skill.filter(|_| !refused), fields.problems)
}

fn fields(file: &Path, text: &str) -> Result<Fields, Problem> {
    let refusal = |text: String, line| Problem::new(Severity::Refusal, file, text).at(Some(line));
    let document =
        front_matter::split(text).map_err(|error| refusal(error.to_string(), error.line()))?;
    let Some(yaml) = document.yaml else {
        let text = "a skill begins with front matter: `---`, `name:`, `description:`, `---`";
        return Err(refusal(text.to_owned(), 1));
    };
    let parsed = front_matter::parse(yaml, document.yaml_line)
        .map_err(|error| refusal(error.to_string(), error.line()))?;
    Ok(Fields::new(file, parsed))
}

fn name(fields: &mut Fields, folder: &Path) -> Option<String> {
    let folder = folder.file_name().and_then(|name| name.to_str());
    let folder = folder.unwrap_or_default();
    let written = fields.text(&["name"]);
    match written {
        Some(name) if is_name(&name) => {
            if name != folder {
                let text = format!("the skill is called `{name}`, but its folder `{folder}`");
                fields.problem(Severity::Warning, "name", text);
            }
            Some(name)
        }
        _ if is_name(folder) => {
            let text = match written {
                Some(name) => format!(
                    "`{}` is not a valid skill name ({NAME_RULE}); it is called `{folder}` like its folder",
                    one_line(first_chars(&name, MAX_NAME_CHARS))
                ),
                None => format!("`name` is missing; it is called `{folder}` like its folder"),
            };
            fields.problem(Severity::Warning, "name", text);
            Some(folder.to_owned())
        }
        _ => {
            let text = format!("neither `name` nor the folder is a valid skill name ({NAME_RULE})");
            fields.problem(Severity::Refusal, "name", text);
            None
        }
    }
}

const NAME_RULE: &str = "1 to 64 lower-case letters, digits and single hyphens";

fn is_name(name: &str) -> bool {
    let in_form = |c: char| c == '-' || (c.is_alphanumeric() && !c.is_uppercase());
    !name.is_empty()
        && name.chars().count() <= MAX_NAME_CHARS
        && name.chars().all(in_form)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn description(fields: &mut Fields, file: &Path) -> Option<String> {
    let description = fields.text(&["description"]).unwrap_or_default();
    let mut description = one_line(&description);
    if description.is_empty() {
        fields.problems.push(Problem::new(
            Severity::Refusal,
            file,
            "`description` is missing: a model needs it to choose the skill",
        ));
        return None;
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        description = first_chars(&description, MAX_DESCRIPTION_CHARS).to_owned();
        let text = format!("`description` is truncated after {MAX_DESCRIPTION_CHARS} characters");
        fields.problem(Severity::Warning, "description", text);
    }
    if let Some(when) = fields.text(&["when_to_use"]) {
        let whole = format!("{description} {}", one_line(&when));
        description = first_chars(&whole, MAX_PURPOSE_CHARS).trim_end().to_owned();
    }
    Some(description)
}

/// Splits at commas, or at white space as in the open specification.
fn wanted_tools(fields: &mut Fields) -> Vec<String> {
    let listed = fields.list(&["allowed-tools"]).unwrap_or_default();
    if !listed.is_empty() {
        fields.problem(
            Severity::Note,
            "allowed-tools",
            "`allowed-tools` grants nothing here: policy decides",
        );
    }
    listed
        .iter()
        .flat_map(|item| match item.contains('(') {
            true => vec![item.clone()],
            false => item.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}
