//! Configuration files: where they are found, and how they are read and replaced.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Table;

use sortie_base::hidden::is_hidden;
use sortie_base::truncate::truncate;
use sortie_base::{atomic_file, private_files, regular_file};

use crate::check::stands_for;
use crate::shape::{SHAPE, Shape};
use crate::{ConfigError, KeyPath};

/// The name of a project file.
pub const PROJECT_FILE: &str = "sortie.toml";
/// The most bytes that are read of a configuration file: a thousand times a typical one.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The folder that may contain the project file instead.
const PROJECT_FOLDER: &str = ".sortie";
/// The entry that marks the root of a repository: a folder, or a file in a work tree.
const REPOSITORY_MARK: &str = ".git";
/// The most characters of a parser message that are reported.
const MESSAGE_CHARS: usize = 200;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the project file for a folder: the nearest one, up to the root of the repository.
/// Outside a repository only the folder itself is searched.
pub fn find_project_file(start: &Path) -> Option<PathBuf> {
    let start = fs::canonicalize(start).ok()?;
    let root = start.ancestors().find(|folder| is_repository(folder));
    let root = root.unwrap_or(&start);
    start
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .flat_map(|folder| {
            [
                folder.join(PROJECT_FILE),
                folder.join(PROJECT_FOLDER).join(PROJECT_FILE),
            ]
        })
        .find(|file| file.is_file())
}

/// Returns the folder that a project file applies to: the one that has to be trusted.
pub fn project_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    if folder
        .file_name()
        .is_some_and(|name| name == PROJECT_FOLDER)
    {
        return folder.parent();
    }
    Some(folder)
}

pub(crate) fn is_repository(folder: &Path) -> bool {
    match fs::symlink_metadata(folder.join(REPOSITORY_MARK)) {
        Ok(_) => true,
        // An entry that cannot be inspected may be a root, so the search does not continue above
        // it.
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Returns the text of a file, or `None` if the file does not exist.
pub(crate) fn read(file: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        file: file.to_owned(),
        source,
    };
    // A project file may be replaced by a pipe, a device or an endless file at any time.
    let bytes = match regular_file::read_followed(file, MAX_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(ConfigError::NotAFile {
                file: file.to_owned(),
            });
        }
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Err(ConfigError::TooLarge {
                file: file.to_owned(),
                limit_bytes: MAX_FILE_BYTES,
            });
        }
        Err(error) => return Err(unreadable(error)),
    };
    let text = String::from_utf8(bytes).map_err(|_| ConfigError::NotText {
        file: file.to_owned(),
    })?;
    Ok(Some(text))
}

/// Returns the text without the byte order mark that some editors write.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Parses the text of a file.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Table, ConfigError> {
    let text = without_mark(text);
    text.parse::<Table>().map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        syntax(file, text, at, error.message())
    })
}

/// Returns a syntax error without the line itself, which might contain a secret.
pub(crate) fn syntax(file: &Path, text: &str, at: usize, message: &str) -> ConfigError {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let message = message.replace(is_hidden, " ");
    ConfigError::Syntax {
        file: file.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message: truncate(&message, MESSAGE_CHARS),
    }
}

/// Returns the number of the line that sets a key, from 1, in any spelling of the key.
pub(crate) fn line_of(text: &str, key: &KeyPath) -> Option<usize> {
    let text = without_mark(text);
    let document = toml_edit::Document::parse(text).ok()?;
    let mut table: &dyn toml_edit::TableLike = document.as_table();
    let mut shape: Option<&Shape> = Some(&SHAPE);
    let mut span = None;
    for (index, segment) in key.segments().iter().enumerate() {
        let above = &key.segments()[..index];
        let written = table.iter().map(|(name, _)| name);
        let written = written
            .filter(|name| stands_for(shape, above, name, segment))
            .min_by_key(|name| *name != segment)?;
        let (name, item) = table.get_key_value(written)?;
        shape = shape.and_then(|shape| shape.below(segment));
        span = name.span().or_else(|| item.span());
        if index + 1 < key.segments().len() {
            table = item.as_table_like()?;
        }
    }
    let before = text.get(..span?.start)?;
    Some(before.matches('\n').count() + 1)
}

/// Replaces a file that the user edits, and creates the folder of a new one.
pub(crate) fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        private_files::make_folder(folder)?;
    }
    atomic_file::replace_followed(file, text.as_bytes())
}
