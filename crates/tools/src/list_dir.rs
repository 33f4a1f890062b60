//! `list_dir`: lists a directory.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::truncate::truncate;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{parse, spec, whole};
use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, Kind, Workspace, read_link, stat};
use crate::walk::{WalkEntry, walk};

/// The most entries that are listed.
const MAX_LISTED: usize = 1000;
/// The most levels of a listing.
const MAX_DEPTH: u64 = 8;
/// The most characters of a name or link target that are shown.
const MAX_NAME_CHARS: usize = 255;

/// The `list_dir` tool: lists directories.
#[derive(Debug)]
pub struct ListDir {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    depth: Option<u64>,
}

impl ListDir {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "list_dir",
                "List a directory (default: the workspace) as a tree with sizes. Skips .git and ignored folders. To find files by name use glob.",
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "depth": {"type": "integer", "description": "default 1, at most 8"}
                    },
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for ListDir {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for ListDir {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Reads
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let work = move |workspace: &Workspace, stop: &Stop| list(workspace, &arguments, stop);
        let text = in_workspace(context, &self.kept, work).await?;
        Ok(ToolAnswer::text(text).into())
    }
}

fn list(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<String, ToolFailure> {
    let start = workspace.locate(arguments.path.as_deref().unwrap_or("."))?;
    let depth = arguments.depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let mut lines = Vec::new();
    let mut left_out = false;
    let walked = walk(workspace, &start, depth as usize, stop, &mut |found| {
        if lines.len() == MAX_LISTED {
            left_out = true;
            return ControlFlow::Break(());
        }
        lines.push(line(found));
        ControlFlow::Continue(())
    })?;
    if lines.is_empty() && walked.withheld == 0 {
        return Ok(format!("({} is empty)", start.display()));
    }
    if left_out {
        lines.push(format!(
            "(only the first {MAX_LISTED} are listed; give a narrower path or less depth)"
        ));
    }
    lines.extend(walked.notes());
    Ok(lines.join("\n"))
}

fn line(found: &WalkEntry) -> String {
    let name = found.path.file_name().unwrap_or_default();
    let mut line = "  ".repeat(found.depth - 1);
    line.push_str(&truncate(&name.to_string_lossy(), MAX_NAME_CHARS));
    // Writing to a String cannot fail.
    match found.kind {
        Kind::Directory => line.push('/'),
        Kind::File => {
            if let Some(stat) = stat(&found.directory, name) {
                write!(line, " ({} B)", stat.st_size).ok();
            }
        }
        Kind::Symlink => {
            let target = read_link(&found.directory, name);
            let target = truncate(&target.unwrap_or_default(), MAX_NAME_CHARS);
            write!(line, " -> {target}").ok();
        }
        Kind::Special => line.push_str(" (not a regular file)"),
    }
    line
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::{Folder, call};

    async fn check(arguments: Value, expected: &str) {
        let folder = Folder::with(&[
            (".gitignore", "target/\n"),
            (".git/config", "[core]"),
            ("src/lib.rs", "fn"),
            ("src/a/b.rs", ""),
            ("target/debug/x", ""),
        ]);
        folder.link("to_src", Path::new("src"));
        std::fs::create_dir(folder.path().join("none")).unwrap();
        let reply = call(&ListDir::default(), &folder, arguments).await;
        assert_eq!(
            reply.unwrap_or_else(|failure| format!("! {failure}")),
            expected
        );
    }

    #[tokio::test]
    async fn lists() {
        let top = ".git/\n.gitignore (8 B)\nnone/\nsrc/\ntarget/\nto_src -> src";
        check(json!({}), top).await;
        check(json!({"path": "."}), top).await;
        check(
            json!({"depth": 3}),
            ".git/\n.gitignore (8 B)\nnone/\nsrc/\n  a/\n    b.rs (0 B)\n  lib.rs (2 B)\ntarget/\nto_src -> src",
        )
        .await;
        check(json!({"path": "to_src"}), "a/\nlib.rs (2 B)").await;
        check(json!({"path": "none"}), "(none is empty)").await;
        check(
            json!({"path": "src/lib.rs"}),
            "! src/lib.rs is not a directory. Give the path of a directory, or read it with read_file.",
        )
        .await;
        check(
            json!({"path": "scr"}),
            "! scr does not exist. Did you mean src?",
        )
        .await;
    }

    #[tokio::test]
    async fn is_bounded() {
        let folder = Folder::with(&[]);
        for number in 0..MAX_LISTED + 5 {
            folder.write(&format!("f{number}"), b"");
        }
        let text = call(&ListDir::default(), &folder, json!({})).await.unwrap();
        assert_eq!(text.lines().count(), MAX_LISTED + 1);
        assert!(text.ends_with("give a narrower path or less depth)"));
    }
}
