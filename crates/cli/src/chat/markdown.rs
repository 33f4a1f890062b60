//! Renders Markdown for a terminal, also while it is incomplete.
//!
//! Line ends of the source stay: models use them deliberately, and a text that streams does not
//! reflow with each word.

use console::Style;
use sortie_base::truncate::first_bytes;
use sortie_text::{columns, pad_columns, strip_sequences};

use super::highlight::Highlighter;
use super::styled::{Span, paint, wrap};
use crate::theme::Themed as _;

/// The longest address of a link.
const MAX_ADDRESS_BYTES: usize = 2_048;
/// The indentation of code.
const CODE_INDENT: &str = "    ";
/// The deepest indentation of text: a model can write any number of spaces.
const MAX_INDENT: usize = 8;
/// The least columns of text in a table cell before the table is shown as a list.
const LEAST_CELL: usize = 6;

/// Renders Markdown into lines of at most `width` columns.
pub(crate) fn render(source: &str, width: usize) -> Vec<String> {
    let clean = strip_sequences(source).replace('\t', "    ");
    let mut page = Page {
        width: width.max(16),
        lines: Vec::new(),
    };
    let source: Vec<&str> = clean.trim_end().lines().collect();
    let mut at = 0;
    while let Some(line) = source.get(at) {
        at += match fence(line) {
            Some((mark, name)) => page.code(&source[at + 1..], mark, name) + 1,
            None if is_table(&source[at..]) => page.table(&source[at..]),
            None => {
                page.line(line);
                1
            }
        };
    }
    page.lines
}

struct Page {
    width: usize,
    lines: Vec<String>,
}

impl Page {
    /// Renders the lines of a fenced block; returns how many source lines it has.
    fn code(&mut self, source: &[&str], mark: &str, name: &str) -> usize {
        let mut highlighter = Highlighter::new(name);
        for (index, line) in source.iter().enumerate() {
            if line.trim_start().starts_with(mark) {
                return index + 1;
            }
            let spans = highlighter.line(line);
            self.lines
                .extend(wrap(&spans, self.width, CODE_INDENT, CODE_INDENT));
        }
        source.len()
    }

    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() {
            if self.lines.last().is_some_and(|last| !last.is_empty()) {
                self.lines.push(String::new());
            }
        } else if let Some(title) = heading(text) {
            let style = Style::new().bold();
            let mut spans = inline(title);
            for span in &mut spans {
                span.style = style.clone();
            }
            self.lines.extend(wrap(&spans, self.width, "", ""));
        } else if is_rule(text) {
            let rule = "─".repeat(self.width.min(40));
            self.lines
                .push(Style::new().muted().apply_to(rule).to_string());
        } else if let Some(quoted) = text.strip_prefix('>') {
            let spans = inline(quoted.trim_start());
            self.lines.extend(wrap(&spans, self.width, "▌ ", "▌ "));
        } else if let Some((mark, rest)) = list_item(text) {
            let first = format!("{}{mark} ", " ".repeat(indent.min(MAX_INDENT)));
            let rest_indent = " ".repeat(columns(&first));
            self.lines
                .extend(wrap(&inline(rest), self.width, &first, &rest_indent));
        } else {
            let before = " ".repeat(indent.min(MAX_INDENT));
            self.lines
                .extend(wrap(&inline(text), self.width, &before, &before));
        }
    }

    /// Renders a table; returns how many source lines it has.
    fn table(&mut self, source: &[&str]) -> usize {
        let rows: Vec<Vec<String>> = source
            .iter()
            .take_while(|line| line.contains('|'))
            .map(|line| cells(line))
            .collect();
        let used = rows.len();
        let count = rows.first().map_or(0, Vec::len);
        let body: Vec<&Vec<String>> = rows
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != 1)
            .map(|(_, row)| row)
            .collect();
        let plain = |cell: &str| columns(&plain_text(cell));
        let widths: Vec<usize> = (0..count)
            .map(|column| {
                let cell = |row: &&Vec<String>| row.get(column).map_or(0, |cell| plain(cell));
                body.iter().map(cell).max().unwrap_or(0)
            })
            .collect();
        let whole: usize = widths.iter().sum::<usize>() + 2 * count.saturating_sub(1);
        if whole <= self.width {
            self.grid(&body, &widths);
        } else {
            self.records(&body);
        }
        used
    }

    fn grid(&mut self, rows: &[&Vec<String>], widths: &[usize]) {
        for (index, row) in rows.iter().enumerate() {
            let line: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| {
                    let text = row.get(column).map_or("", String::as_str);
                    let missing = width.saturating_sub(columns(&plain_text(text)));
                    let cell = match index {
                        0 => Style::new().bold().apply_to(plain_text(text)).to_string(),
                        _ => paint(&inline(text)),
                    };
                    format!("{cell}{}", " ".repeat(missing))
                })
                .collect();
            self.lines.push(line.join("  ").trim_end().to_owned());
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.lines
                    .push(Style::new().muted().apply_to(rule.join("  ")).to_string());
            }
        }
    }

    /// Shows a table that is too wide as one block for each row.
    fn records(&mut self, rows: &[&Vec<String>]) {
        let Some((head, body)) = rows.split_first() else {
            return;
        };
        let name_width = head
            .iter()
            .map(|cell| columns(&plain_text(cell)))
            .max()
            .unwrap_or(0)
            .min(self.width / 3)
            .max(LEAST_CELL);
        for row in body {
            for (name, value) in head.iter().zip(row.iter()) {
                let name = pad_columns(&plain_text(name), name_width);
                let first = format!("{}  ", Style::new().bold().apply_to(name));
                let rest = " ".repeat(name_width + 2);
                let room = self.width.saturating_sub(name_width + 2);
                let mut lines = wrap(&inline(value), room, "", "").into_iter();
                if let Some(line) = lines.next() {
                    self.lines.push(format!("{first}{line}"));
                }
                self.lines.extend(lines.map(|line| format!("{rest}{line}")));
            }
            self.lines.push(String::new());
        }
    }
}

