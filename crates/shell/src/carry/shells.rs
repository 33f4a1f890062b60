//! Shells that are started by a command, and files that one reads.

use super::Carrier;
use crate::script::{Simple, Word};

const SHELLS: [&str; 9] = [
    "ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "yash", "zsh",
];
/// What only bash and its like read as we do.
const NOT_COMMON: [&str; 13] = [
    "$'", "$\"", "{", "&>", "|&", "<(", ">(", "[[", "((", "function", "<<<", ";&", "+=",
];

/// Whether the program is a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

impl Carrier {
    /// A shell with a text, a file, or its input.
    pub(super) fn shell(&mut self, name: &str, command: &Simple) {
        let call = Call::of(command.arguments());
        if !call.certain {
            self.doubt(&format!("how {name} is called is not clear"));
        }
        match call.operand {
            Some(text) if call.runs_text => {
                let other = !matches!(name, "bash" | "rbash");
                if other && NOT_COMMON.iter().any(|part| text.shape().contains(part)) {
                    self.doubt(&format!("{name} may read this text in another way"));
                }
                self.line(std::slice::from_ref(text));
            }
            None if call.runs_text => self.doubt("a text that is run is missing"),
            Some(file) if !call.reads_input && !is_input(file) => {}
            Some(_) | None if call.only_tells => {}
            Some(_) | None => self.input(command),
        }
    }

    /// A file that this shell reads.
    pub(super) fn sourced(&mut self, command: &Simple) {
        if command.arguments().first().is_some_and(is_input) {
            self.input(command);
        }
    }
}

/// How a shell is called.
struct Call<'a> {
    runs_text: bool,
    reads_input: bool,
    only_tells: bool,
    certain: bool,
    operand: Option<&'a Word>,
}

impl<'a> Call<'a> {
    fn of(arguments: &'a [Word]) -> Self {
        let mut call = Self {
            runs_text: false,
            reads_input: false,
            only_tells: false,
            certain: true,
            operand: None,
        };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.shape();
            if word.known().is_none() || !text.starts_with(['-', '+']) {
                // An unknown first word may become options.
                call.certain &= word.known().is_some() || !text.starts_with(['$', '`']);
                call.operand = Some(word);
                return call;
            }
            match text {
                "--" | "-" => {
                    call.operand = rest.next();
                    return call;
                }
                "--help" | "--version" => call.only_tells = true,
                "--rcfile" | "--init-file" => {
                    call.certain = false;
                    rest.next();
                }
                _ if text.starts_with("--") => {}
                _ => {
                    call.runs_text |= text.starts_with('-') && text.contains('c');
                    call.reads_input |= text.contains('s');
                    let values = text.chars().filter(|c| matches!(c, 'o' | 'O')).count();
                    for _ in 0..values {
                        rest.next();
                    }
                }
            }
        }
        call
    }
}

/// Whether a file is the input, or the output of a command.
fn is_input(file: &Word) -> bool {
    let text = file.shape();
    let descriptor = ["/dev/stdin", "/dev/fd/", "/proc/", "<("];
    text == "-" || descriptor.iter().any(|start| text.starts_with(start))
}
