//! `memory_save`, `memory_search`, `memory_get`: notes that the main agent keeps across sessions.
//!
//! A note belongs to the project in which it was saved, and to the tenant: runs in another folder or of
//! another tenant neither find nor read it. Children never get these tools (`policy::DENIED_TO_CHILDREN`), so what a child read cannot
//! become a lasting instruction without the main agent.

mod notes;
mod search;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};
use crate::blocking::blocking;
use notes::{Note, Notes};

/// The longest note, in bytes.
const MAX_NOTE_BYTES: usize = 16_000;
/// The longest query, in bytes.
const MAX_QUERY_BYTES: usize = 1_000;
/// Notes in the result of a search.
const FOUND_NOTES: usize = 8;
/// Characters of a note in the result of a search.
const FOUND_CHARS: usize = 200;

/// Returns the memory tools. Notes are kept below this folder.
pub fn memory_tools(folder: &Path) -> [std::sync::Arc<dyn Tool>; 3] {
    let folder = folder.to_owned();
    [
        std::sync::Arc::new(MemorySave {
            spec: spec(
                "memory_save",
                "Save a note for later sessions in this project: a preference, a decision, a fact that took effort. With id, replaces that note; empty text deletes it.",
                json!({
                    "type": "object",
                    "properties": {"text": {"type": "string"}, "id": {"type": "string"}},
                    "required": ["text"],
                    "additionalProperties": false
                }),
            ),
            folder: folder.clone(),
        }),
        std::sync::Arc::new(MemorySearch {
            spec: spec(
                "memory_search",
                "Search your notes of earlier sessions. Empty query: the newest.",
                json!({
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                    "additionalProperties": false
                }),
            ),
            folder: folder.clone(),
        }),
        std::sync::Arc::new(MemoryGet {
            spec: spec(
                "memory_get",
                "Read one note in full.",
                json!({
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                    "additionalProperties": false
                }),
            ),
            folder,
        }),
    ]
}

#[derive(Debug)]
struct MemorySave {
    spec: ToolSpec,
    folder: PathBuf,
}

#[derive(Debug)]
struct MemorySearch {
    spec: ToolSpec,
    folder: PathBuf,
}

#[derive(Debug)]
struct MemoryGet {
    spec: ToolSpec,
    folder: PathBuf,
}

#[derive(Debug, Deserialize)]
struct SaveArguments {
    text: String,
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct SearchArguments {
    query: String,
}

#[derive(Debug, Deserialize)]
struct GetArguments {
    id: String,
}

/// Returns the notes of the project that a call works on. A worktree shares those of its repository.
fn notes(folder: &Path, context: &ToolContext<'_>) -> Notes {
    let project = context
        .worktree
        .map_or(context.workspace, |worktree| worktree.repository.as_path());
    match context.tenant {
        None => Notes::of(folder, project),
        // Tenants may share a workspace, but not what they remember of it.
        Some(tenant) => Notes::of(&folder.join(format!("tenant-{tenant}")), project),
    }
}

fn answer(text: String) -> ToolReply {
    Ok(ToolAnswer {
        text,
        ..ToolAnswer::default()
    }
    .into())
}

#[async_trait]
impl Tool for MemorySave {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    // Notes are the agent's own; no file of the user changes.
    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    // The id derives from the effect, so that a repeated call writes the same note.
    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let SaveArguments { text, id } = parse(arguments)?;
        at_most("text", &text, MAX_NOTE_BYTES)?;
        let notes = notes(&self.folder, context);
        let effect = context.effect.to_string();
        let words = blocking(move |_| {
            let text = text.trim();
            let id = match id {
                Some(id) => notes.existing(&id)?,
                None => notes::new_id(&effect),
            };
            if text.is_empty() {
                notes.delete(&id)?;
                return Ok(format!("Note {id} is deleted."));
            }
            notes.save(&id, text)?;
            Ok(format!("Saved as note {id}."))
        });
        answer(words.await?)
    }
}

#[async_trait]
impl Tool for MemorySearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let SearchArguments { query } = parse(arguments)?;
        at_most("query", &query, MAX_QUERY_BYTES)?;
        let notes = notes(&self.folder, context);
        let words = blocking(move |_| {
            let all = notes.all()?;
            let found = search::best(&all, &query, FOUND_NOTES);
            Ok(listed(&all, &found))
        });
        answer(words.await?)
    }
}

#[async_trait]
impl Tool for MemoryGet {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let GetArguments { id } = parse(arguments)?;
        let notes = notes(&self.folder, context);
        let note = blocking(move |_| {
            let id = notes.existing(&id)?;
            notes.read(&id)
        });
        let note: Note = note.await?;
        answer(format!(
            "Note {}, saved {}:\n{}",
            note.id, note.saved, note.text
        ))
    }
}

/// Lists notes with the beginning of each.
fn listed(all: &[Note], found: &[&Note]) -> String {
    match (all.len(), found.len()) {
        (0, _) => return "There are no notes yet.".to_owned(),
        (count, 0) => {
            return format!(
                "None of the {count} notes matches. Search with other words, or with an empty query for the newest."
            );
        }
        (_, _) => {}
    }
    let lines: Vec<String> = found
        .iter()
        .map(|note| {
            let line = note.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = sortie_base::truncate::truncate(&line, FOUND_CHARS);
            format!("{} ({}): {line}", note.id, note.saved)
        })
        .collect();
    lines.join("\n")
}

fn failure(doing: &str, error: &std::io::Error) -> ToolFailure {
    ToolFailure::new(format!(
        "Error: the notes could not be {doing} ({error}). Continue without them."
    ))
}

#[cfg(test)]
mod tests {
    use sortie_core::ports::tool::ToolOutcome;

    use super::*;
    use crate::testing::{Delegation, Folder, outcome_of_tenant};

    async fn told(
        tool: &dyn Tool,
        folder: &Folder,
        arguments: Value,
        tenant: Option<&str>,
    ) -> String {
        let tenant = tenant.map(|name| name.parse().unwrap());
        let delegation = Delegation::default();
        let outcome = outcome_of_tenant(tool, folder, arguments, (&delegation, tenant.as_ref()));
        match outcome.await {
            Ok(ToolOutcome::Answer(answer)) => answer.text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn tenants_do_not_read_each_others_notes_of_one_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::with(&[]);
        let [save, search, _] = memory_tools(home.path());
        let note = json!({"text": "the door code is 1234"});
        told(save.as_ref(), &folder, note, Some("acme")).await;
        let query = json!({"query": "code"});
        for (tenant, finds) in [(Some("acme"), true), (Some("other"), false), (None, false)] {
            let found = told(search.as_ref(), &folder, query.clone(), tenant).await;
            assert_eq!(found.contains("1234"), finds, "{tenant:?}: {found}");
        }
    }
}