/// Returns the mark and the language of a fence.
fn fence(line: &str) -> Option<(&'static str, &str)> {
    let text = line.trim_start();
    for mark in ["```", "~~~"] {
        if let Some(name) = text.strip_prefix(mark) {
            let name = name.trim_start_matches(['`', '~']).trim();
            return Some((mark, name.split_whitespace().next().unwrap_or_default()));
        }
    }
    None
}

fn heading(text: &str) -> Option<&str> {
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then(|| title.trim())
}

fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 3
        && ["-", "*", "_"]
            .iter()
            .any(|mark| text.replace([' '], "").trim_start_matches(mark).is_empty())
}

/// Returns the mark and the text of a list item.
fn list_item(text: &str) -> Option<(String, &str)> {
    for mark in ["- ", "* ", "+ "] {
        let Some(rest) = text.strip_prefix(mark) else {
            continue;
        };
        return Some(match (rest.strip_prefix("[ ] "), done(rest)) {
            (Some(open), _) => ("☐".to_owned(), open),
            (None, Some(done)) => ("☑".to_owned(), done),
            (None, None) => ("•".to_owned(), rest),
        });
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = text.get(digits..)?;
    let rest = rest
        .strip_prefix(". ")
        .or_else(|| rest.strip_prefix(") "))?;
    (1..=3)
        .contains(&digits)
        .then(|| (format!("{}.", &text[..digits]), rest))
}

fn done(text: &str) -> Option<&str> {
    text.strip_prefix("[x] ")
        .or_else(|| text.strip_prefix("[X] "))
}

/// Whether a table starts here: a line with bars, and one with dashes.
fn is_table(source: &[&str]) -> bool {
    let [head, rule, ..] = source else {
        return false;
    };
    let is_rule =
        |line: &str| line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    head.contains('|') && rule.contains('|') && is_rule(rule)
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn plain_text(text: &str) -> String {
    inline(text).into_iter().map(|span| span.text).collect()
}

/// Parses emphasis, code and links.
fn inline(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        if let Some((span, used)) = marked(rest, before) {
            if !plain.is_empty() {
                spans.push(Span::plain(std::mem::take(&mut plain)));
            }
            spans.extend(span);
            rest = &rest[used..];
            before = ')';
            continue;
        }
        let taken = match first {
            // An escaped mark stands for itself.
            '\\' if rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) => {
                rest = &rest[1..];
                rest.chars().next().unwrap_or(first)
            }
            first => first,
        };
        plain.push(taken);
        before = taken;
        rest = &rest[taken.len_utf8()..];
    }
    if !plain.is_empty() {
        spans.push(Span::plain(plain));
    }
    spans
}

