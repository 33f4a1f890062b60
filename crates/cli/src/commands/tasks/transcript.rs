//! `sortie tasks transcript`.

use clap::Args;
use serde::Serialize;
use sortie_core::id::Seq;
use sortie_runtime::{TranscriptLine, transcript};
use sortie_text::{strip_sequences, t};

use super::open;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Prints the conversation of a task with its tool calls, for people
#[derive(Debug, Args)]
pub(crate) struct Transcript {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    at: String,
    kind: &'static str,
    text: &'a str,
}

impl Transcript {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let (store, record) = open(settings, &self.id).await?;
        let lines = transcript(&store.read(record.run_id, Seq(0)).await?);
        if self.json {
            let lines: Vec<Line<'_>> = lines
                .iter()
                .map(|line| Line {
                    at: line.at.to_rfc3339(),
                    kind: line.kind,
                    text: &line.text,
                })
                .collect();
            output::json(&lines)?;
            return Ok(Exit::Ok);
        }
        if lines.is_empty() {
            output::note(&t!(settings.lang, "no-transcript"));
            return Ok(Exit::Ok);
        }
        let lines: Vec<String> = lines.iter().map(readable).collect();
        output::text(&lines.join("\n"))?;
        Ok(Exit::Ok)
    }
}

/// Formats a line as `12:34:56 call grep {…}`, with further lines below the text.
fn readable(line: &TranscriptLine) -> String {
    let at = line.at.to_rfc3339();
    let time = at.get(11..19).unwrap_or(&at);
    let head = format!("{time} {:<12} ", line.kind);
    let text = strip_sequences(&line.text);
    let below = format!("\n{}", " ".repeat(head.len()));
    format!("{head}{}", text.trim_end().replace('\n', &below))
}
