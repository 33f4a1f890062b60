//! A Markdown document as the checks read it: code spans, fenced blocks, links and headings.

use crate::tree::Tree;

/// Text of a document with the line where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A fenced code block.
#[derive(Debug)]
pub(super) struct Fence {
    /// The word after the fence; empty if there is none.
    pub(super) language: String,
    pub(super) lines: Vec<Piece>,
}

#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) path: String,
    pub(super) spans: Vec<Piece>,
    pub(super) fences: Vec<Fence>,
    /// Link targets as written.
    pub(super) links: Vec<Piece>,
    /// Anchors of the headings, as GitHub makes them.
    pub(super) anchors: Vec<String>,
}

impl Document {
    /// Reads a document of the tree.
    pub(super) fn read(tree: &Tree, path: &str) -> Option<Self> {
        Some(Self::parse(path, tree.text(path)?))
    }

    /// Parses Markdown. Only what the project's documents use is understood: fences at the start of
    /// a line, code spans that may wrap, inline links.
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let mut document = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        let mut paragraph: Vec<Piece> = Vec::new();
        let mut fence: Option<Fence> = None;
        for (index, line) in text.lines().enumerate() {
            let piece = Piece {
                line: index + 1,
                text: line.to_owned(),
            };
            let mark = line.trim_start().strip_prefix("```");
            match (fence.take(), mark) {
                (Some(open), Some(_)) => document.fences.push(open),
                (Some(mut open), None) => {
                    open.lines.push(piece);
                    fence = Some(open);
                }
                (None, Some(language)) => {
                    document.add_paragraph(&std::mem::take(&mut paragraph));
                    fence = Some(Fence {
                        // A file name may follow the language.
                        language: language
                            .split_whitespace()
                            .next()
                            .unwrap_or_default()
                            .to_owned(),
                        lines: Vec::new(),
                    });
                }
                (None, None) => {
                    if let Some(heading) = line.trim_start_matches('#').strip_prefix(' ')
                        && line.starts_with('#')
                    {
                        document.anchors.push(anchor(heading));
                    }
                    // Table rows and blank lines end a paragraph, so that an unpaired backtick
                    // cannot swallow the rest of the document.
                    if line.trim().is_empty() || line.starts_with('|') {
                        document.add_paragraph(&std::mem::take(&mut paragraph));
                    }
                    paragraph.push(piece);
                    if line.starts_with('|') {
                        document.add_paragraph(&std::mem::take(&mut paragraph));
                    }
                }
            }
        }
        document.add_paragraph(&paragraph);
        document
    }

    fn add_paragraph(&mut self, lines: &[Piece]) {
        let mut open: Option<Piece> = None;
        for Piece { line, text } in lines {
            let mut parts = text.split('`').peekable();
            let mut outside = String::new();
            while let Some(part) = parts.next() {
                match &mut open {
                    Some(span) => span.text.push_str(part),
                    None => outside.push_str(part),
                }
                if parts.peek().is_some() {
                    match open.take() {
                        Some(span) => self.spans.push(span),
                        None => {
                            open = Some(Piece {
                                line: *line,
                                text: String::new(),
                            });
                        }
                    }
                }
            }
            if let Some(span) = &mut open {
                span.text.push(' ');
            }
            for link in outside.split("](").skip(1) {
                if let Some((target, _)) = link.split_once(')') {
                    self.links.push(Piece {
                        line: *line,
                        text: target.to_owned(),
                    });
                }
            }
        }
    }

    /// Commands to type: lines of shell blocks (after `$` where there is one) and code spans.
    pub(super) fn commands(&self) -> impl Iterator<Item = Piece> {
        let typed = self.fences.iter().flat_map(|fence| {
            let bare = ["", "sh"].contains(&fence.language.as_str());
            let prompted = bare || ["console", "text"].contains(&fence.language.as_str());
            fence.lines.iter().filter_map(move |line| {
                let text = match line.text.trim_start().strip_prefix("$ ") {
                    Some(typed) if prompted => typed,
                    _ if bare => line.text.trim_start(),
                    _ => return None,
                };
                Some(Piece {
                    line: line.line,
                    text: text.to_owned(),
                })
            })
        });
        self.spans.iter().cloned().chain(typed)
    }
}

/// The anchor of a heading: lower case, punctuation removed, spaces as hyphens.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Splits a command line into words. Quoted words keep their text without the quotes; a comment, a
/// pipe or a redirection ends the command.
pub(super) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, _) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (Some(_), _) | (None, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    let end = words.iter().position(|word| {
        word.starts_with('#')
            || word.starts_with('>')
            || ["|", "&&", ";", "&", "||", "2>/dev/null"].contains(&word.as_str())
    });
    words.truncate(end.unwrap_or(words.len()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_wrap_and_fences_and_tables_are_apart() {
        let text = "# Who is *it*?\nSee `a\nb` and [c](d.md#e).\n\n| `x` | `y` |\n\n```sh\n`not` a span\n```\nlone ` tick\n\n`z`\n";
        let document = Document::parse("a.md", text);
        let spans: Vec<(usize, &str)> = document
            .spans
            .iter()
            .map(|span| (span.line, span.text.as_str()))
            .collect();
        assert_eq!(spans, [(2, "a b"), (5, "x"), (5, "y"), (12, "z")]);
        assert_eq!(document.links[0].text, "d.md#e");
        assert_eq!(document.anchors, ["who-is-it"]);
        assert_eq!(document.fences[0].lines[0].text, "`not` a span");
    }

    #[test]
    fn commands_end_at_pipes_and_comments() {
        assert_eq!(
            words("sortie run 'a b' --json # why"),
            ["sortie", "run", "a b", "--json"]
        );
        assert_eq!(words("sortie run x > report.md"), ["sortie", "run", "x"]);
    }
}
