//! Tests of parsing, carried commands, patterns and dangers, and comparisons with bash itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its case has failed"
)]

mod carrying;
mod dangers;
mod executor;
mod hostile;
mod ordinary;
mod patterns;
mod reading;
mod real_options;
mod real_runs;
mod real_words;

use sortie_shell::{Script, Simple, Understanding, Word};

/// Renders the commands as a line of text: unknown words as `<how they are written>`.
fn rendered(understanding: &Understanding) -> String {
    match understanding {
        Understanding::Whole(script) => commands(script),
        Understanding::Partly { script, .. } => format!("partly {}", commands(script)),
        Understanding::Not { .. } => "not".to_owned(),
    }
}

fn commands(script: &Script) -> String {
    let all = script.effective();
    let all: Vec<String> = all.into_iter().map(words).collect();
    all.join(" ; ")
}

fn words(command: &Simple) -> String {
    let assignments = command
        .assignments
        .iter()
        .map(|(name, _)| format!("{name}=…"));
    let words = command.words.iter().map(|word| match word {
        Word::Known(text) if text.contains(' ') || text.is_empty() => format!("({text})"),
        Word::Known(text) => text.clone(),
        Word::Unknown(text) | Word::Single(text) => format!("<{text}>"),
    });
    let parts: Vec<String> = assignments.chain(words).collect();
    parts.join(" ")
}
