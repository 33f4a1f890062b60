//! Here-documents: the text begins on the line after the one that announces it.

use super::word::Token;
use super::{Quotes, Reader, Reading};
use crate::script::{Redirect, Simple};

/// A here-document whose text was not parsed yet.
#[derive(Debug)]
pub(super) struct Pending {
    end: String,
    strip_tabs: bool,
    expands: bool,
    /// The index of the command that reads it.
    pub(super) reader: usize,
}

impl Reader<'_> {
    /// Records a here-document after its `<<`.
    pub(super) fn announce_here_document(&mut self, strip_tabs: bool) -> Reading<()> {
        let end = self.needed_word()?;
        // The delimiter is not expanded: `$x` ends at a line that is literally `$x`.
        self.need(
            !end.unknown || end.quoted,
            "a here-document has an unusual end",
        )?;
        let unusual = end.unknown || end.text.contains(['\n', '$', '`']);
        self.need(!unusual, "a here-document has an unusual end")?;
        self.pending.push(Pending {
            expands: !end.quoted,
            end: end.text,
            strip_tabs,
            // Set when the command is complete.
            reader: usize::MAX,
        });
        Ok(())
    }

    /// Sets the command that reads the here-documents announced inside it.
    pub(super) fn claim_here_documents(&mut self) {
        let command = self.count();
        for pending in &mut self.pending {
            if pending.reader == usize::MAX {
                pending.reader = command;
            }
        }
    }

    /// Parses the here-documents that begin here.
    pub(super) fn here_documents(&mut self) -> Reading<()> {
        for pending in std::mem::take(&mut self.pending) {
            let text = self.here_text(&pending)?;
            let mut token = Token::default();
            if pending.expands {
                let mut body = Reader::new(text, self.depth, self.gathered);
                body.nested(|body| body.expand_text(&mut token))?;
            } else {
                for c in text {
                    self.literal(&mut token, c);
                }
            }
            let reader = self.gathered.script.commands.get_mut(pending.reader);
            attach(reader, token)?;
        }
        Ok(())
    }

    /// Parses the text as between double quotes, where quotes are literal.
    fn expand_text(&mut self, token: &mut Token) -> Reading<()> {
        while let Some(c) = self.peek() {
            match c {
                '\\' => self.escaped_in_text(token, false),
                '$' => self.dollar(token, Quotes::Here)?,
                '`' => self.backquoted(token, Quotes::Here)?,
                _ => {
                    token.text.push(c);
                    self.at += 1;
                }
            }
        }
        Ok(())
    }

    fn here_text(&mut self, pending: &Pending) -> Reading<Vec<char>> {
        let mut text = Vec::new();
        loop {
            self.need(self.peek().is_some(), "a here-document has no end")?;
            let line = self.here_line(pending.expands);
            let line = match pending.strip_tabs {
                true => line.trim_start_matches('\t'),
                false => &line,
            };
            if line == pending.end {
                return Ok(text);
            }
            text.extend(line.chars());
            text.push('\n');
        }
    }

    /// Consumes one line; in a text that is expanded, a backslash at its end joins the next line.
    fn here_line(&mut self, joins: bool) -> String {
        let mut line = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match (c, self.peek()) {
                ('\n', _) => break,
                ('\\', Some('\n')) if joins => self.at += 1,
                ('\\', Some(next)) if joins => {
                    self.at += 1;
                    line.extend(['\\', next]);
                }
                _ => line.push(c),
            }
        }
        line
    }
}

fn attach(reader: Option<&mut Simple>, token: Token) -> Reading<()> {
    let reader = reader.ok_or("a here-document has no reader")?;
    let word = match token.unknown {
        true => crate::Word::Single(token.text),
        false => crate::Word::Known(token.text),
    };
    reader.redirects.push(Redirect::Text(word));
    Ok(())
}
