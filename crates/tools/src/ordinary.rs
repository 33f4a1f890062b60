//! Tests: ordinary file operations are not rejected.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::{Value, json};
use sortie_core::ports::tool::Tool;

use crate::testing::{Delegation, Folder, Rules, answer_with, call, preview};
use crate::{EditFile, Glob, Grep, ListDir, ReadFile, WriteFile};

async fn done(tool: &dyn Tool, folder: &Folder, arguments: Value) -> String {
    let reply = call(tool, folder, arguments.clone()).await;
    reply.unwrap_or_else(|failure| panic!("{arguments} was refused: {failure}"))
}

async fn refused(tool: &dyn Tool, folder: &Folder, arguments: Value) -> String {
    call(tool, folder, arguments).await.unwrap_err().to_string()
}

fn change(path: &str) -> Value {
    json!({"path": path, "old_string": "one", "new_string": "two"})
}

#[tokio::test]
async fn a_link_to_a_file_of_the_workspace_is_edited_and_stays_a_link() {
    let folder = Folder::with(&[("AGENTS.md", "one\n"), ("docs/real.md", "one\n")]);
    folder.link("CLAUDE.md", Path::new("AGENTS.md"));
    folder.link("docs/up", Path::new("../AGENTS.md"));
    folder.link("chain", Path::new("docs/next"));
    folder.link("docs/next", Path::new("real.md"));
    for (link, file) in [
        ("CLAUDE.md", "AGENTS.md"),
        ("docs/up", "AGENTS.md"),
        ("chain", "docs/real.md"),
    ] {
        folder.write(file, b"one\n");
        let shown = format!("{link} -> {file}");
        let tool = EditFile::default();
        let seen = preview(&tool, &folder, &change(link), &Delegation::default()).await;
        assert!(seen.starts_with(&format!("{shown}:\n")), "{seen}");
        let reply = done(&tool, &folder, change(link)).await;
        assert!(reply.starts_with(&format!("Edited {shown}:")), "{reply}");
        assert_eq!(folder.read(file), "two\n");
        let arguments = json!({"path": link, "content": "three\n"});
        let reply = done(&WriteFile::default(), &folder, arguments).await;
        assert!(reply.starts_with(&format!("Overwrote {shown} ")), "{reply}");
        assert_eq!(folder.read(file), "three\n");
        let about = std::fs::symlink_metadata(folder.path().join(link)).unwrap();
        assert!(about.is_symlink(), "{link} was replaced");
    }
    assert!(!folder.has_leftovers());
}

#[tokio::test]
async fn writing_through_a_link_to_a_protected_file_is_rejected() {
    let outside = Folder::with(&[("file", "one\n")]);
    let folder = Folder::with(&[
        (".git/config", "one\n"),
        (".mcp.json", "one\n"),
        ("secret/key", "one\n"),
        ("sub/x", "one\n"),
    ]);
    for (link, target) in [
        ("git", ".git/config"),
        ("mcp", ".mcp.json"),
        ("key", "secret/key"),
        ("folder", "sub"),
        ("none", "missing"),
        ("circle", "circle"),
        ("top", "."),
    ] {
        folder.link(link, Path::new(target));
    }
    folder.link("out", &outside.path().join("file"));
    let rules = Delegation {
        permits: Rules::deny(&["secret"]),
        ..Delegation::default()
    };
    for (link, expected) in [
        ("git", "git's own files"),
        ("mcp", "is protected"),
        ("key", "may not be used"),
        ("folder", "is a directory"),
        ("none", "which does not exist"),
        ("circle", "goes through a symbolic link"),
        ("top", "does not name a file"),
        ("out", "leads outside the workspace"),
    ] {
        for (tool, arguments) in [
            (&EditFile::default() as &dyn Tool, change(link)),
            (
                &WriteFile::default(),
                json!({"path": link, "content": "two\n"}),
            ),
        ] {
            let reply = answer_with(tool, &folder, arguments, &rules).await;
            let reply = reply.unwrap_err().to_string();
            assert!(reply.contains(expected), "{link}: {reply}");
            assert!(!reply.contains(".git/config"), "{link}: {reply}");
        }
    }
    for file in [".git/config", ".mcp.json", "secret/key", "sub/x"] {
        assert_eq!(folder.read(file), "one\n", "{file}");
    }
    assert_eq!(outside.read("file"), "one\n");
    assert!(!folder.path().join("missing").exists());
}

#[tokio::test]
async fn every_tool_accepts_unusual_names() {
    let folder = Folder::with(&[]);
    for name in [
        "with space.txt",
        "说明.md",
        "-rf",
        "a'b\"c.txt",
        "$HOME.txt",
        "star*.txt",
        "[id].tsx",
        "new/nested/folder/f.txt",
        "naïve/😀.txt",
        ".env.example",
        "file (deleted)",
        "trailing ",
    ] {
        let arguments = json!({"path": name, "content": "one\n"});
        done(&WriteFile::default(), &folder, arguments).await;
        done(&EditFile::default(), &folder, change(name)).await;
        let text = done(&ReadFile::default(), &folder, json!({"path": name})).await;
        assert_eq!(text, "1\ttwo\n", "{name}");
        let arguments = json!({"path": name, "pattern": "two"});
        let text = done(&Grep::default(), &folder, arguments).await;
        assert!(text.ends_with(":1:two"), "{name}: {text}");
    }
    let text = done(&Glob::default(), &folder, json!({"pattern": "**/*.md"})).await;
    assert_eq!(text, "说明.md");
    let text = done(&ListDir::default(), &folder, json!({"path": "naïve"})).await;
    assert_eq!(text, "😀.txt (4 B)");
}

#[tokio::test]
async fn an_edit_keeps_the_rest_of_the_file() {
    let folder = Folder::with(&[("run.sh", "#!/bin/sh\none\n")]);
    let path = folder.path().join("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    done(&EditFile::default(), &folder, change("run.sh")).await;
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o755);
    for (before, after) in [
        ("\u{feff}one\r\n", "\u{feff}two\r\n"),
        ("one", "two"),
        ("\t one \n\n\n", "\t two \n\n\n"),
        ("a\r\none\nb", "a\r\ntwo\nb"),
    ] {
        folder.write("f", before.as_bytes());
        done(&EditFile::default(), &folder, change("f")).await;
        assert_eq!(folder.read("f"), after);
    }
}

#[tokio::test]
async fn empty_and_large_files_get_a_clear_answer() {
    let folder = Folder::with(&[("empty", "")]);
    let text = done(&ReadFile::default(), &folder, json!({"path": "empty"})).await;
    assert_eq!(text, "(empty is empty)");
    let arguments = json!({"path": "empty", "content": ""});
    done(&WriteFile::default(), &folder, arguments).await;
    let sparse = std::fs::File::create(folder.path().join("large")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let reply = refused(&ReadFile::default(), &folder, json!({"path": "large"})).await;
    assert!(reply.contains("larger than 10 MiB"), "{reply}");
    let reply = refused(&EditFile::default(), &folder, change("large")).await;
    assert!(reply.contains("larger than 10 MiB"), "{reply}");
    let reply = refused(&ReadFile::default(), &folder, json!({"path": "."})).await;
    assert!(reply.contains("Use list_dir"), "{reply}");
}
