//! The fixed texts of the offline model, in English and Chinese.

use sortie_core::words::Lang;

use super::survey::Survey;

/// The size of a folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub files: u64,
    /// Folders that contain files.
    pub folders: usize,
    /// Lines, if they were counted.
    pub lines: Option<u64>,
    /// Whether there may be more files.
    pub files_at_least: bool,
    /// Whether there may be more folders.
    pub folders_at_least: bool,
    /// Whether there may be more lines.
    pub lines_at_least: bool,
}

/// A count, which may be partial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub number: u64,
    /// Whether the true number may be higher.
    pub is_lower_bound: bool,
}

/// The number of marks and tests; `None` was not counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub marked: Option<Counted>,
    /// The number of files with marked lines.
    pub marked_files: usize,
    pub tests: Option<Counted>,
    pub test_files: Option<Counted>,
}

const SIGNATURE_EN: &str =
    "_Written by Sortie's offline model: rules over tool results, not understanding._";
const SIGNATURE_ZH: &str = "_由 Sortie 的离线模型生成：只是对工具结果套用规则，并不理解内容。_";
const UNKNOWN_EN: &str = "What could not be found out";
const UNKNOWN_ZH: &str = "未能查明的内容";

fn pick(lang: Lang, en: &str, zh: &str) -> String {
    match lang {
        Lang::En => en.to_owned(),
        Lang::Zh => zh.to_owned(),
    }
}

pub(super) fn about_itself(lang: Lang) -> String {
    pick(
        lang,
        "I am Sortie's built-in offline model: a few rules, no network and no understanding. I have \
         not done what you asked, and I cannot.\n\n\
         What I can do is survey a folder with real tools and real subagents: run `sortie demo`, or \
         ask me for a survey or an overview of this project.\n\n\
         For anything else choose a model: set the key of a vendor, for example ANTHROPIC_API_KEY, or start \
         a local server such as Ollama. `sortie models list` shows what there is.",
        "我是 Sortie 内置的离线模型：只有几条规则，不联网，也不理解内容。您交代的事情我没有做，也做不了。\n\n\
         我能做的是用真实的工具和子 Agent 调查一个文件夹：运行 `sortie demo`，或者让我给出这个项目的概览。\n\n\
         其他事情请选用真正的模型：设置服务商的密钥（例如 ANTHROPIC_API_KEY），或启动 Ollama 等本地服务器。\
         `sortie models list` 会列出可用的模型。",
    )
}

pub(super) fn signature(lang: Lang) -> String {
    pick(lang, SIGNATURE_EN, SIGNATURE_ZH)
}

/// Returns whether a line is the signature of a report.
pub(super) fn is_signature(line: &str) -> bool {
    [SIGNATURE_EN, SIGNATURE_ZH].contains(&line.trim())
}

pub(super) fn only_surveys(lang: Lang) -> String {
    pick(
        lang,
        "The task itself: the offline model can only survey a folder, so it surveyed the layout.",
        "任务本身：离线模型只会调查文件夹，因此只调查了布局。",
    )
}

// The main agent.

pub(super) fn sending_out(lang: Lang) -> String {
    pick(
        lang,
        "I send three explorers out: layout, documentation, hot spots.",
        "我派出三个探索子 Agent：布局、文档、热点。",
    )
}

pub(super) fn order_label(survey: Survey, lang: Lang) -> String {
    match survey {
        Survey::Layout => pick(lang, "survey languages and layout", "调查语言与布局"),
        Survey::Docs => pick(lang, "read the documentation", "阅读项目文档"),
        Survey::HotSpots => pick(lang, "count TODOs and tests", "统计待办与测试"),
    }
}

