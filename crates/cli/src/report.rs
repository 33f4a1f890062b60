//! Reports the end of a run to the user.

use sortie_core::id::RunId;
use sortie_core::message::Usage;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::{Outcome, Reason, RunRecord, Status};
use sortie_core::words::Lang;
use sortie_text::{one_line, outcome_error, strip_sequences, t, truncate_middle};

use crate::engine::Engine;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// The most characters of a partial text; `sortie tasks result` prints all of it.
const PARTIAL_CHARS: usize = 2_000;

/// Reports how a run ended: its text on stdout, or the partial results on stderr.
pub(crate) async fn ended(
    settings: &Settings,
    engine: &Engine,
    record: &RunRecord,
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
            let children = completed_children(engine, record.run_id).await?;
            not_completed(settings, record, outcome, &children);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Writes a result to stdout: unchanged for a program, without control sequences for a terminal.
pub(crate) fn final_text(settings: &Settings, text: &str) -> Result<(), Problem> {
    if settings.terminal.output {
        output::text(&strip_sequences(text))
    } else {
        output::text(text)
    }
}

/// Formats the usage; `None` if it is unknown.
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

/// Describes why a run has no full result, in the user's language.
pub(crate) fn why(lang: Lang, record: &RunRecord) -> Option<String> {
    let outcome = record.outcome.as_ref()?;
    // A run that its executor ended as stuck has a message that names the cause.
    if outcome.reason() == Some(Reason::Interrupted) && record.crashes > 0 {
        // The store fails such runs itself, and its message is not localised.
        return Some(t!(lang, "fail-interrupted", deaths = record.crashes));
    }
    outcome_error(lang, outcome)
}

fn not_completed(
    settings: &Settings,
    record: &RunRecord,
    outcome: &Outcome,
    children: &[RunRecord],
) {
    let lang = settings.lang;
    let message = strip_sequences(&why(lang, record).unwrap_or_default());
    output::note(&t!(lang, "error-line", message = message));
    if let Some(partial) = outcome.text().filter(|text| !text.trim().is_empty()) {
        output::note(&t!(lang, "kept-text"));
        let partial = truncate_middle(&strip_sequences(partial), PARTIAL_CHARS, "\n[…]\n").text;
        output::note(&indented(&partial));
    }
    for child in children {
        output::note(&t!(
            lang,
            "kept-child",
            agent = &child.agent,
            label = one_line(&child.label),
            id = &child.handle
        ));
    }
    output::note(&t!(lang, "kept-look", id = &record.handle));
}

/// Returns the descendants of a root that completed, oldest first.
async fn completed_children(engine: &Engine, root: RunId) -> Result<Vec<RunRecord>, Problem> {
    let filter = ListFilter {
        root: Some(root),
        statuses: vec![Status::Completed],
        archived: true,
        oldest_first: true,
        ..ListFilter::default()
    };
    let mut completed = engine.list(filter).await?;
    completed.retain(|run| run.run_id != root);
    Ok(completed)
}

pub(crate) fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
