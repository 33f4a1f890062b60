//! The notes of a project: one file for each, readable by its owner only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use sortie_base::{atomic_file, private_files, regular_file};
use sortie_core::id::hex;
use sortie_core::ports::tool::ToolFailure;
use sortie_core::time::Timestamp;

use super::{MAX_NOTE_BYTES, failure};

/// The most notes of one project: a search reads all of them.
const MAX_NOTES: usize = 2_000;
/// Digits of the id of a note.
const ID_DIGITS: usize = 8;
/// Digits of the name of a project's folder.
const PROJECT_DIGITS: usize = 16;
const EXTENSION: &str = "md";

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) id: String,
    pub(super) text: String,
    /// The day on which it was saved.
    pub(super) saved: String,
    /// Orders notes that match equally well.
    pub(super) modified: SystemTime,
}

/// The notes of one project.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// Returns the notes of a project, below a folder.
    pub(super) fn of(folder: &Path, project: &Path) -> Self {
        let hash = hex(&Sha256::digest(project.as_os_str().as_encoded_bytes()));
        let name = hash.get(..PROJECT_DIGITS).unwrap_or(&hash);
        Self {
            folder: folder.join(name),
        }
    }

    /// Returns an id that a model wrote, if there is such a note.
    pub(super) fn existing(&self, typed: &str) -> Result<String, ToolFailure> {
        let typed = typed.trim();
        let is_id = typed.len() == ID_DIGITS && typed.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id && self.path(typed).is_file() {
            return Ok(typed.to_owned());
        }
        Err(ToolFailure::new(
            "Error: there is no note with this id. `memory_search` prints the ids.",
        ))
    }

    pub(super) fn save(&self, id: &str, text: &str) -> Result<(), ToolFailure> {
        let path = self.path(id);
        if !path.is_file() && self.paths()?.len() >= MAX_NOTES {
            return Err(ToolFailure::new(format!(
                "Error: there are {MAX_NOTES} notes, which is the limit. Delete or replace one: memory_save with its id."
            )));
        }
        private_files::make_folder(&self.folder).map_err(|error| failure("saved", &error))?;
        atomic_file::replace(&path, text.as_bytes()).map_err(|error| failure("saved", &error))
    }

    pub(super) fn delete(&self, id: &str) -> Result<(), ToolFailure> {
        match fs::remove_file(self.path(id)) {
            Ok(()) => Ok(()),
            // A repeated call finds nothing left to do.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failure("deleted", &error)),
        }
    }

    pub(super) fn read(&self, id: &str) -> Result<Note, ToolFailure> {
        read(&self.path(id)).map_err(|error| failure("read", &error))
    }

    /// Returns all notes. One that cannot be read is left out.
    pub(super) fn all(&self) -> Result<Vec<Note>, ToolFailure> {
        let paths = self.paths()?;
        Ok(paths.iter().filter_map(|path| read(path).ok()).collect())
    }

    fn paths(&self) -> Result<Vec<PathBuf>, ToolFailure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failure("read", &error)),
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == EXTENSION);
        Ok(paths.filter(is_note).take(MAX_NOTES).collect())
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{EXTENSION}"))
    }
}

/// Returns the id of the note that an effect creates.
pub(super) fn new_id(effect: &str) -> String {
    let hash = hex(&Sha256::digest(effect.as_bytes()));
    hash.get(..ID_DIGITS).unwrap_or(&hash).to_owned()
}

fn read(path: &Path) -> io::Result<Note> {
    let modified = fs::metadata(path)?.modified()?;
    let bytes = regular_file::read(path, MAX_NOTE_BYTES as u64)?;
    let id = path.file_stem().unwrap_or_default();
    Ok(Note {
        id: id.to_string_lossy().into_owned(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        saved: day(modified),
        modified,
    })
}

fn day(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let whole = Timestamp(ms).to_rfc3339();
    whole.get(..10).unwrap_or(&whole).to_owned()
}
