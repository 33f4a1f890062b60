//! The two streams: results for programs and people on stdout, everything else on stderr.

use std::io::{self, Write};

use serde::Serialize;

use crate::problem::Problem;

/// Writes a text to stdout, and ends its last line.
pub(crate) fn text(text: &str) -> Result<(), Problem> {
    write_text(&mut io::stdout().lock(), text).map_err(Problem::Output)
}

/// Writes a value to stdout as JSON that a person can read too.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    let json = serde_json::to_string_pretty(value)
        .map_err(io::Error::from)
        .map_err(Problem::Output)?;
    text(&json)
}

/// Writes a value to stdout as one line of JSON, at once.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Problem> {
    let json = serde_json::to_string(value)
        .map_err(io::Error::from)
        .map_err(Problem::Output)?;
    text(&json)
}

/// Writes a line to stderr.
pub(crate) fn note(line: &str) {
    // There is nowhere left to say that stderr is gone.
    writeln!(io::stderr().lock(), "{line}").ok();
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stream.write_all(b"\n")?;
    }
    stream.flush()
}
