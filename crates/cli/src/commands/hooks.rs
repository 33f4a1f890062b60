//! `sortie hooks`: the operator's hooks, and their letters that were given up.

use clap::{Args, Subcommand};
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::hook::{HookVerdict, LetterState};
use sortie_core::ports::store::Unblock;
use sortie_core::time::Clock as _;
use sortie_protocol::{DeadLetter, Hook};
use sortie_runtime::ProcessClock;
use sortie_text::{t, truncate_columns};

use crate::commands::tasks::output_columns;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Columns of a command, an address or an error in a list; `--json` prints all of it.
const TARGET_COLUMNS: usize = 60;
/// The most letters of a list.
const MAX_LISTED: u32 = 1_000;

/// Lists and tests hooks, and shows what could not be delivered to them.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Lists the hooks, with the numbers of letters that wait or were given up
    List {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists the letters that were given up, with the last error
    Dead {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Delivers letters again that were given up
    Retry(Letters),
    /// Drops letters that were given up
    Dismiss(Letters),
    /// Sends a hook a test event: runs its command, or sends it a signed request
    Test {
        /// Name of the hook
        name: String,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Letters {
    /// Number of the letter, as `sortie hooks dead` prints it
    #[arg(required_unless_present = "all")]
    id: Option<i64>,
    /// Selects all of them
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl HooksCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        match self {
            Self::List { json } => list(settings, json).await,
            Self::Dead { json } => dead(settings, json).await,
            Self::Retry(letters) => change(settings, letters, Unblock::Retry).await,
            Self::Dismiss(letters) => change(settings, letters, Unblock::Dismiss).await,
            Self::Test { name, json } => test(settings, &name, json).await,
        }
    }
}

async fn list(settings: &Settings, json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let assembly = settings.builder().assemble()?;
    let counts = settings.options.read_store()?.letter_counts().await?;
    let configured = assembly.settings.hooks.iter();
    let hooks: Vec<Hook> = configured.map(|hook| Hook::new(hook, &counts)).collect();
    for problem in &assembly.hook_problems {
        output::note(&write_out_line(problem));
    }
    if json {
        output::json(&hooks)?;
        return Ok(Exit::Ok);
    }
    if hooks.is_empty() {
        output::note(&t!(lang, "hooks-none"));
        return Ok(Exit::Ok);
    }
    let head = vec![
        t!(lang, "column-hook"),
        t!(lang, "column-events"),
        t!(lang, "column-target"),
        t!(lang, "column-pending"),
        t!(lang, "column-dead"),
    ];
    let rows = hooks.iter().map(|hook| {
        let events: Vec<_> = hook.events.iter().map(|event| event.as_str()).collect();
        vec![
            write_out_line(&hook.name),
            events.join(", "),
            truncate_columns(&write_out_line(&hook.target), TARGET_COLUMNS),
            hook.pending.to_string(),
            hook.dead.to_string(),
        ]
    });
    let rows = rows.collect();
    output::text(&table::rows(head, rows, output_columns(settings)))?;
    Ok(Exit::Ok)
}

async fn dead(settings: &Settings, json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let store = settings.options.read_store()?;
    let letters = store.letters(LetterState::Dead, MAX_LISTED).await?;
    let letters: Vec<DeadLetter> = letters.iter().map(DeadLetter::from).collect();
    if json {
        output::json(&letters)?;
        return Ok(Exit::Ok);
    }
    if letters.is_empty() {
        output::note(&t!(lang, "hooks-no-dead"));
        return Ok(Exit::Ok);
    }
    let head = vec![
        t!(lang, "column-number"),
        t!(lang, "column-hook"),
        t!(lang, "column-events"),
        t!(lang, "column-at"),
        t!(lang, "column-error"),
    ];
    let rows = letters.iter().map(|letter| {
        let error = letter.error.as_deref().unwrap_or_default();
        vec![
            letter.id.to_string(),
            write_out_line(letter.receiver.trim_start_matches("hook:")),
            write_out_line(&letter.event),
            letter.at.clone(),
            truncate_columns(&write_out_line(error), TARGET_COLUMNS),
        ]
    });
    let rows = rows.collect();
    output::text(&table::rows(head, rows, output_columns(settings)))?;
    Ok(Exit::Ok)
}

async fn change(settings: &Settings, letters: Letters, choice: Unblock) -> Result<Exit, Problem> {
    let engine = Engine::idle(settings).await?;
    let changed = engine.unblock_letters(letters.id, choice).await;
    engine.shut_down().await;
    let changed = changed?;
    if let (0, Some(id)) = (changed, letters.id) {
        return Err(Problem::Nothing(t!(
            settings.lang,
            "hooks-no-letter",
            id = id
        )));
    }
    if letters.json {
        output::json(&json!({ "changed": changed }))?;
    } else {
        let key = match choice {
            Unblock::Retry => t!(settings.lang, "hooks-retried", count = changed),
            Unblock::Dismiss => t!(settings.lang, "hooks-dismissed", count = changed),
        };
        output::text(&key)?;
    }
    Ok(Exit::Ok)
}

async fn test(settings: &Settings, name: &str, json: bool) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let assembly = settings.builder().assemble()?;
    let known = assembly.settings.hooks.iter();
    if !known.clone().any(|hook| hook.name == name) {
        let known: Vec<String> = known.map(|hook| write_out_line(&hook.name)).collect();
        for problem in &assembly.hook_problems {
            output::note(&write_out_line(problem));
        }
        return Err(Problem::Nothing(t!(
            lang,
            "hooks-unknown",
            name = write_out_line(name),
            known = known.join(", ")
        )));
    }
    let clock = ProcessClock::start();
    let about = (clock.new_run_id(), clock.now());
    let (answer, words) = match assembly.test_hook(name, about).await {
        Ok(None) => ("accepted", String::new()),
        Ok(Some(HookVerdict::Pass { context })) => ("passed", context.unwrap_or_default()),
        Ok(Some(HookVerdict::Ask { reason })) => ("asks", reason),
        Ok(Some(HookVerdict::Block { reason })) => ("blocks", reason),
        Ok(Some(HookVerdict::Failed { why })) | Err(why) => ("failed", why),
    };
    if json {
        output::json(&json!({ "hook": name, "answer": answer, "text": words }))?;
    } else {
        let words = write_out_line(words.trim());
        output::text(&t!(
            lang,
            "hooks-tested",
            name = write_out_line(name),
            answer = answer,
            words = words
        ))?;
    }
    Ok(if answer == "failed" {
        Exit::Failed
    } else {
        Exit::Ok
    })
}
