//! `write_file`: writes a whole file.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::ports::tool::{
    Reconcile, Reconciled, Recovery, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply,
    ToolSpec, Touches,
};

use crate::arguments::{at_most, parse, spec};
use crate::blocking::{Stop, in_workspace};
use crate::confine::{Kept, NewContent, OpenFile, Parents, Workspace, WriteTarget};
use crate::diff;
use crate::fingerprint::{Fingerprint, State, reconcile_file, temporary_name};
use crate::preview::shown;
use crate::text::is_binary;

/// The most bytes of content that can be written.
const MAX_CONTENT_BYTES: usize = 10 * 1024 * 1024;
/// The most bytes of old content that the new content is compared with.
const MAX_COMPARED_BYTES: u64 = 2 * 1024 * 1024;

/// The `write_file` tool: creates or replaces files.
#[derive(Debug)]
pub struct WriteFile {
    spec: ToolSpec,
    kept: Arc<Kept>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

impl WriteFile {
    /// Creates the tool, which does not access the kept places.
    pub(crate) fn keeping(kept: &Arc<Kept>) -> Self {
        Self {
            spec: spec(
                "write_file",
                "Create a file with its folders, or replace it. To change a part of it use edit_file.",
                json!({
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "content": {"type": "string"}
                    },
                    "required": ["path", "content"],
                    "additionalProperties": false
                }),
            ),
            kept: Arc::clone(kept),
        }
    }
}

impl Default for WriteFile {
    fn default() -> Self {
        Self::keeping(&Arc::default())
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Files
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Reconcilable(self)
    }

    async fn preview(&self, context: &ToolContext<'_>, arguments: &Value) -> Option<String> {
        let arguments: Arguments = parse(arguments.clone()).ok()?;
        let look = move |workspace: &Workspace, _: &Stop| preview(workspace, &arguments);
        Some(shown(in_workspace(context, &self.kept, look).await))
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        at_most("content", &arguments.content, MAX_CONTENT_BYTES)?;
        let temporary = temporary_name(context.effect);
        let work = move |workspace: &Workspace, stop: &Stop| {
            write(workspace, &arguments, &temporary, stop)
        };
        let text = in_workspace(context, &self.kept, work).await?;
        Ok(ToolAnswer::text(text).into())
    }
}

#[async_trait]
impl Reconcile for WriteFile {
    async fn fingerprint(&self, context: &ToolContext<'_>, arguments: &Value) -> Value {
        let Ok(arguments) = parse::<Arguments>(arguments.clone()) else {
            return Value::Null;
        };
        let fingerprint = in_workspace(context, &self.kept, move |workspace, _| {
            Ok(json!(Fingerprint {
                before: State::at(workspace, &arguments.path),
                after: Some(State::of(arguments.content.as_bytes())),
            }))
        });
        fingerprint.await.unwrap_or(Value::Null)
    }

    async fn reconcile(
        &self,
        context: &ToolContext<'_>,
        arguments: &Value,
        fingerprint: &Value,
    ) -> Reconciled {
        let Ok(arguments) = parse::<Arguments>(arguments.clone()) else {
            return Reconciled::Unknown;
        };
        let answer = format!(
            "Wrote {} ({}), as a check after an interruption confirmed.",
            arguments.path,
            size(&arguments.content)
        );
        reconcile_file(context, &self.kept, arguments.path, fingerprint, answer).await
    }
}

fn write(
    workspace: &Workspace,
    arguments: &Arguments,
    temporary: &str,
    stop: &Stop,
) -> Result<String, ToolFailure> {
    let path = workspace.locate(&arguments.path)?;
    let place = workspace.place(&path, Parents::Create)?;
    let mut existing = place.existing()?;
    let account = account(existing.as_mut(), &place, &path, &arguments.content);
    let new = NewContent {
        bytes: arguments.content.as_bytes(),
        temporary,
        replaces: existing.as_ref().map(|open| &open.stat),
    };
    place.replace(&new, stop)?;
    Ok(account)
}

