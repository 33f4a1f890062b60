//! Candidates for the word before the cursor.

use std::path::Path;

/// The commands.
pub(super) const COMMANDS: [&str; 21] = [
    "/agents", "/apply", "/approve", "/budget", "/cancel", "/clear", "/deny", "/diff", "/fork",
    "/help", "/mode", "/model", "/new", "/quit", "/report", "/result", "/resume", "/steer",
    "/task", "/tasks", "/usage",
];
/// The most candidates.
const MOST: usize = 50;
/// The most entries of a folder that are read.
const MAX_ENTRIES: usize = 5_000;

/// Returns the commands that begin with this text.
pub(super) fn commands(word: &str) -> Vec<String> {
    match word.starts_with('/') {
        true => matching(COMMANDS.iter().map(|command| (*command).to_owned()), word),
        false => Vec::new(),
    }
}

/// Returns files and folders that begin with this path, relative to the workspace, with `@`.
pub(super) fn files(workspace: &Path, typed: &str) -> Vec<String> {
    let (folder, name) = typed
        .rsplit_once('/')
        .map_or(("", typed), |(folder, name)| (folder, name));
    let Ok(entries) = workspace.join(folder).read_dir() else {
        return Vec::new();
    };
    let prefix = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let found = entries.take(MAX_ENTRIES).filter_map(|entry| {
        let entry = entry.ok()?;
        let file = entry.file_name().into_string().ok()?;
        let is_hidden = file.starts_with('.') && !name.starts_with('.');
        if is_hidden || !file.starts_with(name) || file.contains(char::is_whitespace) {
            return None;
        }
        let end = match entry.file_type() {
            Ok(kind) if kind.is_dir() => "/",
            Ok(_) | Err(_) => "",
        };
        Some(format!("@{prefix}{file}{end}"))
    });
    let mut found: Vec<String> = found.collect();
    found.sort_unstable();
    found.truncate(MOST);
    found
}

/// Returns the sorted values that begin with a word.
pub(super) fn matching(values: impl Iterator<Item = String>, word: &str) -> Vec<String> {
    let mut found: Vec<String> = values.filter(|value| value.starts_with(word)).collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_relative_and_folders_end_with_a_slash() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for name in ["src/main.rs", "src/map.rs", ".hidden", "setup"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(files(folder.path(), "s"), ["@setup", "@src/"]);
        assert_eq!(
            files(folder.path(), "src/ma"),
            ["@src/main.rs", "@src/map.rs"]
        );
        assert_eq!(files(folder.path(), ".h"), ["@.hidden"]);
        assert!(files(folder.path(), "missing/x").is_empty());
    }

    #[test]
    fn commands_begin_with_a_slash() {
        assert_eq!(commands("/ta"), ["/task", "/tasks"]);
        assert!(commands("ta").is_empty());
    }
}
