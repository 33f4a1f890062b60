//! The output streams: results go to stdout, everything else to stderr.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;
use sortie_base::hidden::{write_out_for_terminal, write_out_json};

use crate::problem::Problem;

/// Writes text to stdout and ends its last line. On a terminal, any remaining hidden characters are
/// written out, whatever the source of the text.
pub(crate) fn text(text: &str) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    let written = if stdout.is_terminal() {
        write_text(&mut stdout, &write_out_for_terminal(text))
    } else {
        write_text(&mut stdout, text)
    };
    written.map_err(Problem::Output)
}

/// Writes a value to stdout as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    let json = serde_json::to_string_pretty(value)
        .map_err(io::Error::from)
        .map_err(Problem::Output)?;
    text(&write_out_json(&json))
}

/// Writes a value to stdout as one line of JSON, and flushes it.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Problem> {
    let json = serde_json::to_string(value)
        .map_err(io::Error::from)
        .map_err(Problem::Output)?;
    text(&write_out_json(&json))
}

/// Writes a line to stderr.
pub(crate) fn note(line: &str) {
    // If stderr is closed, the failure cannot be reported.
    writeln!(io::stderr().lock(), "{}", for_terminal(line)).ok();
}

/// Returns a line with this program's colours kept and hidden characters written out.
pub(crate) fn for_terminal(line: &str) -> String {
    write_out_for_terminal(line)
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stream.write_all(b"\n")?;
    }
    stream.flush()
}
