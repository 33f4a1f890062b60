use std::collections::BTreeSet;
use std::path::Path;

use sortie_core::message::{Arguments, ResultStatus};
use sortie_core::ports::model::{Model as _, NoDeltas};
use sortie_models::{OfflineModel, decide};

use crate::player::{Played, child, files, run};
use crate::support::{request, result, results, shown, with_notice};

const TOOLS: [&str; 4] = ["read_file", "list_dir", "glob", "grep"];
const LEAD_TOOLS: [&str; 5] = ["read_file", "list_dir", "glob", "grep", "task"];

const KITE: [(&str, &str); 9] = [
    (
        "Cargo.toml",
        "[package]\nname = \"kite\"\ndescription = \"A small flyer\"\n",
    ),
    (
        "Cargo.lock",
        "# lock\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n",
    ),
    (
        "README.md",
        "# Kite\n\nKite flies in any wind.\n\n## Use\n\nRun it.\n\n## Licence\n",
    ),
    ("LICENSE", "Apache\n"),
    ("docs/design.md", "# Design\n\nOne string.\n"),
    (
        "src/main.rs",
        "//! Flies a kite.\n\nfn main() {\n    // TODO: wind\n    // FIXME: rain\n}\n",
    ),
    ("src/wind/mod.rs", "// TODO: gusts\npub fn wind() {}\n"),
    ("src/wind/latest.rs", "pub fn latest() {}\n"),
    (
        "tests/wind_test.rs",
        "#[test]\nfn calm() {}\n#[test]\nfn storm() {}\n",
    ),
];

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Runs the whole demo: the main agent and its three children.
fn demo(root: &Path, prompt: &str) -> Played {
    run(
        request("main", "demo", prompt, &LEAD_TOOLS),
        |call, arguments| {
            assert_eq!(call.name, "task");
            assert_eq!(arguments["subagent_type"], "explore");
            let task = arguments["prompt"].as_str().unwrap();
            let report = child(root, task, &TOOLS).report;
            let closing = "[agent explore, id 1, 6 tool calls, 0.1 s, tokens unknown; pass resume=\"1\" to continue it]";
            result(call, ResultStatus::Ok, format!("{report}\n\n{closing}"))
        },
    )
}

