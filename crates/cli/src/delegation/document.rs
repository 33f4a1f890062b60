//! A document of lines, tables and bars, written as text, as Markdown or as a page of its own.

use std::fmt::Write as _;

use console::Style;
use sortie_core::words::Lang;
use sortie_text::columns;

use crate::table;

/// The whole style of a page: it loads nothing.
const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c2024;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #e0e3e7;white-space:pre}\
th{font-weight:600;color:#60646c}\
.row{display:flex;gap:.5rem;align-items:center}.name{width:18rem;overflow:hidden;text-overflow:ellipsis;white-space:pre}\
.track{position:relative;flex:1;height:1rem;background:#f0f1f3;border-radius:3px}\
.bar{position:absolute;top:0;bottom:0;min-width:2px;background:#8da4ef;border-radius:3px}.bar.critical{background:#e5484d}\
.note{width:5rem;text-align:right;color:#60646c}\
@media (prefers-color-scheme:dark){body{color:#edeef0;background:#111113}th,.note{color:#b0b4ba}\
th,td{border-color:#363a3f}.track{background:#212225}}";

/// A document.
#[derive(Debug)]
pub(crate) struct Document {
    lang: Lang,
    title: String,
    pub(super) parts: Vec<Part>,
}

/// A part of a document.
#[derive(Debug)]
pub(super) enum Part {
    /// The title of a section.
    Section(String),
    Line(String),
    /// A line that stands out.
    Strong(String),
    Table {
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    /// Bars on one scale; only a page shows them.
    Bars(Vec<Bar>),
}

/// A bar, from 0 to 1.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) from: f64,
    pub(super) length: f64,
    pub(super) critical: bool,
    pub(super) note: String,
}

impl Default for Document {
    fn default() -> Self {
        Self::new(Lang::En, String::new())
    }
}

impl Document {
    pub(super) fn new(lang: Lang, title: String) -> Self {
        Self {
            lang,
            title,
            parts: Vec::new(),
        }
    }

    pub(super) fn line(&mut self, line: String) {
        self.parts.push(Part::Line(line));
    }

    pub(super) fn section(&mut self, title: String) {
        self.parts.push(Part::Section(title));
    }

    /// Returns the document for a terminal with this many columns, or for a file.
    pub(crate) fn text(&self, terminal: Option<u16>) -> String {
        let bold = Style::new().bold();
        let mut lines = vec![bold.apply_to(&self.title).to_string()];
        for part in &self.parts {
            match part {
                Part::Section(title) => {
                    lines.push(String::new());
                    lines.push(bold.apply_to(title).to_string());
                }
                Part::Line(line) => lines.extend(wrapped(line, terminal)),
                Part::Strong(line) => {
                    let wrapped = wrapped(line, terminal).into_iter();
                    lines.extend(wrapped.map(|line| bold.apply_to(line).to_string()));
                }
                Part::Table { head, rows } => lines.push(text_table(head, rows, terminal)),
                Part::Bars(_) => {}
            }
        }
        lines.join("\n")
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}\n", marked(&self.title));
        for part in &self.parts {
            text.push('\n');
            // Writing to a string cannot fail.
            match part {
                Part::Section(title) => writeln!(text, "## {}", marked(title)).ok(),
                Part::Line(line) => writeln!(text, "{}", marked(line)).ok(),
                Part::Strong(line) => writeln!(text, "**{}**", marked(line)).ok(),
                Part::Table { head, rows } => {
                    markdown_table(&mut text, head, rows);
                    Some(())
                }
                Part::Bars(_) => {
                    text.pop();
                    Some(())
                }
            };
        }
        text
    }

    /// Returns a page that needs no other file.
    pub(crate) fn html(&self) -> String {
        let lang = match self.lang {
            Lang::En => "en",
            Lang::Zh => "zh-CN",
        };
        let title = escaped(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"{lang}\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n"
        );
        for part in &self.parts {
            match part {
                Part::Section(title) => writeln!(page, "<h2>{}</h2>", escaped(title)).ok(),
                Part::Line(line) => writeln!(page, "<p>{}</p>", escaped(line)).ok(),
                Part::Strong(line) => {
                    writeln!(page, "<p><strong>{}</strong></p>", escaped(line)).ok()
                }
                Part::Table { head, rows } => {
                    html_table(&mut page, head, rows);
                    Some(())
                }
                Part::Bars(bars) => {
                    bars.iter().for_each(|bar| html_bar(&mut page, bar));
                    Some(())
                }
            };
        }
        page.push_str("</html>\n");
        page
    }
}

/// Returns a table. If the terminal is too narrow for its columns, each row becomes a block of
/// lines.
fn text_table(head: &[String], rows: &[Vec<String>], terminal: Option<u16>) -> String {
    let whole = table::rows(head.to_vec(), rows.to_vec(), None);
    let Some(width) = terminal.map(usize::from) else {
        return whole;
    };
    let widest = whole
        .lines()
        .map(|line| columns(&console::strip_ansi_codes(line)))
        .max();
    if widest.unwrap_or(0) <= width {
        return whole;
    }
    let blocks: Vec<String> = rows
        .iter()
        .map(|row| {
            // The first two cells name the row; the others follow with their headings.
            let (name, facts) = row.split_at(row.len().min(2));
            let facts: Vec<String> = head
                .iter()
                .skip(name.len())
                .zip(facts)
                .filter(|(_, fact)| fact.as_str() != "-")
                .map(|(head, fact)| format!("{head} {fact}"))
                .collect();
            let facts = wrapped_words(&facts, "; ", width.saturating_sub(4));
            let facts = facts.iter().map(|line| format!("    {line}"));
            let name = sortie_text::truncate_columns(&name.join("  "), width);
            std::iter::once(name)
                .chain(facts)
                .collect::<Vec<_>>()
                .join("\n")
        })
        .collect();
    blocks.join("\n")
}

fn wrapped(line: &str, terminal: Option<u16>) -> Vec<String> {
    let Some(width) = terminal else {
        return vec![line.to_owned()];
    };
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    wrapped_words(&words, " ", usize::from(width))
}

/// Joins words to lines that are at most this wide, if each word is.
fn wrapped_words(words: &[String], between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(last) if columns(last) + between.len() + columns(word) <= width => {
                last.push_str(between);
                last.push_str(word);
            }
            Some(_) | None => lines.push(word.clone()),
        }
    }
    lines
}

fn markdown_table(text: &mut String, head: &[String], rows: &[Vec<String>]) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| marked(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(head));
    text.push_str(&format!("|{}\n", " --- |".repeat(head.len())));
    for row in rows {
        text.push_str(&line(row));
    }
}

fn html_table(page: &mut String, head: &[String], rows: &[Vec<String>]) {
    let cells = |cells: &[String], name: &str| {
        let cells = cells.iter();
        let cells = cells.map(|cell| format!("<{name}>{}</{name}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    page.push_str("<div class=\"scroll\"><table>\n");
    page.push_str(&cells(head, "th"));
    for row in rows {
        page.push_str(&cells(row, "td"));
    }
    page.push_str("</table></div>\n");
}

fn html_bar(page: &mut String, bar: &Bar) {
    let class = if bar.critical { "bar critical" } else { "bar" };
    let from = bar.from.clamp(0.0, 1.0) * 100.0;
    let length = bar.length.clamp(0.0, 1.0) * 100.0;
    let line = format!(
        "<div class=\"row\"><span class=\"name\">{}</span><span class=\"track\"><span class=\"{class}\" \
         style=\"left:{from:.2}%;width:{length:.2}%\"></span></span><span class=\"note\">{}</span></div>\n",
        escaped(&bar.label),
        escaped(&bar.note)
    );
    page.push_str(&line);
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Escapes text for Markdown: none of it is markup, and an indentation stays.
fn marked(text: &str) -> String {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let mut safe = "\u{a0}".repeat(indent);
    for character in text.chars().skip(indent) {
        if matches!(
            character,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~'
        ) {
            safe.push('\\');
        }
        safe.push(character);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> Document {
        let mut document = Document::new(Lang::En, "a <script> | title".to_owned());
        document.parts.push(Part::Table {
            head: vec!["id".to_owned(), "task".to_owned(), "cost".to_owned()],
            rows: vec![vec![
                "x1".to_owned(),
                "<img src=x onerror=alert(1)> | [a](b)".to_owned(),
                "$1".to_owned(),
            ]],
        });
        document
    }

    #[test]
    fn text_of_a_task_is_never_markup() {
        let page = hostile().html();
        assert!(!page.contains("<img"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        let markdown = hostile().markdown();
        assert!(
            markdown.contains(r"\<img src=x onerror=alert(1)\> \| \[a\](b)"),
            "{markdown}"
        );
    }

    #[test]
    fn a_row_that_is_too_wide_becomes_a_block() {
        let text = hostile().text(Some(30));
        assert!(text.lines().all(|line| columns(line) <= 30), "{text}");
        assert!(text.contains("    cost $1"), "{text}");
    }
}