pub(super) fn order_prompt(survey: Survey, lang: Lang) -> String {
    match survey {
        Survey::Layout => pick(
            lang,
            "Survey the layout of this folder: count the files by language, find the biggest modules \
             by lines, and name the entry points and the manifests. Report only paths and numbers \
             that the tools gave you, and say what you could not find out.",
            "调查这个文件夹的布局：按语言统计文件数，按行数找出最大的模块，列出入口文件和清单文件。\
             只报告工具给出的路径和数字，并说明哪些没有查明。",
        ),
        Survey::Docs => pick(
            lang,
            "Survey the documentation of this folder: find the README, outline its headings, quote \
             what the project says it is, and list the other documents. Report only what the tools \
             gave you, and say what you could not find out.",
            "调查这个文件夹的文档：找到 README，列出其标题大纲，引用项目对自己的说明，并列出其他文档。\
             只报告工具给出的内容，并说明哪些没有查明。",
        ),
        Survey::HotSpots => pick(
            lang,
            "Survey the hot spots of this folder: count the lines with TODO, FIXME, XXX or HACK by \
             file, quote some of them, and count tests and test files. Report only what the tools \
             gave you, and say what you could not find out.",
            "调查这个文件夹的热点：按文件统计含 TODO、FIXME、XXX 或 HACK 的行数，引用其中几行，\
             并统计测试和测试文件。只报告工具给出的内容，并说明哪些没有查明。",
        ),
    }
}

pub(super) fn report_title(lang: Lang) -> String {
    pick(lang, "Survey of this folder", "文件夹调查报告")
}

pub(super) fn survey_title(survey: Survey, lang: Lang) -> String {
    match survey {
        Survey::Layout => pick(lang, "Layout", "布局"),
        Survey::Docs => pick(lang, "Documentation", "文档"),
        Survey::HotSpots => pick(lang, "Hot spots", "热点"),
    }
}

pub(super) fn unknown_title(lang: Lang) -> String {
    pick(lang, UNKNOWN_EN, UNKNOWN_ZH)
}

/// Returns whether a heading is the one above the list of unknowns.
pub(super) fn is_unknown_title(title: &str) -> bool {
    [UNKNOWN_EN, UNKNOWN_ZH].contains(&title.trim())
}

pub(super) fn nothing_unknown(lang: Lang) -> String {
    pick(
        lang,
        "Everything that was looked for was found; what was not looked for is not in this report.",
        "要查的都查到了；没有查的不在本报告中。",
    )
}

pub(super) fn no_numbers(lang: Lang) -> String {
    pick(lang, "no result", "没有结果")
}

pub(super) fn no_details(lang: Lang) -> String {
    pick(lang, "No details.", "没有详细内容。")
}

pub(super) fn child_failed(why: &str, lang: Lang) -> String {
    match lang {
        Lang::En => format!("the explorer did not finish: {why}"),
        Lang::Zh => format!("子 Agent 没有完成：{why}"),
    }
}

pub(super) fn child_absent(lang: Lang) -> String {
    pick(lang, "no explorer was sent out", "没有派出子 Agent")
}

// Progress messages of a surveyor.

pub(super) fn looking(survey: Survey, stage: usize, lang: Lang) -> String {
    match (survey, stage) {
        (Survey::Layout, 0) => pick(lang, "I list all files first.", "先列出所有文件。"),
        (Survey::Layout, 1) => pick(
            lang,
            "Now lines, manifests and entry points.",
            "再统计行数，查找清单文件和入口文件。",
        ),
        (Survey::Layout, _) => pick(
            lang,
            "I read the manifests and entry points nearest to the root.",
            "阅读最靠近根目录的清单文件和入口文件。",
        ),
        (Survey::Docs, 0) => pick(lang, "I look for documents.", "查找文档。"),
        (Survey::Docs, 1) => pick(
            lang,
            "I read the README and count headings.",
            "阅读 README 并统计标题。",
        ),
        (Survey::Docs, _) => pick(lang, "I look into other documents.", "查看其他文档。"),
        (Survey::HotSpots, 0) => pick(
            lang,
            "I count marked lines and tests.",
            "统计带标记的行和测试。",
        ),
        (Survey::HotSpots, _) => pick(
            lang,
            "I look into the files with most marks.",
            "查看标记最多的文件。",
        ),
    }
}

// Headlines and numbers.