/// Returns the spans of a marked part at the beginning of a text, and its length in bytes.
fn marked(text: &str, before: char) -> Option<(Vec<Span>, usize)> {
    let one = |span: Span, used: usize| Some((vec![span], used));
    if text.starts_with('`') {
        let ticks = text.len() - text.trim_start_matches('`').len();
        let mark = "`".repeat(ticks);
        let end = text.get(ticks..)?.find(&mark)?;
        let code = text.get(ticks..ticks + end)?.trim_matches(' ');
        return one(Span::new(code, Style::new().info()), end + 2 * ticks);
    }
    for (mark, style) in [
        ("**", Style::new().bold()),
        ("__", Style::new().bold()),
        ("~~", Style::new().strikethrough()),
        ("*", Style::new().italic()),
        ("_", Style::new().italic()),
    ] {
        let Some(inner) = text.strip_prefix(mark) else {
            continue;
        };
        // `a_b` and `2 * 3` are not emphasis.
        let opens =
            !(inner.starts_with([' ', '\n']) || mark.starts_with('_') && before.is_alphanumeric());
        let end = inner.find(mark).filter(|end| *end > 0);
        let (true, Some(end)) = (opens, end) else {
            continue;
        };
        let content = &inner[..end];
        if content.ends_with(' ') {
            continue;
        }
        return one(Span::new(content, style), end + 2 * mark.len());
    }
    let inner = text.strip_prefix('[')?;
    // Both searches are bounded, so that a line of brackets takes no longer than other text.
    let close = inner.find(['[', ']'])?;
    let after = inner.get(close..)?.strip_prefix("](")?;
    let end =
        first_bytes(after, MAX_ADDRESS_BYTES).find(|c: char| c == ')' || c.is_whitespace())?;
    if !after[end..].starts_with(')') {
        return None;
    }
    let (label, address) = (&inner[..close], &after[..end]);
    let mut spans = vec![Span::new(label, Style::new().underlined())];
    if label != address {
        spans.push(Span::new(format!(" ({address})"), Style::new().muted()));
    }
    Some((spans, 1 + close + 2 + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(source: &str, width: usize) -> Vec<String> {
        render(source, width)
            .iter()
            .map(|line| console::strip_ansi_codes(line).into_owned())
            .collect()
    }

    #[test]
    fn a_line_of_brackets_takes_linear_time() {
        let started = std::time::Instant::now();
        for source in ["[", "[](", "[a](b", "`[](x "] {
            assert!(!render(&source.repeat(20_000), 80).is_empty());
        }
        // Quadratic time would be minutes.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        assert_eq!(plain("[a [b](c) d](e)", 80), ["[a b (c) d](e)"]);
    }

    #[test]
    fn blocks_are_rendered() {
        let source = "# Title\n\nSome **bold** and `code`, [docs](https://x.y).\n\n- one\n- [x] done\n  1. nested\n> quoted\n---\n```rust\nlet x = 1;\n```\nend";
        assert_eq!(
            plain(source, 60),
            [
                "Title",
                "",
                "Some bold and code, docs (https://x.y).",
                "",
                "• one",
                "☑ done",
                "  1. nested",
                "▌ quoted",
                "────────────────────────────────────────",
                "    let x = 1;",
                "end",
            ]
        );
    }

    #[test]
    fn emphasis_needs_a_word() {
        assert_eq!(
            plain("2 * 3 * 4, a_b_c, \\*x\\*, **open", 60),
            ["2 * 3 * 4, a_b_c, *x*, **open"]
        );
    }

    #[test]
    fn an_open_fence_is_code() {
        assert_eq!(plain("```\na\nb", 40), ["    a", "    b"]);
    }

    #[test]
    fn a_table_is_aligned_or_becomes_a_list() {
        let source = "| name | what |\n| --- | --- |\n| `a` | first |\n| bb | second |";
        assert_eq!(
            plain(source, 40),
            ["name  what", "────  ──────", "a     first", "bb    second"]
        );
        assert_eq!(
            plain(
                "| name | what |\n|---|---|\n| a | a very long text that is wide |",
                24
            ),
            [
                "name    a",
                "what    a very long text",
                "        that is wide",
                "",
            ]
        );
    }

    #[test]
    fn lines_fit_the_width() {
        let source = "word ".repeat(50) + "\n- " + &"列表项目".repeat(20);
        for line in plain(&source, 40) {
            assert!(columns(&line) <= 40, "{line}");
        }
    }

    #[test]
    fn escape_sequences_of_a_model_are_removed() {
        assert_eq!(plain("a\u{1b}[31mb\u{1b}]0;t\u{7}c", 40), ["abc"]);
    }
}
