//! Surveys the documentation of a project.

use sortie_base::truncate::truncate;
use sortie_core::words::Lang;

use super::{
    LISTED, Reader, Report, count, depth, file_name, found_paths, glob, more_than,
    more_than_listed, nearest_first, read,
};
use crate::offline::evidence::{Answer, Evidence};
use crate::offline::reading::file_lines;
use crate::offline::{Call, words};

/// The number of documents besides the README that are read.
const READ_OTHERS: usize = 2;
/// The number of headings of the README that are shown.
const OUTLINED: usize = 24;
/// The maximum length of the quoted first paragraph.
const QUOTED_CHARS: usize = 400;

const READMES: &str = "**/{README,readme,Readme}*";
const DOCUMENTS: &str = "**/*.{md,rst,adoc}";
const LICENCES: &str = "{LICENSE,LICENCE,COPYING}*";

/// Matches a heading in Markdown.
const HEADING: &str = "^#{1,6} ";

pub(super) fn stage(number: usize, evidence: &Evidence<'_>) -> Vec<Call> {
    let root = readme(found_paths(evidence, &glob(READMES)));
    let others = others(found_paths(evidence, &glob(DOCUMENTS)), root.as_deref());
    match number {
        0 => vec![glob(READMES), glob(DOCUMENTS), glob(LICENCES)],
        1 => root
            .iter()
            .map(|path| read(path))
            .chain([count(HEADING)])
            .collect(),
        _ => others
            .iter()
            .take(READ_OTHERS)
            .map(|path| read(path))
            .collect(),
    }
}

pub(super) fn report(evidence: &Evidence<'_>, lang: Lang) -> Report {
    let mut reader = Reader::new(evidence, lang);
    let readme = readme(reader.paths(&glob(READMES)).items);
    let found = reader.paths(&glob(DOCUMENTS));
    let total = found.total();
    let headings = reader.counts(&count(HEADING)).items;
    let mut licences = reader.paths(&glob(LICENCES)).items;
    licences.retain(|path| depth(path) == 0);
    let text = readme.as_ref().and_then(|path| reader.file(path));
    let outline = text.map(outline).unwrap_or_default();
    let about = text.and_then(first_paragraph);
    let headline = words::docs_headline(readme.as_deref(), outline.len(), total, lang);
    if readme.is_none() {
        reader.unknown.push(words::no_readme(lang));
    } else if text.is_some() && about.is_none() {
        reader.unknown.push(words::no_paragraph(lang));
    }
    if licences.is_empty() {
        reader.unknown.push(words::no_licence(lang));
    }
    let others = others(found.items, readme.as_deref());
    let sections = vec![
        (words::about_title(lang), about.into_iter().collect()),
        (words::outline_title(lang), shown_outline(&outline, lang)),
        (
            words::documents_title(lang),
            listed(&others, &headings, evidence, lang),
        ),
        (
            words::licence_title(lang),
            licences.iter().map(|path| format!("`{path}`")).collect(),
        ),
    ];
    Report {
        headline,
        sections,
        unknown: reader.into_unknown(),
    }
}

/// Returns the README nearest to the root.
fn readme(paths: Vec<String>) -> Option<String> {
    let is_readme = |path: &String| file_name(path).to_lowercase().starts_with("readme");
    let mut readmes: Vec<String> = nearest_first(paths).into_iter().filter(is_readme).collect();
    let top = readmes.first().map(|path| depth(path))?;
    readmes.retain(|path| depth(path) == top);
    let markdown = readmes
        .iter()
        .position(|path| path.eq_ignore_ascii_case("readme.md"));
    Some(readmes.swap_remove(markdown.unwrap_or(0)))
}

fn others(documents: Vec<String>, readme: Option<&str>) -> Vec<String> {
    let mut documents = nearest_first(documents);
    documents.retain(|path| Some(path.as_str()) != readme);
    documents
}

/// Returns the headings of a document with their levels; code blocks are ignored.
fn outline(text: &str) -> Vec<(usize, String)> {
    let mut headings = Vec::new();
    let mut is_code = false;
    for line in file_lines(text) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let level = line.chars().take_while(|c| *c == '#').count();
        let title = line.trim_start_matches('#');
        if !is_code && (1..=6).contains(&level) && title.starts_with(' ') {
            headings.push((level, title.trim().to_owned()));
        }
    }
    headings
}

fn shown_outline(outline: &[(usize, String)], lang: Lang) -> Vec<String> {
    let shown = outline.iter().take(OUTLINED);
    let mut lines: Vec<String> = shown
        .map(|(level, title)| format!("{}{title}", "› ".repeat(level - 1)))
        .collect();
    lines.extend(words::and_more(more_than(OUTLINED, outline.len()), lang));
    lines
}

/// Returns the first paragraph that is prose: no heading, image, badge, table, list or code.
fn first_paragraph(text: &str) -> Option<String> {
    let mut paragraph: Vec<&str> = Vec::new();
    let mut is_code = false;
    for line in file_lines(text) {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_prose = !is_code
            && !line.is_empty()
            && !line.starts_with(['#', '!', '<', '|', '`', '='])
            && !line.starts_with("[!")
            && !line.starts_with("- ")
            && !line.starts_with("* ");
        if is_prose {
            paragraph.push(line);
        } else if !paragraph.is_empty() {
            break;
        }
    }
    let whole = paragraph.join(" ");
    (!whole.is_empty()).then(|| format!("“{}”", truncate(&whole, QUOTED_CHARS)))
}

/// Lists documents with their number of headings, and their title if they were read.
fn listed(
    others: &[String],
    headings: &[(String, u64)],
    evidence: &Evidence<'_>,
    lang: Lang,
) -> Vec<String> {
    let title = |path: &str| match evidence.answer(&read(path)) {
        Answer::Text { text, .. } => outline(text).into_iter().next(),
        Answer::Failed(_) | Answer::Absent => None,
    };
    let mut lines: Vec<String> = others
        .iter()
        .take(LISTED)
        .map(|path| {
            let title = title(path).map_or_else(String::new, |(_, title)| format!(" “{title}”"));
            match headings.iter().find(|(file, _)| file == path) {
                Some((_, count)) => format!("`{path}`{title}: {}", words::headings(*count, lang)),
                None => format!("`{path}`{title}"),
            }
        })
        .collect();
    lines.extend(words::and_more(more_than_listed(others.len()), lang));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Kite\n\n[![badge](x)](y)\n\nKite flies in\nany wind.\n\n## Use\n\n```sh\n# not a heading\n```\n\n### More\n";

    #[test]
    fn the_outline_leaves_code_out() {
        let titles: Vec<_> = outline(README)
            .into_iter()
            .map(|(level, t)| format!("{level} {t}"))
            .collect();
        assert_eq!(titles, ["1 Kite", "2 Use", "3 More"]);
    }

    #[test]
    fn the_first_paragraph_is_prose() {
        assert_eq!(
            first_paragraph(README).as_deref(),
            Some("“Kite flies in any wind.”")
        );
        assert_eq!(first_paragraph("# Only a title\n"), None);
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
            let paths = paths.into_iter().map(str::to_owned).collect();
            assert_eq!(readme(paths).as_deref(), expected);
        }
    }
}
