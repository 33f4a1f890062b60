//! Determines what a shell command would run, without running it.
//!
//! Rules about commands must match what the shell would start, never the text: `"r"m`, `$'rm'`,
//! `env rm` and `echo | xargs rm` all run `rm`. [`read`] resolves quoting to the real arguments,
//! collects every simple command at any nesting, and follows programs that start others. It reports
//! what it cannot determine: a word is [`Word::Unknown`], an understanding is
//! [`Understanding::Partly`] or [`Understanding::Not`].
//!
//! The grammar is that of bash, in a handwritten and conservative parser. Two existing parsers were
//! evaluated first. `tree-sitter-bash` 0.25 misparses without an error: in `echo \ #x; rm y` it
//! treats the second command as a comment, it splits a word at a continued line, and it loses
//! nested backquotes. `brush-parser` 0.4 overflows the stack on nested input, needs seconds for 200
//! nested `case`, keeps its input in a global cache, parses `{x}>f` as an argument, and adds 77
//! crates. A checker that accepts less than the shell is safe; one that parses something else is
//! not. The tests compare this crate with bash itself.
//!
//! Pure: no input, no output, no clock. It never panics, and its time is bounded by [`MAX_BYTES`],
//! [`MAX_DEPTH`] and [`MAX_COMMANDS`].
//!
//! It does not analyze the content of script files and of other languages (`python -c`), the
//! commands inside containers (`docker exec`), and programs that a program starts on its own.

mod carry;
mod danger;
mod pattern;
mod reader;
mod script;
mod wrapper;

pub use danger::{Danger, DangerKind, MAX_DANGERS, MAX_SHOWN_CHARACTERS, dangers};
pub use pattern::{MAX_PATTERN_BYTES, Pattern, PatternError, Verdict};
pub use reader::{MAX_BYTES, MAX_COMMANDS, MAX_DEPTH};
pub use script::{Redirect, Script, Simple, Understanding, Word};

/// Why a line with arithmetic and a quoted `$` is not completely understood.
const COMPUTES: &str = "arithmetic may run the content of a quoted text";

/// Parses a command line as bash would.
pub fn read(command: &str) -> Understanding {
    read_at(command, 0, &[])
}

/// Parses a text nested in `depth` others, whose commands read this input.
fn read_at(text: &str, depth: usize, input: &[Redirect]) -> Understanding {
    let gathered = match reader::gather(text, depth) {
        Ok(gathered) => gathered,
        Err(why) => {
            return Understanding::Not {
                why: why.to_owned(),
            };
        }
    };
    let mut script = gathered.script;
    let mut doubt = (script.computes && gathered.quoted_dollar).then(|| COMPUTES.to_owned());
    // The text does not show which of several commands reads the input.
    if let [only] = script.commands.as_mut_slice()
        && only.redirects.is_empty()
    {
        only.redirects.extend(input.iter().cloned());
    }
    for command in &mut script.commands {
        let found = carry::complete(command, depth);
        doubt = doubt.or(found);
    }
    // One command makes a variable arithmetic, and another assigns the text to it.
    if doubt.is_none()
        && gathered.quoted_dollar
        && script.effective().into_iter().any(carry::may_compute)
    {
        doubt = Some(COMPUTES.to_owned());
    }
    match doubt {
        None => Understanding::Whole(script),
        Some(why) => Understanding::Partly { script, why },
    }
}
