//! Shells that a command starts, and files that a shell sources.

use super::Carrier;
use crate::script::{Simple, Word};

const SHELLS: [&str; 16] = [
    "ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "lksh", "mksh", "oksh", "posh", "rbash",
    "sh", "tcsh", "yash", "zsh",
];
/// Shells with a different grammar.
const FOREIGN: [&str; 3] = ["csh", "fish", "tcsh"];
/// Long options of bash that take the next word. Bash also accepts them with one dash.
const LONG_VALUED: [&str; 2] = ["rcfile", "init-file"];
/// Long options of bash that take no value.
const LONG_FLAGS: [&str; 14] = [
    "debug",
    "debugger",
    "dump-po-strings",
    "dump-strings",
    "help",
    "login",
    "noediting",
    "noprofile",
    "norc",
    "posix",
    "pretty-print",
    "restricted",
    "verbose",
    "version",
];
/// Short options that all of these shells parse alike.
const LETTERS: &str = "abcefhiklmnoprstuvxBCDEHOPT";
/// Syntax that only bash and similar shells parse as this crate does.
const NOT_COMMON: [&str; 13] = [
    "$'", "$\"", "{", "&>", "|&", "<(", ">(", "[[", "((", "function", "<<<", ";&", "+=",
];

/// Returns whether the program is a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

impl Carrier {
    /// Handles a shell that runs a text, a file, or its input.
    pub(super) fn shell(&mut self, name: &str, command: &Simple) {
        let call = ShellCall::of(command.arguments());
        if !call.certain || (FOREIGN.contains(&name) && !call.only_prints) {
            self.doubt(&format!("the arguments of {name} are not understood"));
            for word in call.unread {
                if word.shape().contains(' ') {
                    self.line(std::slice::from_ref(word));
                }
            }
        }
        match call.operand {
            Some(text) if call.runs_text => {
                let other = !matches!(name, "bash" | "rbash");
                if other && NOT_COMMON.iter().any(|part| text.shape().contains(part)) {
                    self.doubt(&format!("{name} may parse this text differently"));
                }
                self.line(std::slice::from_ref(text));
            }
            None if call.runs_text => self.doubt("a text that is run is missing"),
            Some(file) if !call.reads_input && !is_input(file) => self.file(file),
            Some(_) | None if call.only_prints => {}
            Some(_) | None => self.input(command),
        }
    }

    /// Handles a file that this shell sources.
    pub(super) fn sourced(&mut self, name: &str, command: &Simple) {
        let words = self.builtin_operands(name, command.arguments());
        match words.first() {
            Some(file) if is_input(file) => self.input(command),
            Some(file) => self.file(file),
            None => {}
        }
    }

    /// Handles a file of commands. Its content is not read; it must be certain that it is a file.
    fn file(&mut self, file: &Word) {
        let text = file.shape();
        let in_home = text.starts_with("~/") && !text.contains(['$', '`', '*', '?', '[', '{']);
        if file.known().is_none() && !in_home {
            self.doubt("the file of commands is not known before it runs");
        }
    }
}

/// The parsed arguments of a shell.
pub(crate) struct ShellCall<'a> {
    runs_text: bool,
    reads_input: bool,
    only_prints: bool,
    certain: bool,
    operand: Option<&'a Word>,
    /// All words, for a call that is not certain.
    unread: &'a [Word],
}

impl<'a> ShellCall<'a> {
    pub(crate) fn of(arguments: &'a [Word]) -> Self {
        let mut call = Self {
            runs_text: false,
            reads_input: false,
            only_prints: false,
            certain: true,
            operand: None,
            unread: arguments,
        };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.shape();
            if word.known().is_none() || !text.starts_with(['-', '+']) {
                // The word may become options, or nothing.
                call.certain &= !word.may_split();
                call.operand = Some(word);
                return call;
            }
            let long = text.strip_prefix("--").or(text.strip_prefix('-'));
            let long = long.unwrap_or_default();
            match text {
                "--" | "-" => {
                    call.operand = rest.next();
                    return call;
                }
                _ if LONG_VALUED.contains(&long) => {
                    call.certain = false;
                    rest.next();
                }
                _ if LONG_FLAGS.contains(&long) => {
                    call.only_prints |= matches!(long, "help" | "version");
                }
                _ if text.starts_with("--") => call.certain = false,
                _ => {
                    // These two letters mean the same after `+` as after `-`.
                    call.runs_text |= text.contains('c');
                    call.reads_input |= text.contains('s');
                    let letters = text.get(1..).unwrap_or_default();
                    call.certain &= letters.chars().all(|letter| LETTERS.contains(letter));
                    let values = text.chars().filter(|c| matches!(c, 'o' | 'O')).count();
                    for _ in 0..values {
                        call.certain &= rest.next().is_none_or(|value| !value.may_split());
                    }
                }
            }
        }
        call
    }

    /// Returns whether the shell reads commands from its standard input.
    pub(crate) fn reads_input(&self) -> bool {
        let file = self.operand.is_some_and(|file| !is_input(file));
        !self.runs_text && !self.only_prints && (self.reads_input || !file)
    }

    /// Returns the text or the file that the shell runs.
    pub(crate) const fn operand(&self) -> Option<&'a Word> {
        self.operand
    }
}

/// Returns whether a file is the standard input, or the output of a command.
fn is_input(file: &Word) -> bool {
    let text = file.shape();
    if text == "-" || text.starts_with("<(") {
        return true;
    }
    let mut parts = text.split('/').filter(|part| !matches!(*part, "" | "."));
    let name = parts.clone().next_back().unwrap_or_default();
    // Holds after a change of directory too: `cd /dev/fd; . ./0`.
    let descriptor =
        name == "stdin" || (!name.is_empty() && name.bytes().all(|c| c.is_ascii_digit()));
    descriptor || parts.any(|part| matches!(part, "proc" | "fd")) || text.starts_with("/dev/")
}
