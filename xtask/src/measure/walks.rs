//! The two walks of ARCHITECTURE.md: the files that a reader opens, in order.

use anyhow::{Context as _, Result};

use crate::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// A walk: its name in the table, and the text after which ARCHITECTURE.md lists its files, one in
/// each numbered step. The first text that occurs counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) name: &'static str,
    headings: &'static [&'static str],
}

pub(super) const WALKS: [Walk; 2] = [
    Walk {
        name: "from a task call to the parent's next step",
        headings: &[
            "### Files: from a `task` call to the parent's next step",
            "files, each named after its step:",
        ],
    },
    Walk {
        name: "from POST /api/tasks to a row of the page",
        headings: &["### Files: from `POST /api/tasks` to a row of the page"],
    },
];

/// Returns the files of a walk; `None` if the document has no such list, as in an older commit.
pub(super) fn files(tree: &Tree, walk: Walk) -> Result<Option<Vec<String>>> {
    let Some(list) = tree.text(DOCUMENT).and_then(|text| listed(text, walk)) else {
        return Ok(None);
    };
    let files = list.iter().map(|file| {
        tree.resolve(file)
            .with_context(|| format!("{DOCUMENT}: {file} does not exist ({})", walk.name))
    });
    files.collect::<Result<_>>().map(Some)
}

/// Returns the problems of the lists: a missing list, and files that do not exist.
pub(crate) fn check(tree: &Tree) -> Vec<String> {
    WALKS
        .iter()
        .filter_map(|walk| match files(tree, *walk) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{DOCUMENT}: no list of files {}", walk.name)),
            Err(error) => Some(error.to_string()),
        })
        .collect()
}

fn listed(text: &str, walk: Walk) -> Option<Vec<String>> {
    let (_, section) = walk
        .headings
        .iter()
        .find_map(|heading| text.split_once(heading))?;
    let section = section.split("\n#").next().unwrap_or(section);
    let files = section
        .lines()
        .filter_map(|line| line.trim_start().split_once(". `"))
        .filter(|(number, _)| number.chars().all(|c| c.is_ascii_digit()))
        .filter_map(|(_, rest)| rest.split_once('`'))
        .map(|(file, _)| file.to_owned())
        .collect();
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_their_files_must_exist() {
        let text = format!(
            "# A\nTwo {}\n\nWords.\n1. `a/b.rs` does it\n2. `web/c.ts`\n\n{}\n1. `gone.rs`\n## Next\n3. `not/this.rs`\n",
            WALKS[0].headings[1], WALKS[1].headings[0]
        );
        let tree = Tree::default()
            .with(DOCUMENT, &text)
            .with("crates/a/src/b.rs", "")
            .with("web/c.ts", "");
        let files = files(&tree, WALKS[0]).unwrap().unwrap();
        assert_eq!(files, ["crates/a/src/b.rs", "web/c.ts"]);
        let problems = check(&tree);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("gone.rs"), "{problems:?}");
        assert_eq!(check(&Tree::default().with(DOCUMENT, "# A")).len(), 2);
    }
}
