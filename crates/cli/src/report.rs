//! What a person reads when a run has ended.

use sortie_core::{Lang, Outcome, Reason, RunId, RunRecord, Usage};
use sortie_text::{one_line, outcome_error, strip_sequences, t, truncate_middle};

use crate::ids::Prefixes;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// How much of an unfinished text is shown; `sortie tasks result` has all of it.
const PARTIAL_CHARS: usize = 2_000;

/// Says how a run ended: its text on stdout, or what is left of it on stderr.
pub(crate) fn ended(
    settings: &Settings,
    record: &RunRecord,
    all: &[RunRecord],
) -> Result<(), Problem> {
    match &record.outcome {
        Some(Outcome::Completed { text }) => {
            final_text(settings, text)?;
            if settings.terminal.progress
                && let Some(spent) = spent(settings.lang, record.total_usage())
            {
                output::note(&t!(settings.lang, "run-spent", spent = spent));
            }
            blocked(settings, record);
            Ok(())
        }
        Some(outcome) => {
            not_completed(settings, record, outcome, all);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Writes a result to stdout: as it is for a program, without control sequences for a terminal.
pub(crate) fn final_text(settings: &Settings, text: &str) -> Result<(), Problem> {
    if settings.terminal.output {
        output::text(&strip_sequences(text))
    } else {
        output::text(text)
    }
}

/// What was used, in words; `None` if nobody knows.
pub(crate) fn spent(lang: Lang, usage: Usage) -> Option<String> {
    let tokens = t!(
        lang,
        "spent-tokens",
        input = usage.input_tokens?,
        cached = usage.cache_read_tokens.unwrap_or(0),
        output = usage.output_tokens.unwrap_or(0)
    );
    Some(match usage.cost_usd {
        Some(cost) => format!(
            "{tokens}, {}",
            t!(lang, "spent-cost", cost = format!("{cost:.4}"))
        ),
        None => format!("{tokens}, {}", t!(lang, "spent-unknown")),
    })
}

fn blocked(settings: &Settings, record: &RunRecord) {
    if let Some(error) = &record.delivery_error {
        output::note(&t!(
            settings.lang,
            "delivery-blocked",
            error = one_line(error)
        ));
    }
}

/// Why a run has no full result, as a sentence in the reader's language.
pub(crate) fn why(lang: Lang, record: &RunRecord) -> Option<String> {
    let outcome = record.outcome.as_ref()?;
    // A run that its executor ended as stuck has a message that names the cause.
    if outcome.reason() == Some(Reason::Interrupted) && record.crashes > 0 {
        // The store, which gives such runs up, speaks no language.
        return Some(t!(lang, "fail-interrupted", deaths = record.crashes));
    }
    outcome_error(lang, outcome)
}

fn not_completed(settings: &Settings, record: &RunRecord, outcome: &Outcome, all: &[RunRecord]) {
    let lang = settings.lang;
    let message = strip_sequences(&why(lang, record).unwrap_or_default());
    output::note(&t!(lang, "error-line", message = message));
    if let Some(partial) = outcome.text().filter(|text| !text.trim().is_empty()) {
        output::note(&t!(lang, "kept-text"));
        let partial = truncate_middle(&strip_sequences(partial), PARTIAL_CHARS, "\n[…]\n").text;
        output::note(&indented(&partial));
    }
    let prefixes = Prefixes::of(all.iter().map(|run| run.run_id));
    for child in finished_children(record.run_id, all) {
        output::note(&t!(
            lang,
            "kept-child",
            agent = &child.agent,
            label = one_line(&child.label),
            id = prefixes.short(child.run_id)
        ));
    }
    output::note(&t!(lang, "kept-look", id = prefixes.short(record.run_id)));
}

/// Descendants that completed, oldest first.
fn finished_children(root: RunId, all: &[RunRecord]) -> impl Iterator<Item = &RunRecord> {
    all.iter().rev().filter(move |run| {
        run.root == root
            && run.run_id != root
            && matches!(run.outcome, Some(Outcome::Completed { .. }))
    })
}

/// Every line set off from the margin.
pub(crate) fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
