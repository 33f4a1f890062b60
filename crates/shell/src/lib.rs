//! What a shell command would run, told without running it.
//!
//! Rules about commands have to be matched on what the shell would start, never on its text:
//! `"r"m`, `$'rm'`, `env rm` and `echo | xargs rm` all run `rm`. [`read`] resolves quoting to the
//! real arguments, gathers every simple command wherever it stands, and sees through programs that
//! start others. What it cannot tell for certain it says: a word is [`Word::Unknown`], an
//! understanding is [`Understanding::Partly`] or [`Understanding::Not`].
//!
//! The grammar is bash's, read by hand and conservatively. Two ready parsers were measured first.
//! `tree-sitter-bash` 0.25 misreads without an error: in `echo \ #x; rm y` it takes the second
//! command for a comment, it cuts a word at a continued line, and loses nested backquotes.
//! `brush-parser` 0.4 overflows the stack on nested input, needs seconds for 200 nested `case`,
//! keeps what it read in a global cache, takes `{x}>f` for an argument, and brings 77 crates. A
//! checker that accepts less than the shell is safe; one that reads something else is not. The
//! tests compare it with bash itself.
//!
//! Pure: no input, no output, no clock. Never panics, and its time is bounded by [`MAX_BYTES`],
//! [`MAX_DEPTH`] and [`MAX_COMMANDS`].
//!
//! What it does not see: the inside of script files and of other languages (`python -c`), what
//! containers run (`docker exec`), and programs that a program starts on its own.

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

/// Why a line with arithmetic and a quoted `$` is not understood wholly.
const COMPUTES: &str = "arithmetic may run what a quoted text holds";

/// Reads a command line as bash would.
pub fn read(command: &str) -> Understanding {
    read_at(command, 0, &[])
}

/// Reads a text that stands inside `depth` others, which read this input.
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
    // Which of several commands reads the input is not told by the text.
    if let [only] = script.commands.as_mut_slice()
        && only.redirects.is_empty()
    {
        only.redirects.extend(input.iter().cloned());
    }
    for command in &mut script.commands {
        let found = carry::complete(command, depth);
        doubt = doubt.or(found);
    }
    // One command makes a variable arithmetic, and another one assigns the text to it.
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
