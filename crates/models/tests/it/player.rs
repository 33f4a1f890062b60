//! Simulates the file tools over a real folder, with the output format of the real ones.

use std::path::Path;

use serde_json::Value;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, ResultStatus, ToolCall, ToolResult};
use sortie_core::ports::model::{ModelAnswer, ModelRequest};
use sortie_models::decide;

use crate::support::{answered, request, result, results, shown};

/// The maximum number of paths that `glob` returns, as in the real tool.
const MAX_PATHS: usize = 200;

/// Returns all files below a folder with their text, by path.
pub(crate) fn files(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn play(root: &Path, tool: &str, arguments: &Value) -> Result<String, String> {
    let argument = |key: &str| {
        arguments
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let files = files(root);
    match tool {
        "glob" => Ok(glob(&files, argument("pattern"))),
        "list_dir" => Ok(list(&files)),
        "read_file" => {
            let found = files.iter().find(|(path, _)| path == argument("path"));
            let (_, text) = found.ok_or("it does not exist")?;
            let lines = text.lines().enumerate();
            Ok(lines
                .map(|(at, line)| format!("{}\t{line}\n", at + 1))
                .collect())
        }
        "grep" => Ok(grep(
            &files,
            argument("pattern"),
            argument("path"),
            argument("output"),
        )),
        other => Err(format!("no tool {other}")),
    }
}

fn list(files: &[(String, String)]) -> String {
    let mut names: Vec<String> = files
        .iter()
        .map(|(path, text)| match path.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => format!("{path} ({} B)", text.len()),
        })
        .collect();
    names.dedup();
    names.join("\n")
}

fn glob(files: &[(String, String)], pattern: &str) -> String {
    let fits = |path: &str| alternatives(pattern).iter().any(|one| matches(one, path));
    let paths: Vec<&str> = files
        .iter()
        .map(|(path, _)| path.as_str())
        .filter(|p| fits(p))
        .collect();
    if paths.is_empty() {
        return format!("No file matches {pattern}.");
    }
    let mut lines: Vec<String> = paths
        .iter()
        .take(MAX_PATHS)
        .map(|p| (*p).to_owned())
        .collect();
    if paths.len() > MAX_PATHS {
        let rest = paths.len() - MAX_PATHS;
        lines.push(format!(
            "({rest} more files match; use a narrower pattern or path)"
        ));
    }
    lines.join("\n")
}

/// Expands `a{b,c}d` to `abd` and `acd`.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some((head, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (inner, tail) = rest.split_once('}').unwrap();
    inner
        .split(',')
        .map(|one| format!("{head}{one}{tail}"))
        .collect()
}

/// Matches a pattern of the form `**/name` or `name`, with `*` in the name.
fn matches(pattern: &str, path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some(wanted) = pattern
        .strip_prefix("**/")
        .and_then(|rest| rest.strip_suffix("/**/*"))
    {
        return folder.split('/').any(|part| part == wanted);
    }
    let pieces: Vec<&str> = pattern.trim_start_matches("**/").split('*').collect();
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    match pieces.len() {
        1 => name == first,
        2 => {
            name.len() >= first.len() + last.len()
                && name.starts_with(first)
                && name.ends_with(last)
        }
        _ => name.contains(pieces[1]),
    }
}

fn grep(files: &[(String, String)], pattern: &str, path: &str, output: &str) -> String {
    let is_hit = |line: &str| match pattern {
        "^" => true,
        heading if heading.starts_with("^#") => line.starts_with('#'),
        test if test.contains("def test_") => {
            line.trim().starts_with("#[test]") || line.trim().starts_with("def test_")
        }
        _ => ["TODO", "FIXME", "HACK", "XXX"]
            .iter()
            .any(|mark| line.contains(mark)),
    };
    let mut lines = Vec::new();
    for (file, text) in files
        .iter()
        .filter(|(file, _)| path.is_empty() || file == path)
    {
        let hits: Vec<(usize, &str)> = text
            .lines()
            .enumerate()
            .filter(|(_, l)| is_hit(l))
            .collect();
        match output {
            "count" if hits.is_empty() => {}
            "count" => lines.push(format!("{file}:{}", hits.len())),
            _ => lines.extend(
                hits.iter()
                    .map(|(at, line)| format!("{file}:{}:{line}", at + 1)),
            ),
        }
    }
    if lines.is_empty() {
        return format!("Nothing matches {pattern}.");
    }
    lines.join("\n")
}

/// The outcome of one run.
pub(crate) struct Played {
    pub(crate) report: String,
    /// Turns, the last one included.
    pub(crate) turns: u32,
    /// Tool calls, as `tool arguments`.
    pub(crate) calls: Vec<String>,
}

/// Runs the offline model as a child over a folder until it reports.
pub(crate) fn child(root: &Path, task: &str, tools: &[&str]) -> Played {
    run(
        request("explore", "child", task, tools),
        |call, arguments| match play(root, &call.name, arguments) {
            Ok(text) => result(call, ResultStatus::Ok, text),
            Err(text) => result(call, ResultStatus::Error, text),
        },
    )
}

/// Runs the offline model until it reports; `answer` returns the results of its calls.
pub(crate) fn run(
    mut request: ModelRequest,
    mut answer: impl FnMut(&ToolCall, &Value) -> ToolResult,
) -> Played {
    let mut calls = Vec::new();
    for turns in 1..10 {
        let completion = decide(&request);
        assert_eq!(completion, decide(&request), "a pure function");
        if completion.stop == StopReason::EndTurn {
            let report = final_text(&completion);
            return Played {
                report,
                turns,
                calls,
            };
        }
        let made = answered(&mut request, &completion);
        let given = made.iter().map(|call| {
            let Arguments::Json(arguments) = &call.arguments else {
                panic!("{call:?}");
            };
            calls.push(format!("{} {arguments}", call.name));
            answer(call, arguments)
        });
        let given = given.collect();
        results(&mut request, given);
    }
    panic!("it never reported: {calls:#?}");
}

fn final_text(answer: &ModelAnswer) -> String {
    shown(answer).trim_start_matches("say ").to_owned()
}