pub(super) fn layout_headline(size: Size, most: Option<&(String, u64)>, lang: Lang) -> String {
    let folders = match lang {
        Lang::En => plural(size.folders as u64, "folder", "folders"),
        Lang::Zh => format!("{} 个文件夹", size.folders),
    };
    let counted = size.lines.map_or_else(
        || pick(lang, "lines not counted", "未统计行数"),
        |count| at_least(lines(count, lang), size.lines_at_least, lang),
    );
    let mut parts = vec![
        at_least(files(size.files, lang), size.files_at_least, lang),
        at_least(folders, size.folders_at_least, lang),
        counted,
    ];
    if let Some((language, count)) = most {
        parts.push(match lang {
            Lang::En => format!("mostly {language} ({})", files(*count, lang)),
            Lang::Zh => format!("以 {language} 为主（{}）", files(*count, lang)),
        });
    }
    parts.join(comma(lang))
}

pub(super) fn docs_headline(
    readme: Option<&str>,
    headings_found: usize,
    documents: u64,
    lang: Lang,
) -> String {
    let readme = match (readme, lang) {
        (Some(path), Lang::En) => {
            format!("`{path}` with {}", headings(headings_found as u64, lang))
        }
        (Some(path), Lang::Zh) => format!("`{path}` 有 {}", headings(headings_found as u64, lang)),
        (None, Lang::En) => "no README".to_owned(),
        (None, Lang::Zh) => "没有 README".to_owned(),
    };
    let documents = match lang {
        Lang::En => plural(documents, "document in all", "documents in all"),
        Lang::Zh => format!("共 {documents} 份文档"),
    };
    [readme, documents].join(comma(lang))
}

pub(super) fn hot_spots_headline(marks: Marks, lang: Lang) -> String {
    let in_files = marks.marked_files as u64;
    let marked = |count| match lang {
        Lang::En => format!(
            "{} with TODO, FIXME, HACK or XXX in {}",
            lines(count, lang),
            files(in_files, lang)
        ),
        Lang::Zh => format!("{in_files} 个文件中的 {count} 行含 TODO、FIXME、HACK 或 XXX"),
    };
    let test_files = |count| match lang {
        Lang::En => plural(count, "test file", "test files"),
        Lang::Zh => format!("{count} 个测试文件"),
    };
    let said = |counted: Option<Counted>, say: &dyn Fn(u64) -> String, what: String| match counted {
        Some(counted) => at_least(say(counted.number), counted.is_lower_bound, lang),
        None => match lang {
            Lang::En => format!("{what} not counted"),
            Lang::Zh => format!("未统计{what}"),
        },
    };
    [
        said(
            marks.marked,
            &marked,
            pick(lang, "marked lines", "带标记的行"),
        ),
        said(
            marks.tests,
            &|count| tests(count, lang),
            pick(lang, "tests", "测试"),
        ),
        said(
            marks.test_files,
            &test_files,
            pick(lang, "test files", "测试文件"),
        ),
    ]
    .join(comma(lang))
}

pub(super) fn files(count: u64, lang: Lang) -> String {
    match lang {
        Lang::En => plural(count, "file", "files"),
        Lang::Zh => format!("{count} 个文件"),
    }
}

pub(super) fn lines(count: u64, lang: Lang) -> String {
    match lang {
        Lang::En => plural(count, "line", "lines"),
        Lang::Zh => format!("{count} 行"),
    }
}

pub(super) fn headings(count: u64, lang: Lang) -> String {
    match lang {
        Lang::En => plural(count, "heading", "headings"),
        Lang::Zh => format!("{count} 个标题"),
    }
}

pub(super) fn tests(count: u64, lang: Lang) -> String {
    match lang {
        Lang::En => plural(count, "test", "tests"),
        Lang::Zh => format!("{count} 个测试"),
    }
}

/// Returns a last line for the omitted items of a list, if there are any.
pub(super) fn and_more(count: u64, lang: Lang) -> Option<String> {
    (count > 0).then(|| match lang {
        Lang::En => format!("and {count} more"),
        Lang::Zh => format!("另有 {count} 项"),
    })
}

