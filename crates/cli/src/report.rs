//! Reports the end of a run to the user.

use sortie_core::event::{Event, JournalEntry};
use sortie_core::id::{RunId, Seq};
use sortie_core::message::Usage;
use sortie_core::ports::model::Fault;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::{Outcome, Reason, RunRecord, Status};
use sortie_core::words::Lang;
use sortie_text::{one_line, outcome_error, strip_sequences, t, truncate_middle};

use crate::chat::render_markdown;
use crate::engine::Engine;
use crate::ids::short_label;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table::elapsed;
use crate::theme::Themed as _;

/// The most characters of a partial text; `sortie tasks result` prints all of it.
const PARTIAL_CHARS: usize = 2_000;

/// Entries at the end of a journal among which the collected changes are.
const LAST_ENTRIES: i64 = 8;

/// Reports how a run ended: its text on stdout, or the partial results on stderr.
pub(crate) async fn ended(
    settings: &Settings,
    engine: &Engine,
    record: &RunRecord,
) -> Result<(), Problem> {
    match &record.outcome {
        Some(Outcome::Completed { text, .. }) => {
            final_text(settings, text)?;
            if settings.terminal.progress {
                summary(settings, engine, record);
            }
            if let Some(next) = next_step(settings.lang, engine, record).await? {
                output::note(&next);
            }
            blocked(settings, record);
            Ok(())
        }
        Some(outcome) => {
            let children = completed_children(engine, record.run_id).await?;
            not_completed(settings, record, outcome, &children);
            if let Some(hint) = model_hint(settings.lang, engine, record).await? {
                output::note(&t!(settings.lang, "error-hint", hint = hint));
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns what to do about a run that ended because its model could not be prompted.
async fn model_hint(
    lang: Lang,
    engine: &Engine,
    record: &RunRecord,
) -> Result<Option<String>, Problem> {
    if record.reason() != Some(Reason::Error) {
        return Ok(None);
    }
    let after = Seq(record.head.0.saturating_sub(LAST_ENTRIES));
    let entries = engine.events(record.run_id, after).await?;
    let prompted = |entry: &&JournalEntry| {
        matches!(
            entry.event,
            Event::ModelFailed { .. } | Event::Answered { .. }
        )
    };
    let last = entries.iter().rev().find(prompted);
    let Some(Event::ModelFailed { model, fault, .. }) = last.map(|entry| &entry.event) else {
        return Ok(None);
    };
    let model = one_line(model);
    Ok(match *fault {
        Fault::Auth => Some(t!(lang, "hint-model-key", model = model)),
        Fault::BadRequest => Some(t!(lang, "hint-model-name", model = model)),
        Fault::Transient | Fault::RateLimited { .. } => Some(t!(
            lang,
            "hint-model-silent",
            model = model,
            id = &record.handle
        )),
        Fault::ContextOverflow
        | Fault::ContentFilter
        | Fault::TextCall { .. }
        | Fault::Cancelled => None,
    })
}

/// Prints the handle of a run, its time and its cost.
fn summary(settings: &Settings, engine: &Engine, record: &RunRecord) {
    let mut words = vec![record.handle.clone(), elapsed(record, engine.now())];
    words.extend(spent(settings.lang, record.total_usage()));
    let line = format!("[{}]", words.join(" · "));
    let faint = console::Style::new().muted().for_stderr();
    output::note(&faint.apply_to(line).to_string());
}

/// Returns what to do with the changes of a run that worked in its own worktree.
pub(crate) async fn next_step(
    lang: Lang,
    engine: &Engine,
    record: &RunRecord,
) -> Result<Option<String>, Problem> {
    if record.changes_fate.is_some() {
        return Ok(None);
    }
    // The changes are collected right before the end.
    let after = Seq(record.head.0.saturating_sub(LAST_ENTRIES));
    let entries = engine.events(record.run_id, after).await?;
    let has_changes = entries.iter().any(|entry| {
        matches!(
            entry.event,
            Event::Collected {
                changes: Some(_),
                ..
            }
        )
    });
    if !has_changes {
        return Ok(None);
    }
    Ok(Some(t!(lang, "next-changes", id = &record.handle)))
}

/// Writes a result to stdout: unchanged for a program, as rendered Markdown for a terminal.
pub(crate) fn final_text(settings: &Settings, text: &str) -> Result<(), Problem> {
    if settings.terminal.output {
        let (_, columns) = console::Term::stdout().size();
        let lines = render_markdown(text, usize::from(columns).saturating_sub(1));
        output::text(&lines.join("\n"))
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
            label = short_label(&child.label),
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