fn account(
    existing: Option<&mut OpenFile>,
    place: &WriteTarget,
    path: &Path,
    content: &str,
) -> String {
    let (shown, size) = (place.shown(), size(content));
    let Some(open) = existing else {
        return format!("Created {shown} ({size}).");
    };
    let comparable = content.len() as u64 <= MAX_COMPARED_BYTES;
    let old = open.read(path, MAX_COMPARED_BYTES).ok();
    match old.filter(|old| comparable && !is_binary(old)) {
        Some(old) => {
            let counts = diff::counts(&String::from_utf8_lossy(&old), content);
            format!("Overwrote {shown} ({size}; {counts}).")
        }
        None => format!("Overwrote {shown} ({size})."),
    }
}

/// Returns what the write would change, for the approver.
fn preview(workspace: &Workspace, arguments: &Arguments) -> Result<String, ToolFailure> {
    let path = workspace.locate(&arguments.path)?;
    let (existing, shown) = match workspace.find_place(&path)? {
        Some(place) => (place.existing()?, place.shown()),
        None => (None, path.display().to_string()),
    };
    let content = &arguments.content;
    let size = size(content);
    let Some(mut open) = existing else {
        let text = diff::unified("", diff::beginning(content));
        return Ok(format!("new file {shown} ({size}):\n{text}"));
    };
    let old = open.read(&path, MAX_COMPARED_BYTES).ok();
    let comparable = content.len() as u64 <= MAX_COMPARED_BYTES;
    match old.filter(|old| comparable && !is_binary(old)) {
        Some(old) => {
            let text = diff::unified(&String::from_utf8_lossy(&old), content);
            Ok(format!("{shown}:\n{text}"))
        }
        None => Ok(format!(
            "{shown}: replaced by {size}; the old content is too large or not text"
        )),
    }
}