#[test]
fn the_main_agent_sends_three_out_and_combines() {
    let folder = folder(&KITE);
    let played = demo(folder.path(), "Survey this repository.");
    assert_eq!((played.turns, played.calls.len()), (2, 3));
    insta::assert_snapshot!(played.report, @r#"
    # Survey of this folder

    - **Layout**: 9 files, 4 folders, 44 lines, mostly Rust (4 files)
    - **Documentation**: `README.md` with 3 headings, 2 documents in all
    - **Hot spots**: 3 lines with TODO, FIXME, HACK or XXX in 2 files, 2 tests, 1 test file

    _Written by Sortie's offline model: rules over tool results, not understanding._

    ## Layout

    ### Top level

    - `Cargo.lock`, `Cargo.toml`, `LICENSE`, `README.md`, `docs/`, `src/`, `tests/`

    ### Languages by files

    - Rust: 4 files
    - Markdown: 2 files
    - .lock: 1 file
    - TOML: 1 file
    - without an ending: 1 file

    ### Biggest modules (lock files left out)

    - `.`: 13 lines
    - `src`: 6 lines
    - `tests`: 4 lines
    - `docs`: 3 lines
    - `src/wind`: 3 lines

    ### Biggest files (lock files left out)

    - `README.md`: 9 lines
    - `src/main.rs`: 6 lines
    - `tests/wind_test.rs`: 4 lines
    - `Cargo.toml`: 3 lines
    - `docs/design.md`: 3 lines
    - `src/wind/mod.rs`: 2 lines
    - `LICENSE`: 1 line
    - `src/wind/latest.rs`: 1 line

    ### Entry points

    - `src/main.rs`: “Flies a kite.”

    ### Manifests

    - `Cargo.toml`: kite: A small flyer

    ## Documentation

    ### What it says it is

    - “Kite flies in any wind.”

    ### Outline of the README

    - Kite
    - › Use
    - › Licence

    ### Other documents

    - `docs/design.md` “Design”: 1 heading

    ### Licence files

    - `LICENSE`

    ## Hot spots

    ### Marked lines by file

    - `src/main.rs`: 2 lines
    - `src/wind/mod.rs`: 1 line

    ### Some of them

    - TODO `src/main.rs:4` // TODO: wind
    - FIXME `src/main.rs:5` // FIXME: rain
    - TODO `src/wind/mod.rs:1` // TODO: gusts

    ### Tests by file

    - `tests/wind_test.rs`: 2 tests

    ### Test files, by name or folder

    - `tests/wind_test.rs`

    ## What could not be found out

    - Everything that was looked for was found; what was not looked for is not in this report.
    "#);
}

#[test]
fn fixed_texts_follow_the_language_of_the_task() {
    let folder = folder(&KITE);
    let played = demo(folder.path(), "探索这个项目，给出概览");
    insta::assert_snapshot!(played.report, @r#"
    # 文件夹调查报告

    - **布局**: 9 个文件，4 个文件夹，44 行，以 Rust 为主（4 个文件）
    - **文档**: `README.md` 有 3 个标题，共 2 份文档
    - **热点**: 2 个文件中的 3 行含 TODO、FIXME、HACK 或 XXX，2 个测试，1 个测试文件

    _由 Sortie 的离线模型生成：只是对工具结果套用规则，并不理解内容。_

    ## 布局

    ### 顶层

    - `Cargo.lock`, `Cargo.toml`, `LICENSE`, `README.md`, `docs/`, `src/`, `tests/`

    ### 各语言文件数

    - Rust: 4 个文件
    - Markdown: 2 个文件
    - .lock: 1 个文件
    - TOML: 1 个文件
    - 无扩展名: 1 个文件

    ### 最大的模块（不含锁文件）

    - `.`: 13 行
    - `src`: 6 行
    - `tests`: 4 行
    - `docs`: 3 行
    - `src/wind`: 3 行

    ### 最大的文件（不含锁文件）

    - `README.md`: 9 行
    - `src/main.rs`: 6 行
    - `tests/wind_test.rs`: 4 行
    - `Cargo.toml`: 3 行
    - `docs/design.md`: 3 行
    - `src/wind/mod.rs`: 2 行
    - `LICENSE`: 1 行
    - `src/wind/latest.rs`: 1 行

    ### 入口文件

    - `src/main.rs`: “Flies a kite.”

    ### 清单文件

    - `Cargo.toml`: kite: A small flyer

    ## 文档

    ### 项目自述

    - “Kite flies in any wind.”

    ### README 大纲

    - Kite
    - › Use
    - › Licence

    ### 其他文档

    - `docs/design.md` “Design”: 1 个标题

    ### 许可证文件

    - `LICENSE`

    ## 热点

    ### 各文件带标记的行数

    - `src/main.rs`: 2 行
    - `src/wind/mod.rs`: 1 行

    ### 部分内容

    - TODO `src/main.rs:4` // TODO: wind
    - FIXME `src/main.rs:5` // FIXME: rain
    - TODO `src/wind/mod.rs:1` // TODO: gusts

    ### 各文件测试数

    - `tests/wind_test.rs`: 2 个测试

    ### 测试文件（按名称或文件夹）

    - `tests/wind_test.rs`

    ## 未能查明的内容

    - 要查的都查到了；没有查的不在本报告中。
    "#);
}

#[test]
fn another_folder_gives_another_report() {
    let python = folder(&[
        ("setup.py", "setup(\n    name='heron',\n)\n"),
        ("heron/__main__.py", "\"\"\"Runs heron.\"\"\"\n"),
        ("heron/test_fish.py", "def test_one(): pass  # XXX slow\n"),
    ]);
    let report = demo(python.path(), "give me an overview").report;
    for expected in [
        "3 files, 1 folder, 5 lines, mostly Python (3 files)",
        "no README, 0 documents in all",
        "1 line with TODO, FIXME, HACK or XXX in 1 file, 1 test, 1 test file",
        "`heron/__main__.py`: “Runs heron.”",
        "`setup.py`: heron",
        "XXX `heron/test_fish.py:1`",
        "- Documentation: there is no README",
    ] {
        assert!(report.contains(expected), "{expected} in:\n{report}");
    }
    assert!(!report.contains("kite"));
}

#[test]
fn every_path_in_a_report_is_in_the_folder() {
    let folder = folder(&KITE);
    let report = demo(folder.path(), "survey").report;
    let known: BTreeSet<String> = files(folder.path())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    let named = report.split('`').skip(1).step_by(2);
    let mut count = 0;
    for name in named {
        let path = name
            .rsplit_once(':')
            .map_or(name, |(path, _)| path)
            .trim_end_matches('/');
        let is_folder = known
            .iter()
            .any(|file| file.starts_with(&format!("{path}/")));
        assert!(
            path == "." || known.contains(path) || is_folder,
            "{name} in:\n{report}"
        );
        count += 1;
    }
    assert!(count > 20, "{count} names");
}

#[test]
fn each_child_works_in_several_turns() {
    let folder = folder(&KITE);
    for (task, turns, calls) in [
        ("survey the layout and the languages", 4, 7),
        ("read the documentation", 4, 6),
        ("count TODO lines", 3, 6),
    ] {
        let played = child(folder.path(), task, &TOOLS);
        assert_eq!(
            (played.turns, played.calls.len()),
            (turns, calls),
            "{task}: {:#?}",
            played.calls
        );
    }
}

#[test]
fn a_long_list_is_counted_by_ending() {
    let many: Vec<(String, &str)> = (0..260)
        .map(|n| {
            (
                if n % 2 == 0 {
                    format!("a/{n}.rs")
                } else {
                    format!("b/{n}.py")
                },
                "x\n",
            )
        })
        .collect();
    let many: Vec<(&str, &str)> = many
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    let folder = folder(&many);
    let report = child(folder.path(), "layout", &TOOLS).report;
    for expected in [
        "260 files, at least 2 folders, 260 lines",
        "- Python: 130 files",
        "- Rust: 130 files",
        "glob `**/*` gave only a part",
    ] {
        assert!(report.contains(expected), "{expected} in:\n{report}");
    }
}

#[test]
fn an_empty_folder_is_reported_as_empty() {
    let folder = folder(&[]);
    let report = demo(folder.path(), "survey").report;
    for expected in [
        "- **Layout**: 0 files, 0 folders, lines not counted",
        "- Layout: no file was found",
        "- Documentation: there is no README",
        "0 lines with TODO, FIXME, HACK or XXX in 0 files, 0 tests, 0 test files",
    ] {
        assert!(report.contains(expected), "{expected} in:\n{report}");
    }
}

#[test]
fn failed_tools_are_reported_as_unknown() {
    let folder = folder(&KITE);
    let played = run(
        request("explore", "c", "count TODO lines and tests", &TOOLS),
        |call, arguments| match call.name.as_str() {
            "grep" => result(
                call,
                ResultStatus::Denied,
                "grep is not allowed here\nask the operator",
            ),
            tool => {
                let text = crate::player::play(folder.path(), tool, arguments).unwrap();
                result(call, ResultStatus::Ok, text)
            }
        },
    );
    for expected in [
        "**marked lines not counted, tests not counted, 1 test file**",
        "failed: grep is not allowed here",
        "- `tests/wind_test.rs`",
    ] {
        assert!(
            played.report.contains(expected),
            "{expected} in:\n{}",
            played.report
        );
    }
}

#[test]
fn a_tool_that_is_not_offered_is_not_called() {
    let folder = folder(&KITE);
    let played = child(folder.path(), "survey the layout", &["glob"]);
    assert!(
        played.calls.iter().all(|call| call.starts_with("glob ")),
        "{:?}",
        played.calls
    );
    for expected in [
        "9 files, 4 folders, lines not counted",
        "grep `^` was not called",
    ] {
        assert!(
            played.report.contains(expected),
            "{expected} in:\n{}",
            played.report
        );
    }
}

#[test]
fn a_child_that_fails_is_named_in_the_report() {
    let played = run(
        request("main", "demo", "survey", &LEAD_TOOLS),
        |call, arguments| {
            let label = arguments["description"].as_str().unwrap();
            if label.contains("TODO") {
                return result(
                    call,
                    ResultStatus::Error,
                    "The task failed: the model is gone",
                );
            }
            result(call, ResultStatus::Ok, "**fine**\n\n### Things\n\n- one")
        },
    );
    for expected in [
        "- **Layout**: fine",
        "- **Hot spots**: no result",
        "- Hot spots: the explorer did not finish: The task failed: the model is gone",
    ] {
        assert!(
            played.report.contains(expected),
            "{expected} in:\n{}",
            played.report
        );
    }
}

#[test]
fn the_last_call_without_tools_reports_partial_results() {
    let folder = folder(&KITE);
    let mut prompt = request("explore", "c", "survey the layout", &TOOLS);
    let answer = decide(&prompt);
    let calls = crate::support::answered(&mut prompt, &answer);
    let given = calls.iter().map(|call| {
        let Arguments::Json(arguments) = &call.arguments else {
            panic!()
        };
        let text = crate::player::play(folder.path(), &call.name, arguments).unwrap();
        result(call, ResultStatus::Ok, text)
    });
    let given = given.collect();
    results(&mut prompt, given);
    with_notice(&mut prompt, "The limit is reached: report what you have.");
    prompt.tools = crate::support::specs(&[]);
    let report = shown(&decide(&prompt));
    for expected in [
        "9 files, 4 folders, lines not counted",
        "grep `^` was not called",
        "- Rust: 4 files",
    ] {
        assert!(report.contains(expected), "{expected} in:\n{report}");
    }
}

#[test]
fn the_main_agent_without_tools_reports_too() {
    let prompt = request("main", "demo", "survey", &[]);
    let report = shown(&decide(&prompt));
    assert!(report.contains("0 files"), "{report}");
    assert!(report.contains("glob `**/*` was not called"), "{report}");
}

#[test]
fn unsupported_tasks_are_declined() {
    for (prompt, expected) in [
        ("Fix the login bug", "I have not done what you asked"),
        ("写一首诗", "您交代的事情我没有做"),
    ] {
        let answer = shown(&decide(&request("main", "l", prompt, &LEAD_TOOLS)));
        assert!(answer.contains(expected), "{answer}");
        assert!(answer.contains("sortie demo"), "{answer}");
    }
    let folder = folder(&KITE);
    let report = child(folder.path(), "fix the login bug", &TOOLS).report;
    assert!(
        report.contains("The task itself: the offline model can only survey a folder"),
        "{report}"
    );
}

#[test]
fn an_instruction_that_comes_later_starts_again() {
    let folder = folder(&KITE);
    let mut prompt = request("main", "demo", "survey", &LEAD_TOOLS);
    let answer = decide(&prompt);
    let calls = crate::support::answered(&mut prompt, &answer);
    let given = calls
        .iter()
        .map(|call| result(call, ResultStatus::Ok, "**fine**"))
        .collect();
    results(&mut prompt, given);
    let report = decide(&prompt);
    crate::support::answered(&mut prompt, &report);
    prompt
        .messages
        .push(std::sync::Arc::new(sortie_core::message::Message::User {
            text: "survey it again".to_owned(),
        }));
    assert_eq!(decide(&prompt), answer);
    drop(folder);
}

#[test]
fn an_explorer_without_a_parent_surveys() {
    let mut prompt = request("explore", "c", "count TODO lines", &TOOLS);
    prompt.origin.depth = 0;
    let answer = shown(&decide(&prompt));
    assert!(answer.contains("call grep"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn the_pace_lets_a_person_watch() {
    let pace = std::time::Duration::from_millis(300);
    let before = tokio::time::Instant::now();
    for (model, expected) in [
        (OfflineModel::default(), std::time::Duration::ZERO),
        (OfflineModel::with_pace(pace), pace),
    ] {
        let prompt = request("main", "demo", "survey", &LEAD_TOOLS);
        let answer = model.turn(prompt.clone(), &NoDeltas).await.unwrap();
        assert_eq!(answer, decide(&prompt));
        assert_eq!(before.elapsed(), expected);
    }
}
