//! Expansions and quotes that begin with `$` or a backquote.

use super::word::Token;
use super::{Quotes, Reader, Reading, is_name_part, is_name_start};

impl Reader<'_> {
    /// Returns whether the `$` here begins an expansion or a quote and is not literal.
    pub(super) fn expansion_begins(&self) -> bool {
        self.after(1).is_some_and(|c| {
            is_name_part(c) || is_special(c) || matches!(c, '(' | '{' | '[' | '\'' | '"')
        })
    }

    pub(super) fn dollar(&mut self, token: &mut Token, quotes: Quotes) -> Reading<()> {
        let start = self.at;
        let next = self.after(1);
        self.refuse_continued(1)?;
        if next == Some('\'') && quotes == Quotes::None {
            return self.ansi_quoted(token);
        }
        match next {
            Some('(') if self.after(2) == Some('(') => {
                self.at += 3;
                self.arithmetic(false)?;
            }
            Some('(') => {
                self.at += 2;
                self.refuse_continued(0)?;
                self.commands_to_parenthesis()?;
            }
            Some('{') => {
                self.at += 2;
                self.nested(|reader| reader.parameter(quotes))?;
            }
            Some('[') => return Err("it uses the old form of arithmetic"),
            Some('"') if quotes == Quotes::None => {
                self.at += 1;
                token.quoted = true;
                // The shell may replace the text by a translation.
                self.double_quoted(&mut Token::default())?;
            }
            Some(c) if is_name_start(c) => {
                self.at += 1;
                while self.peek().is_some_and(is_name_part) {
                    self.at += 1;
                }
            }
            Some(c) if c.is_ascii_digit() || is_special(c) => self.at += 2,
            // In bash 5.3 and in other shells more forms may follow; here the `$` is literal.
            Some(_) | None => {
                self.at += 1;
                token.text.push('$');
                return Ok(());
            }
        }
        token.unknown = true;
        // Between double quotes only `@`, also through an indirect name, becomes several words.
        let source = self.text.get(start..self.at).unwrap_or_default();
        let several = source.contains(&'@') || source.contains(&'!');
        let translated = next == Some('"');
        token.splits |= (quotes == Quotes::None && !translated) || several;
        self.copy_source(token, start);
        Ok(())
    }

    /// Parses commands up to the closing parenthesis.
    pub(super) fn commands_to_parenthesis(&mut self) -> Reading<()> {
        let waiting = std::mem::take(&mut self.pending);
        let start = self.at;
        self.list()?;
        let closed = self.take(")");
        self.need(closed, "a bracket has no end")?;
        self.need(self.pending.is_empty(), "a here-document has no text")?;
        let inside = self.text.get(start..self.at).unwrap_or_default();
        let one_line = waiting.is_empty() || !inside.contains(&'\n');
        // Shells disagree about which text comes first.
        self.need(
            one_line,
            "a substitution goes over the beginning of a here-document",
        )?;
        self.pending = waiting;
        Ok(())
    }

    /// Parses the text between backquotes, after resolving its own backslashes.
    pub(super) fn backquoted(&mut self, token: &mut Token, quotes: Quotes) -> Reading<()> {
        let start = self.at;
        self.at += 1;
        let mut inner = Vec::new();
        loop {
            let c = self.peek().ok_or("a backquote has no end")?;
            self.at += 1;
            self.inside_quotes(c)?;
            match (c, self.peek()) {
                ('`', _) => break,
                ('\\', Some(next @ ('$' | '`' | '\\'))) => {
                    inner.push(next);
                    self.at += 1;
                }
                ('\\', Some('"')) if quotes == Quotes::Double => {
                    inner.push('"');
                    self.at += 1;
                }
                ('\\', Some('"')) if quotes == Quotes::Here => {
                    return Err("a backquote in a here-document has escaped quotes");
                }
                _ => inner.push(c),
            }
        }
        self.inner(inner)?;
        token.unknown = true;
        token.splits |= quotes == Quotes::None;
        self.copy_source(token, start);
        Ok(())
    }

    /// Parses `${…}` after its opening brace.
    fn parameter(&mut self, quotes: Quotes) -> Reading<()> {
        if self.peek() == Some('!') {
            self.gathered.script.computes = true;
            self.at += 1;
        } else if self.peek() == Some('#') && self.after(1) != Some('}') {
            self.at += 1;
        }
        self.parameter_name()?;
        let operator = [self.peek(), self.after(1)];
        let plain = match operator {
            [Some('}' | '-' | '+' | '?' | '#' | '%' | '/' | '^' | ','), _]
            | [Some(':'), Some('-' | '+' | '?')] => true,
            // Offsets, subscripts, `@P`, `:=` and other forms compute or assign.
            [Some(_), _] => false,
            [None, _] => return Err("a brace has no end"),
        };
        self.gathered.script.computes |= !plain;
        self.parameter_rest(quotes)
    }

    fn parameter_name(&mut self) -> Reading<()> {
        match self.peek() {
            Some(c) if is_name_start(c) => {
                while self.peek().is_some_and(is_name_part) {
                    self.at += 1;
                }
                Ok(())
            }
            Some(c) if c.is_ascii_digit() => {
                while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1;
                }
                Ok(())
            }
            Some(c) if is_special(c) => {
                self.at += 1;
                Ok(())
            }
            Some(_) | None => Err("an expansion has no name"),
        }
    }

    fn parameter_rest(&mut self, quotes: Quotes) -> Reading<()> {
        let mut unseen = Token::default();
        while let Some(c) = self.peek() {
            match c {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => self.at += 2,
                '\'' | '"' if quotes != Quotes::None => {
                    return Err("quotes are nested in a way that shells read differently");
                }
                '\'' => self.skip_single_quoted()?,
                '"' => self.double_quoted(&mut unseen)?,
                '$' => self.dollar(&mut unseen, quotes)?,
                '`' => self.backquoted(&mut unseen, quotes)?,
                '{' => return Err("braces are nested inside an expansion"),
                '<' | '>' if self.after(1) == Some('(') => {
                    return Err("a process substitution is inside an expansion");
                }
                _ => {
                    self.inside_quotes(c)?;
                    self.at += 1;
                }
            }
        }
        Err("a brace has no end")
    }

    fn skip_single_quoted(&mut self) -> Reading<()> {
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            self.gathered.quoted_dollar |= matches!(c, '$' | '`');
            self.inside_quotes(c)?;
        }
        Err("a quote has no end")
    }

    /// Parses arithmetic up to its `))`; accepts `;` only in the head of a loop.
    pub(super) fn arithmetic(&mut self, semicolons: bool) -> Reading<()> {
        self.nested(|reader| {
            let mut open = 0_usize;
            let mut unseen = Token::default();
            loop {
                let c = reader.peek().ok_or("a bracket has no end")?;
                reader.inside_quotes(c)?;
                match c {
                    ')' if open == 0 => break,
                    ')' => open -= 1,
                    '(' => open += 1,
                    '$' => {
                        // The value of a variable is evaluated again.
                        reader.gathered.script.computes = true;
                        reader.dollar(&mut unseen, Quotes::Double)?;
                        continue;
                    }
                    '`' => {
                        reader.backquoted(&mut unseen, Quotes::Double)?;
                        continue;
                    }
                    ';' if semicolons => {}
                    _ if is_name_start(c) => reader.gathered.script.computes = true,
                    _ if c.is_ascii_digit() || is_arithmetic(c) => {}
                    _ => return Err("it contains unusual arithmetic"),
                }
                reader.at += 1;
            }
            let closed = reader.take("))");
            reader.need(closed, "it may be arithmetic or commands")
        })
    }

    /// Parses `$'…'`, where backslashes escape other characters.
    fn ansi_quoted(&mut self, token: &mut Token) -> Reading<()> {
        token.quoted = true;
        self.at += 2;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\'' => return Ok(()),
                '\\' => self.ansi_escape(token)?,
                _ => {
                    self.inside_quotes(c)?;
                    self.literal(token, c);
                }
            }
        }
        Err("a quote has no end")
    }

    fn ansi_escape(&mut self, token: &mut Token) -> Reading<()> {
        let c = self.peek().ok_or("a quote has no end")?;
        self.at += 1;
        let code = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u32::from(c),
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3).unwrap_or_default()
            }
            'x' | 'u' | 'U' => {
                let most = if c == 'x' {
                    2
                } else if c == 'u' {
                    4
                } else {
                    8
                };
                match self.digits(16, most) {
                    Some(code) => code,
                    None if self.peek() == Some('{') => return Err("an escape is unusual"),
                    None => {
                        token.text.extend(['\\', c]);
                        return Ok(());
                    }
                }
            }
            'c' => return Err("an escape is unusual"),
            _ => {
                self.inside_quotes(c)?;
                token.text.push('\\');
                self.literal(token, c);
                return Ok(());
            }
        };
        self.coded(token, code)
    }

    fn coded(&mut self, token: &mut Token, code: u32) -> Reading<()> {
        match char::from_u32(code) {
            Some('\0' | '\u{1}' | '\u{7f}') => Err("an escape stands for a control character"),
            Some(c) if c.is_ascii() => {
                self.literal(token, c);
                Ok(())
            }
            // The resulting bytes depend on the locale.
            Some(_) | None => {
                token.unknown = true;
                token.text.push('\u{fffd}');
                Ok(())
            }
        }
    }

    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let mut code: Option<u32> = None;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            code = Some(code.unwrap_or(0).wrapping_mul(radix).wrapping_add(digit));
            self.at += 1;
        }
        code
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!')
}

fn is_arithmetic(c: char) -> bool {
    c.is_ascii_whitespace() || "+-*/%<>=!&|^~?:,[]#".contains(c)
}
