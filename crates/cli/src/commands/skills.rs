//! `sortie skills`.

use std::io::Read as _;
use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};
use sortie::SkillFolders;
use sortie_base::hidden::write_out_line;
use sortie_definitions::{Problem as FileProblem, Scope, Severity, Skill, Skills};
use sortie_text::{strip_sequences, t, truncate_columns};

use crate::commands::tasks::output_columns;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Columns of a description in the list.
const DESCRIPTION_COLUMNS: usize = 80;
/// The largest `SKILL.md` that `show` prints.
const MAX_SHOWN_BYTES: u64 = 256 * 1024;
/// The file that makes a folder a skill, in both spellings.
const FILES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Lists and shows the skills that agents can load.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// Lists all skills, and why others were left out
    List {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows one skill with its text
    Show {
        /// Name of the skill
        name: String,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl SkillsCommand {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let found = SkillFolders::new(&settings.options).find(&settings.options.workspace);
        match self {
            Self::List { json } => list(settings, &found, json),
            Self::Show { name, json } => show(settings, &found, &name, json),
        }
    }
}

fn list(settings: &Settings, found: &Skills, json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    if json {
        output::json(&json!({
            "skills": found.skills.iter().map(skill_json).collect::<Vec<_>>(),
            "problems": found.problems.iter().map(problem_json).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Ok);
    }
    if found.skills.is_empty() {
        output::note(&t!(lang, "skills-none"));
    } else {
        let head = vec![
            t!(lang, "column-skill"),
            t!(lang, "column-source"),
            t!(lang, "column-offered"),
            t!(lang, "column-when"),
        ];
        let rows = found
            .skills
            .iter()
            .map(|skill| {
                vec![
                    write_out_line(&skill.name),
                    source(settings, skill.scope),
                    offered(settings, skill),
                    truncate_columns(&write_out_line(&skill.description), DESCRIPTION_COLUMNS),
                ]
            })
            .collect();
        output::text(&table::rows(head, rows, output_columns(settings)))?;
    }
    for problem in &found.problems {
        output::note(&write_out_line(&problem.to_string()));
    }
    Ok(Exit::Ok)
}

fn show(settings: &Settings, found: &Skills, name: &str, json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let Some(skill) = found
        .skills
        .iter()
        .find(|skill| skill.name.eq_ignore_ascii_case(name.trim()))
    else {
        let known: Vec<String> = found
            .skills
            .iter()
            .map(|skill| write_out_line(&skill.name))
            .collect();
        return Err(Problem::Nothing(t!(
            lang,
            "skills-unknown",
            name = write_out_line(name),
            known = known.join(", ")
        )));
    };
    let text = text(&skill.folder)?;
    if json {
        let mut value = skill_json(skill);
        value["text"] = Value::String(text);
        output::json(&value)?;
        return Ok(Exit::Ok);
    }
    let mut rows = vec![
        (t!(lang, "field-name"), write_out_line(&skill.name)),
        (t!(lang, "field-when"), write_out_line(&skill.description)),
        (t!(lang, "field-source"), source(settings, skill.scope)),
        (
            t!(lang, "field-folder"),
            write_out_line(&skill.folder.display().to_string()),
        ),
        (t!(lang, "field-offered"), offered(settings, skill)),
    ];
    if !skill.wanted_tools.is_empty() {
        let wanted = write_out_line(&skill.wanted_tools.join(", "));
        rows.push((t!(lang, "field-wanted-tools"), wanted));
    }
    if !skill.unknown.is_empty() {
        let unknown = write_out_line(&skill.unknown.join(", "));
        rows.push((t!(lang, "field-unknown-keys"), unknown));
    }
    let text = strip_sequences(text.trim_end());
    output::text(&format!("{}\n\n{text}", table::pairs(&rows)))?;
    Ok(Exit::Ok)
}

/// Reads the text of a skill without its front matter. No part of the folder's path is a symbolic
/// link.
fn text(folder: &Path) -> Result<String, Problem> {
    let file = FILES
        .iter()
        .map(|name| folder.join(name))
        .find(|file| std::fs::symlink_metadata(file).is_ok_and(|about| about.is_file()));
    let Some(file) = file else {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Problem::Process(missing));
    };
    let mut bytes = Vec::new();
    sortie_base::regular_file::open(&file)
        .and_then(|file| file.take(MAX_SHOWN_BYTES).read_to_end(&mut bytes))
        .map_err(Problem::Process)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match sortie_definitions::split(&text) {
        Ok(document) => document.body.to_owned(),
        Err(_) => text,
    })
}

fn source(settings: &Settings, scope: Scope) -> String {
    let lang = settings.lang;
    match scope {
        Scope::Project => t!(lang, "source-project"),
        Scope::User => t!(lang, "source-user"),
        Scope::Extra => t!(lang, "source-extra"),
    }
}

/// Returns which agents are offered a skill.
fn offered(settings: &Settings, skill: &Skill) -> String {
    let lang = settings.lang;
    match (skill.for_models, skill.for_people) {
        (true, true) => t!(lang, "offered-both"),
        (true, false) => t!(lang, "offered-models"),
        (false, true) => t!(lang, "offered-people"),
        (false, false) => t!(lang, "offered-none"),
    }
}

fn skill_json(skill: &Skill) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "folder": skill.folder.display().to_string(),
        "source": match skill.scope {
            Scope::Project => "project",
            Scope::User => "user",
            Scope::Extra => "extra",
        },
        "for_models": skill.for_models,
        "for_people": skill.for_people,
        "wanted_tools": skill.wanted_tools,
        "unknown_keys": skill.unknown,
    })
}

/// Returns the problem of a file as JSON for scripts.
pub(super) fn problem_json(problem: &FileProblem) -> Value {
    json!({
        "severity": match problem.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Refusal => "refusal",
        },
        "file": problem.file.display().to_string(),
        "line": problem.line,
        "text": problem.text,
    })
}
