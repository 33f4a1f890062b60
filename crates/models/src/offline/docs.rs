//! Surveys the documentation of a project.

use sortie_base::truncate::truncate;
use sortie_text::t;

use super::Step;
use super::look::Look;
use super::survey::{Report, depth, file_name, listed, listed_up_to, nearest_first};

/// The number of documents besides the README that are read.
const READ_OTHERS: usize = 2;
/// The number of headings of the README that are shown.
const OUTLINED: usize = 24;
/// The maximum length of the quoted first paragraph.
const QUOTED_CHARS: usize = 400;

/// Matches a heading in Markdown.
const HEADING: &str = "^#{1,6} ";

pub(super) fn make(look: &mut Look<'_>) -> Result<Report, Step> {
    let lang = look.lang;
    let readme = readme(look.paths("**/{README,readme,Readme}*").lines);
    let documents = look.paths("**/*.{md,rst,adoc}");
    let mut licences = look.paths("{LICENSE,LICENCE,COPYING}*").lines;
    licences.retain(|path| depth(path) == 0);
    look.turn("survey-docs-files")?;

    let text = readme.and_then(|path| look.file(path));
    let headings = look.counts(HEADING).counts();
    look.turn("survey-docs-readme")?;

    let total = documents.total();
    let mut others = nearest_first(documents.lines);
    others.retain(|path| Some(*path) != readme);
    let read = others.iter().take(READ_OTHERS);
    let titles: Vec<(&str, String)> = read
        .filter_map(|path| {
            let (_, title) = outline(&look.file(path)?).into_iter().next()?;
            Some((*path, format!(" “{title}”")))
        })
        .collect();
    look.turn("survey-docs-others")?;

    let outline = outline(text.as_deref().unwrap_or_default());
    let about = text.as_deref().and_then(first_paragraph);
    if readme.is_none() {
        look.unknown.push(t!(lang, "survey-no-readme"));
    } else if text.is_some() && about.is_none() {
        look.unknown.push(t!(lang, "survey-no-paragraph"));
    }
    if licences.is_empty() {
        look.unknown.push(t!(lang, "survey-no-licence"));
    }
    let number_of_headings = |count: u64| t!(lang, "survey-headings", count = count);
    let headline = vec![
        match readme {
            Some(path) => t!(
                lang,
                "survey-readme",
                path = path,
                headings = number_of_headings(outline.len() as u64)
            ),
            None => t!(lang, "survey-without-readme"),
        },
        t!(lang, "survey-documents-in-all", count = total),
    ];
    let document = |path: &&str| {
        let title = titles.iter().find(|(read, _)| read == path);
        let title = title.map_or("", |(_, title)| title.as_str());
        match headings.iter().find(|(file, _)| file == path) {
            Some((_, count)) => format!("`{path}`{title}: {}", number_of_headings(*count)),
            None => format!("`{path}`{title}"),
        }
    };
    let heading = |(level, title): &(usize, String)| {
        format!("{}{title}", "› ".repeat(level.saturating_sub(1)))
    };
    Ok(Report {
        headline,
        lists: vec![
            ("survey-about", about.into_iter().collect()),
            (
                "survey-outline",
                listed_up_to(OUTLINED, &outline, heading, lang),
            ),
            ("survey-documents", listed(&others, document, lang)),
            (
                "survey-licences",
                licences.iter().map(|path| format!("`{path}`")).collect(),
            ),
        ],
    })
}

/// Returns the README nearest to the root.
fn readme(paths: Vec<&str>) -> Option<&str> {
    let is_readme = |path: &&str| file_name(path).to_lowercase().starts_with("readme");
    let mut readmes = nearest_first(paths.into_iter().filter(is_readme));
    let top = readmes.first().map(|path| depth(path))?;
    readmes.retain(|path| depth(path) == top);
    let markdown = readmes
        .iter()
        .find(|path| path.eq_ignore_ascii_case("readme.md"));
    markdown.or(readmes.first()).copied()
}

/// Returns the lines that are not in a code block.
fn without_code<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut is_code = false;
    lines.iter().copied().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the headings of a document with their levels; code blocks are ignored.
fn outline(lines: &[&str]) -> Vec<(usize, String)> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        let is_heading = (1..=6).contains(&level) && title.starts_with(' ');
        is_heading.then(|| (level, title.trim().to_owned()))
    };
    without_code(lines).filter_map(heading).collect()
}

/// Returns the first paragraph that is prose: no heading, image, badge, table, list or code.
fn first_paragraph(lines: &[&str]) -> Option<String> {
    let is_prose = |line: &&str| {
        let marks = ["#", "!", "<", "|", "`", "=", "[!", "- ", "* "];
        !line.is_empty() && !marks.iter().any(|mark| line.starts_with(mark))
    };
    let paragraph: Vec<&str> = without_code(lines)
        .map(str::trim)
        .skip_while(|line| !is_prose(line))
        .take_while(is_prose)
        .collect();
    let whole = paragraph.join(" ");
    (!whole.is_empty()).then(|| format!("“{}”", truncate(&whole, QUOTED_CHARS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: [&str; 14] = [
        "# Kite",
        "",
        "[![badge](x)](y)",
        "",
        "Kite flies in",
        "any wind.",
        "",
        "## Use",
        "",
        "```sh",
        "# not a heading",
        "```",
        "",
        "### More",
    ];

    #[test]
    fn the_outline_leaves_code_out() {
        let titles = outline(&README).into_iter();
        let titles: Vec<_> = titles.map(|(level, t)| format!("{level} {t}")).collect();
        assert_eq!(titles, ["1 Kite", "2 Use", "3 More"]);
    }

    #[test]
    fn the_first_paragraph_is_prose() {
        let found = first_paragraph(&README);
        assert_eq!(found.as_deref(), Some("“Kite flies in any wind.”"));
        assert_eq!(first_paragraph(&["# Only a title"]), None);
    }

    #[test]
    fn the_readme_nearest_to_the_root_is_read() {
        for (paths, expected) in [
            (
                vec!["a/README.md", "README.txt", "README.md"],
                Some("README.md"),
            ),
            (vec!["a/README.md", "b/c/README.md"], Some("a/README.md")),
            (vec!["readme.rst"], Some("readme.rst")),
            (vec![], None),
        ] {
            assert_eq!(readme(paths), expected);
        }
    }
}
