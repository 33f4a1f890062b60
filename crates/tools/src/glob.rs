//! `glob`: finds files by name.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::glob_nesting;
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};
use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, Kind, Workspace, stat};
use crate::walk::{WalkEntry, walk};

/// The most paths that are returned.
const MAX_PATHS: usize = 200;
/// The most bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 1024;

/// The `glob` tool: finds files by name.
#[derive(Debug)]
pub struct Glob {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

impl Glob {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "glob",
                "Find files by name below path, newest first; skips ignored files. Without / the pattern matches names at any depth (*.rs), with / the path (src/**/*.{ts,tsx}).",
                json!({
                    "type": "object",
                    "properties": {
                        "pattern": {"type": "string"},
                        "path": {"type": "string"}
                    },
                    "required": ["pattern"],
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for Glob {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for Glob {
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
        let work = move |workspace: &Workspace, stop: &Stop| find(workspace, &arguments, stop);
        let text = in_workspace(context, &self.kept, work).await?;
        Ok(ToolAnswer::text(text).into())
    }
}

/// Matches names: a pattern without a slash matches only the last component of a path.
#[derive(Debug)]
pub(crate) struct NamePattern(GlobMatcher);

impl NamePattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, ToolFailure> {
        at_most("pattern", pattern, MAX_PATTERN_BYTES)?;
        let plain = pattern.trim_start_matches("./");
        if plain.starts_with('/') || plain.split('/').any(|part| part == "..") {
            return Err(ToolFailure::new(format!(
                "The pattern {pattern} must be relative and without `..`. Give the folder as `path` and a pattern below it."
            )));
        }
        if glob_nesting::is_too_deep(plain) {
            return Err(ToolFailure::new(format!(
                "The pattern nests braces more than {} deep. Write it like *.rs or src/**/*.{{ts,tsx}}.",
                glob_nesting::MAX_NESTING
            )));
        }
        let anywhere = if plain.contains('/') {
            plain.to_owned()
        } else {
            format!("**/{plain}")
        };
        GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map(|glob| Self(glob.compile_matcher()))
            .map_err(|error| {
                ToolFailure::new(format!(
                    "The pattern {pattern} cannot be understood: {}. Write it like *.rs or src/**/*.{{ts,tsx}}.",
                    error.kind()
                ))
            })
    }

    /// Returns whether an entry matches, relative to the start of the search.
    pub(crate) fn fits(&self, found: &WalkEntry, start: &Path) -> bool {
        self.0
            .is_match(found.path.strip_prefix(start).unwrap_or(&found.path))
    }
}

fn find(workspace: &Workspace, arguments: &Arguments, stop: &Stop) -> Result<String, ToolFailure> {
    let pattern = NamePattern::new(&arguments.pattern)?;
    let start = workspace.locate(arguments.path.as_deref().unwrap_or("."))?;
    let mut matches = Vec::new();
    let walked = walk(workspace, &start, usize::MAX, stop, &mut |found| {
        let is_file = matches!(found.kind, Kind::File | Kind::Symlink);
        if is_file && !found.ignored && pattern.fits(found, &start) {
            matches.push((changed_at(found), found.path.clone()));
        }
        ControlFlow::Continue(())
    })?;
    matches.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let mut lines: Vec<String> = matches
        .iter()
        .take(MAX_PATHS)
        .map(|(_, path)| path.display().to_string())
        .collect();
    if lines.is_empty() {
        lines.push(format!("No file matches {}.", arguments.pattern));
    }
    if matches.len() > MAX_PATHS {
        let rest = matches.len() - MAX_PATHS;
        lines.push(format!(
            "({rest} more files match; use a narrower pattern or path)"
        ));
    }
    lines.extend(walked.notes());
    Ok(lines.join("\n"))
}

fn changed_at(found: &WalkEntry) -> (i64, i64) {
    let name = found.path.file_name().unwrap_or_default();
    stat(&found.directory, name).map_or((0, 0), |stat| {
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        (stat.st_mtime, nanos)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Folder, call};

    async fn check(pattern: &str, path: &str, expected: &str) {
        let folder = Folder::with(&[
            (".gitignore", "*.log\n"),
            ("a.rs", ""),
            ("x.log", ""),
            ("src/b.rs", ""),
            ("src/deep/c.ts", ""),
            ("src/deep/d.tsx", ""),
        ]);
        for (age, name) in ["src/deep/d.tsx", "src/b.rs", "a.rs", "src/deep/c.ts"]
            .iter()
            .enumerate()
        {
            folder.age(name, age as u64 * 60);
        }
        let arguments = json!({"pattern": pattern, "path": path});
        let reply = call(&Glob::default(), &folder, arguments).await;
        assert_eq!(
            reply.unwrap_or_else(|failure| format!("! {failure}")),
            expected,
            "{pattern}"
        );
    }

    #[tokio::test]
    async fn finds_newest_first() {
        check("*.rs", ".", "src/b.rs\na.rs").await;
        check("*.{ts,tsx}", ".", "src/deep/d.tsx\nsrc/deep/c.ts").await;
        check("src/*.rs", ".", "src/b.rs").await;
        check("./src/**/*.ts*", ".", "src/deep/d.tsx\nsrc/deep/c.ts").await;
        check("deep/*.ts", "src", "src/deep/c.ts").await;
        check("*.log", ".", "No file matches *.log.").await;
        check("../*", ".", "! The pattern ../* must be relative and without `..`. Give the folder as `path` and a pattern below it.").await;
        check("[", ".", "! The pattern [ cannot be understood: unclosed character class; missing ']'. Write it like *.rs or src/**/*.{ts,tsx}.").await;
    }
}