fn at_least(number: String, is_lower_bound: bool, lang: Lang) -> String {
    match (is_lower_bound, lang) {
        (false, _) => number,
        (true, Lang::En) => format!("at least {number}"),
        (true, Lang::Zh) => format!("至少 {number}"),
    }
}

const fn comma(lang: Lang) -> &'static str {
    match lang {
        Lang::En => ", ",
        Lang::Zh => "，",
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

// Titles of lists.

pub(super) fn top_level_title(lang: Lang) -> String {
    pick(lang, "Top level", "顶层")
}

pub(super) fn languages_title(lang: Lang) -> String {
    pick(lang, "Languages by files", "各语言文件数")
}

pub(super) fn no_ending(lang: Lang) -> String {
    pick(lang, "without an ending", "无扩展名")
}

pub(super) fn modules_title(lang: Lang) -> String {
    pick(
        lang,
        "Biggest modules (lock files left out)",
        "最大的模块（不含锁文件）",
    )
}

pub(super) fn biggest_title(lang: Lang) -> String {
    pick(
        lang,
        "Biggest files (lock files left out)",
        "最大的文件（不含锁文件）",
    )
}

pub(super) fn entry_points_title(lang: Lang) -> String {
    pick(lang, "Entry points", "入口文件")
}

pub(super) fn manifests_title(lang: Lang) -> String {
    pick(lang, "Manifests", "清单文件")
}

pub(super) fn about_title(lang: Lang) -> String {
    pick(lang, "What it says it is", "项目自述")
}

pub(super) fn outline_title(lang: Lang) -> String {
    pick(lang, "Outline of the README", "README 大纲")
}

pub(super) fn documents_title(lang: Lang) -> String {
    pick(lang, "Other documents", "其他文档")
}

pub(super) fn licence_title(lang: Lang) -> String {
    pick(lang, "Licence files", "许可证文件")
}

pub(super) fn marked_title(lang: Lang) -> String {
    pick(lang, "Marked lines by file", "各文件带标记的行数")
}

pub(super) fn quoted_title(lang: Lang) -> String {
    pick(lang, "Some of them", "部分内容")
}

pub(super) fn tests_title(lang: Lang) -> String {
    pick(lang, "Tests by file", "各文件测试数")
}

pub(super) fn test_files_title(lang: Lang) -> String {
    pick(
        lang,
        "Test files, by name or folder",
        "测试文件（按名称或文件夹）",
    )
}

// Unknowns.

pub(super) fn tool_failed(what: &str, why: &str, lang: Lang) -> String {
    match lang {
        Lang::En => format!("{what} failed: {why}"),
        Lang::Zh => format!("{what} 失败：{why}"),
    }
}

pub(super) fn not_asked(what: &str, lang: Lang) -> String {
    match lang {
        Lang::En => format!("{what} was not called"),
        Lang::Zh => format!("未调用 {what}"),
    }
}

pub(super) fn was_cut(what: &str, lang: Lang) -> String {
    match lang {
        Lang::En => format!("{what} gave only a part; lists drawn from it are not complete"),
        Lang::Zh => format!("{what} 只给出了一部分，据此得到的列表不完整"),
    }
}

pub(super) fn no_files(lang: Lang) -> String {
    pick(lang, "no file was found", "没有找到文件")
}

pub(super) fn no_entry_point(lang: Lang) -> String {
    pick(
        lang,
        "no file has the usual name of an entry point",
        "没有常见名称的入口文件",
    )
}

pub(super) fn no_readme(lang: Lang) -> String {
    pick(lang, "there is no README", "没有 README")
}

pub(super) fn no_paragraph(lang: Lang) -> String {
    pick(
        lang,
        "the README has no paragraph that says what the project is",
        "README 中没有说明项目是什么的段落",
    )
}

pub(super) fn no_licence(lang: Lang) -> String {
    pick(
        lang,
        "there is no licence file at the top level",
        "顶层没有许可证文件",
    )
}
