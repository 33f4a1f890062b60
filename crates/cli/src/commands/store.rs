//! `sortie store`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use sortie_core::event::JournalEntry;
use sortie_core::run::Summary;
use sortie_core::words::Lang;
#[cfg(feature = "postgres")]
use sortie_store::CopyTo;
use sortie_store::{CopyProgress, CopyReport};
use sortie_text::t;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(Check),
    Migrate(Migrate),
    #[cfg(feature = "postgres")]
    Copy(Copy),
    Backup(Backup),
}

/// Checks every journal, record, account and audit entry of the store
///
/// Works while another process executes tasks. Exits with 1 if something is wrong.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Creates the tables of the store, or brings them to the version of this program
///
/// Every command that runs tasks does the same. Afterwards an older program refuses the store, so make
/// a backup first.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Copies all tasks between the file in the home folder and the configured PostgreSQL database
///
/// Both must be unused meanwhile: stop the server first. The copy is compared row by row, and its
/// hash chains are checked. A copy that was interrupted continues when the command is repeated. A
/// target that contains other tasks is refused. The source is not changed.
#[cfg(feature = "postgres")]
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// Where the tasks go
    #[arg(long, value_enum)]
    to: Place,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// A place of tasks.
#[cfg(feature = "postgres")]
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Place {
    /// The database that `store` in the configuration names
    Database,
    /// The file in the home folder
    File,
}

/// Writes all tasks into a new SQLite file, also while another process executes tasks
///
/// The file is checked before it gets its name. To restore it, stop Sortie and put it in the place of
/// `sortie.db` in the home folder; `sortie store copy` brings it from there into a database.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to create
    file: PathBuf,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl StoreCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match self {
            Self::Check(check) => check.run(settings).await,
            Self::Migrate(migrate) => migrate.run(settings),
            #[cfg(feature = "postgres")]
            Self::Copy(copy) => copy.run(settings).await,
            Self::Backup(backup) => backup.run(settings).await,
        }
    }
}

/// Folds a journal into the summaries that its record may have.
pub(super) fn folded(entries: &[JournalEntry]) -> Result<Vec<Summary>, String> {
    sortie_runtime::summaries_of(entries).map_err(|illegal| illegal.to_string())
}

impl Check {
    async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let lang = settings.lang;
        let store = settings.options.read_store()?;
        let journals = store.verify(folded).await?;
        let audited = store.verify_audit().await?;
        let version = settings.options.store_version()?;
        let problems: Vec<&String> = journals.problems.iter().chain(&audited.problems).collect();
        let good = problems.is_empty();
        if self.json {
            output::json(&serde_json::json!({
                "schema_version": version,
                "tasks": journals.runs,
                "entries": journals.entries,
                "audit_entries": audited.entries,
                "audit_head": audited.head,
                "problems": problems,
            }))?;
        } else {
            for problem in problems {
                output::text(&sortie_base::hidden::write_out_line(problem))?;
            }
            let message = if good {
                "store-checked"
            } else {
                "store-summary"
            };
            output::text(&t!(
                lang,
                message,
                tasks = journals.runs,
                entries = journals.entries,
                audit = audited.entries,
                version = version.unwrap_or(0)
            ))?;
        }
        if good {
            return Ok(Exit::Ok);
        }
        let message = t!(lang, "store-damaged");
        output::note(&t!(lang, "error-line", message = message));
        output::note(&t!(
            lang,
            "error-hint",
            hint = t!(lang, "hint-store-damaged")
        ));
        Ok(Exit::Failed)
    }
}

impl Migrate {
    fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let before = settings.options.store_version()?;
        drop(settings.options.open_store()?);
        let now = settings.options.store_version()?;
        if self.json {
            output::json(&serde_json::json!({"from": before, "to": now}))?;
            return Ok(Exit::Ok);
        }
        let version = now.unwrap_or(0);
        let words = if before == now {
            t!(settings.lang, "store-current", version = version)
        } else {
            t!(settings.lang, "store-migrated", version = version)
        };
        output::text(&words)?;
        Ok(Exit::Ok)
    }
}

#[cfg(feature = "postgres")]
impl Copy {
    async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let to = match self.to {
            Place::Database => CopyTo::Database,
            Place::File => CopyTo::File,
        };
        let options = settings.options.clone();
        let mut lines = ProgressLines::new(settings.lang);
        let copying = move || options.copy_store(to, folded, &mut |step| lines.show(step));
        let report = blocking(copying).await?;
        print(settings.lang, self.json, &report, "store-copied")?;
        if to == CopyTo::File && !self.json {
            output::note(&t!(settings.lang, "store-use-file"));
        }
        Ok(Exit::Ok)
    }
}

impl Backup {
    async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let options = settings.options.clone();
        let mut lines = ProgressLines::new(settings.lang);
        let file = settings.options.workspace.join(self.file);
        let backing_up = move || options.back_up_store(&file, folded, &mut |step| lines.show(step));
        let report = blocking(backing_up).await?;
        print(settings.lang, self.json, &report, "store-backed-up")?;
        Ok(Exit::Ok)
    }
}

/// Runs a job of the store on a thread that may block.
async fn blocking(
    job: impl FnOnce() -> Result<CopyReport, sortie_core::ports::store::StoreError> + Send + 'static,
) -> Result<CopyReport, Problem> {
    match tokio::task::spawn_blocking(job).await {
        Ok(report) => Ok(report?),
        Err(died) => Err(Problem::Output(std::io::Error::other(died))),
    }
}

fn print(lang: Lang, json: bool, report: &CopyReport, message: &str) -> Result<(), Problem> {
    if json {
        return output::json(&serde_json::json!({
            "tasks": report.tasks,
            "entries": report.entries,
            "audit_entries": report.audit,
            "continued": report.continued,
        }));
    }
    let words = t!(
        lang,
        message,
        tasks = report.tasks,
        entries = report.entries,
        audit = report.audit
    );
    output::text(&words)
}

/// Prints how far a copy is, at most once a second.
struct ProgressLines {
    lang: Lang,
    last: Instant,
}

impl ProgressLines {
    fn new(lang: Lang) -> Self {
        Self {
            lang,
            last: Instant::now(),
        }
    }

    fn show(&mut self, step: CopyProgress) {
        let is_due = self.last.elapsed() >= PROGRESS_INTERVAL;
        let line = match step {
            CopyProgress::Checking => t!(self.lang, "store-copy-checking"),
            CopyProgress::Reading { table } if is_due => {
                t!(self.lang, "store-copy-reading", table = table)
            }
            CopyProgress::Copying { table, rows } if is_due => {
                t!(self.lang, "store-copy-rows", table = table, rows = rows)
            }
            CopyProgress::Reading { .. } | CopyProgress::Copying { .. } => return,
        };
        output::note(&line);
        self.last = Instant::now();
    }
}
