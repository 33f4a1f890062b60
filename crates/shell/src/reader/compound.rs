//! Compound commands: groups, conditions, loops, choices, functions.

use super::word::Token;
use super::{Reader, Reading, is_name};

impl Reader<'_> {
    /// Parses one command of a pipeline.
    pub(super) fn command(&mut self) -> Reading<()> {
        self.skip_blanks();
        if self.compound()? {
            return self.trailing_redirects();
        }
        if self.take_keyword("function") {
            let name = self.needed_word()?;
            return self.function(&name);
        }
        self.need(!self.keyword("coproc"), "it starts a coprocess")?;
        self.simple()
    }

    /// Parses a compound command, if there is one here.
    fn compound(&mut self) -> Reading<bool> {
        if self.take("((") {
            self.arithmetic(false)?;
        } else if self.take("(") {
            self.refuse_continued(0)?;
            self.commands_to_parenthesis()?;
        } else if self.take_keyword("{") {
            self.list()?;
            self.expect("}")?;
        } else if self.take_keyword("if") {
            self.condition()?;
        } else if self.take_keyword("while") || self.take_keyword("until") {
            self.list()?;
            self.body()?;
        } else if self.take_keyword("for") {
            self.each(true)?;
        } else if self.take_keyword("select") {
            self.each(false)?;
        } else if self.take_keyword("case") {
            self.choice()?;
        } else if self.take_keyword("[[") {
            self.test()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn condition(&mut self) -> Reading<()> {
        loop {
            self.list()?;
            self.expect("then")?;
            self.list()?;
            if !self.take_keyword("elif") {
                break;
            }
        }
        if self.take_keyword("else") {
            self.list()?;
        }
        self.expect("fi")
    }

    fn body(&mut self) -> Reading<()> {
        self.expect("do")?;
        self.list()?;
        self.expect("done")
    }

    /// Parses a loop over words or numbers.
    fn each(&mut self, may_count: bool) -> Reading<()> {
        self.skip_blanks();
        if may_count && self.take("((") {
            self.arithmetic(true)?;
            self.skip_blanks();
            self.take(";");
            return self.body();
        }
        let name = self.needed_word()?;
        self.need(
            name.plain && is_name(&name.text),
            "a loop has an unusual name",
        )?;
        self.assigns(name.text)?;
        self.skip_lines()?;
        if self.take_keyword("in") {
            self.words_to_end_of_line()?;
        } else {
            self.take(";");
        }
        self.body()
    }

    fn words_to_end_of_line(&mut self) -> Reading<()> {
        loop {
            self.skip_blanks();
            if self.word()?.is_some() {
                continue;
            }
            return match self.peek() {
                Some('\n') => Ok(()),
                Some(';') if !self.at_case_end() => {
                    self.at += 1;
                    Ok(())
                }
                Some(_) | None => Err("a loop is unusual"),
            };
        }
    }

    fn choice(&mut self) -> Reading<()> {
        self.needed_word()?;
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.take_keyword("esac") {
                return Ok(());
            }
            self.take("(");
            self.alternatives()?;
            self.list()?;
            self.skip_lines()?;
            let next = self.take(";;&") || self.take(";;") || self.take(";&");
            self.need(next || self.keyword("esac"), "a choice is unusual")?;
        }
    }

    fn alternatives(&mut self) -> Reading<()> {
        loop {
            self.needed_word()?;
            self.skip_blanks();
            if self.take(")") {
                return Ok(());
            }
            self.need(self.peek() == Some('|'), "a choice is unusual")?;
            self.at += 1;
        }
    }

    /// Parses `[[ … ]]`, which starts only the substitutions in its words.
    fn test(&mut self) -> Reading<()> {
        loop {
            while matches!(self.peek(), Some(' ' | '\t' | '\n')) {
                let c = self.peek().unwrap_or_default();
                self.inside_quotes(c)?;
                self.at += 1;
            }
            self.need(self.peek() != Some('#'), "a test is unusual")?;
            if self.take_keyword("]]") {
                return Ok(());
            }
            let operator = ["&&", "||", "(", ")", "<", ">"];
            let substitution = self.ahead("<(") || self.ahead(">(");
            if !substitution && operator.iter().any(|text| self.take(text)) {
                continue;
            }
            let token = self.word()?.ok_or("a test is unusual")?;
            // Numbers are computed, and the value of a variable is evaluated again.
            let computes = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];
            self.gathered.script.computes |= computes.contains(&token.text.as_str());
            if token.text == "=~" {
                self.expression()?;
            }
        }
    }

    /// Parses a regular expression; rejects those whose brackets need special rules.
    fn expression(&mut self) -> Reading<()> {
        self.needed_word()?;
        let plain_end = matches!(self.peek(), Some(' ' | '\t' | '\n'));
        self.need(plain_end, "a regular expression is unusual")
    }

    /// Parses the definition of a function after its name.
    pub(super) fn function(&mut self, name: &Token) -> Reading<()> {
        self.need(name.plain, "a function has an unusual name")?;
        self.skip_blanks();
        if self.take("(") {
            self.skip_blanks();
            let closed = self.take(")");
            self.need(closed, "brackets stand where they have no meaning")?;
        }
        self.skip_lines()?;
        let start = self.count();
        let found = self.nested(Self::compound)?;
        self.need(found, "a function has an unusual body")?;
        self.trailing_redirects()?;
        let body = start..self.count();
        let function = (name.text.clone(), body);
        self.gathered.script.functions.push(function);
        Ok(())
    }
}