fn size(content: &str) -> String {
    format!("{} lines, {} bytes", content.lines().count(), content.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::testing::{Delegation, Folder, call, fingerprint, preview, recover};

    async fn check(path: &str, content: &str, expected: &str) {
        let folder = Folder::with(&[("old", "a\nb\n"), ("sub/x", ""), (".git/config", "[core]")]);
        folder.link("link", Path::new("old"));
        folder.link("to_git", Path::new(".git"));
        folder.link("to_agents", Path::new("agents_are_here"));
        folder.write("agents_are_here/x", b"");
        folder.write("bare/HEAD", b"");
        folder.link(".agents", Path::new("agents_are_here"));
        let arguments = json!({"path": path, "content": content});
        let reply = call(&WriteFile::default(), &folder, arguments).await;
        match reply {
            Ok(text) => {
                assert_eq!(text, expected);
                assert_eq!(folder.read(path), content);
            }
            Err(failure) => assert_eq!(format!("! {failure}"), expected),
        }
        assert_eq!(folder.read(".git/config"), "[core]");
        assert!(!folder.has_leftovers());
    }

    #[tokio::test]
    async fn writes() {
        check("new", "x\n", "Created new (1 lines, 2 bytes).").await;
        check("p/q/r.txt", "", "Created p/q/r.txt (0 lines, 0 bytes).").await;
        check("sub/../up", "分", "Created sub/../up (1 lines, 3 bytes).").await;
        check(
            "old",
            "a\nc\n",
            "Overwrote old (2 lines, 4 bytes; +1 -1 lines).",
        )
        .await;
    }

    #[tokio::test]
    async fn refuses() {
        let git = "belongs to git's own files, which file tools never write: hooks and config there run programs. Use git commands instead.";
        check(".git/config", "", &format!("! .git/config {git}")).await;
        check(
            ".git/hooks/post-commit",
            "",
            &format!("! .git/hooks/post-commit {git}"),
        )
        .await;
        check("sub/.GIT/hooks/x", "", &format!("! sub/.GIT/hooks/x {git}")).await;
        check("sub/.git", "", &format!("! sub/.git {git}")).await;
        check("to_git/config", "", &format!("! to_git/config {git}")).await;
        check("to_git/hooks/x", "", &format!("! to_git/hooks/x {git}")).await;
        for path in [
            ".claude/settings.json",
            ".Claude/settings.json",
            ".mcp.json",
            "sub/../.envrc",
            ".vscode",
            "to_agents/new",
            "agents_are_here/new",
            "sub/.envrc",
            "sub/deep/.vscode/tasks.json",
            "sub/a.code-workspace",
            "opencode.json",
            "lefthook.yml",
        ] {
            check(path, "", &format!("! {path} is protected: agents, editors or git act on it without approval. Do not write it; report what it should contain.")).await;
        }
        // The file takes effect only at the top of a repository.
        check(
            "sub/lefthook.yml",
            "x",
            "Created sub/lefthook.yml (1 lines, 1 bytes).",
        )
        .await;
        for path in ["HEAD", "sub/head", "bare/config", "bare/refs/x"] {
            check(path, "", &format!("! {path} would be a part of a git repository made of plain files, which git would use. Make repositories with git in a command, or choose another name.")).await;
        }
        check(
            "link",
            "",
            "Overwrote link -> old (0 lines, 0 bytes; +0 -2 lines).",
        )
        .await;
        check(
            "sub",
            "",
            "! sub is a directory. Use list_dir to see its content.",
        )
        .await;
        check(
            "..",
            "",
            "! .. does not name a file. Give the path of a file in the workspace.",
        )
        .await;
        check(
            "old/x",
            "",
            "! A part of old is not a directory. Find the right path with list_dir or glob.",
        )
        .await;
    }

    #[tokio::test]
    async fn preview_shows_the_diff_or_the_failure() {
        let check = async |path: &str, content: &str, expected: &str| {
            let folder = Folder::with(&[("old", "a\nb\n")]);
            folder.write("bin", b"\0");
            let arguments = json!({"path": path, "content": content});
            let tool = WriteFile::default();
            let text = preview(&tool, &folder, &arguments, &Delegation::default()).await;
            assert_eq!(text, expected);
            let count = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(count, 2, "looking made something");
        };
        check("old", "a\nc\n", "old:\n@@ -1,2 +1,2 @@\n a\n-b\n+c").await;
        check(
            "p/q",
            "x\n",
            "new file p/q (1 lines, 2 bytes):\n@@ -0,0 +1 @@\n+x",
        )
        .await;
        check(
            "bin",
            "x",
            "bin: replaced by 1 lines, 1 bytes; the old content is too large or not text",
        )
        .await;
        check(
            "..",
            "x",
            "It would fail: .. does not name a file. Give the path of a file in the workspace.",
        )
        .await;
    }

    #[tokio::test]
    async fn keeps_the_mode_and_respects_read_only() {
        let folder = Folder::with(&[("run.sh", "a"), ("fixed", "a")]);
        let set = |name: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
        };
        set("run.sh", 0o750);
        set("fixed", 0o444);
        let write = async |path: &str| {
            call(
                &WriteFile::default(),
                &folder,
                json!({"path": path, "content": "b"}),
            )
            .await
        };
        write("run.sh").await.unwrap();
        let mode = folder
            .path()
            .join("run.sh")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);
        let failure = write("fixed").await.unwrap_err().to_string();
        assert!(
            failure.starts_with("fixed is marked read-only"),
            "{failure}"
        );
        assert_eq!(folder.read("fixed"), "a");
    }

    #[tokio::test]
    async fn reconcile_after_a_crash_reports_whether_the_write_happened() {
        let tool = WriteFile::default();
        let arguments = json!({"path": "d/f", "content": "new\n"});
        let check = async |before: Option<&str>, after: Option<&str>, expected: &str| {
            let folder = Folder::with(&[("d/other", "")]);
            before.inspect(|text| folder.write("d/f", text.as_bytes()));
            let remembered = fingerprint(&tool, &folder, &arguments).await;
            after.inspect(|text| folder.write("d/f", text.as_bytes()));
            assert_eq!(
                recover(&tool, &folder, &arguments, &remembered).await,
                expected
            );
        };
        let happened = "Wrote d/f (1 lines, 4 bytes), as a check after an interruption confirmed.";
        check(None, None, "not yet").await;
        check(None, Some("new\n"), happened).await;
        check(Some("old"), None, "not yet").await;
        check(Some("old"), Some("new\n"), happened).await;
        check(Some("old"), Some("else"), "unknown").await;
        check(Some("new\n"), None, happened).await;
    }

    #[tokio::test]
    async fn retry_after_a_crash_removes_the_temporary_file() {
        let folder = Folder::with(&[]);
        folder.write(&temporary_name(&folder.effect()), b"half");
        let arguments = json!({"path": "f", "content": "whole"});
        call(&WriteFile::default(), &folder, arguments)
            .await
            .unwrap();
        assert_eq!(folder.read("f"), "whole");
        assert!(!folder.has_leftovers());
    }
}
