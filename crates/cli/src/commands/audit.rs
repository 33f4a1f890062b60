//! `sortie audit`: every tool call, who decided it, and whether the record was altered.

use std::collections::{BTreeSet, VecDeque};

use clap::{Args, Subcommand};
use sortie_base::hidden::write_out_line;
use sortie_core::audit::{AuditLine, AuditStage};
use sortie_core::id::RunId;
use sortie_core::message::ResultStatus;
use sortie_core::policy::{ApprovedBy, Ruling};
use sortie_core::ports::store::{AuditFilter, StoreError};
use sortie_store::ReadStore;
use sortie_text::t;

use super::tasks::{handles, resolve};
use crate::approval::shown;
use crate::exit::Exit;
use crate::ids::Handles;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Lines read per query: an audit can be larger than memory.
const PAGE_LINES: u32 = 1_000;

/// Prints every tool call with its decision, its approver and its outcome
///
/// Audit entries stay when a transcript or a task is deleted. Each entry carries a hash over itself
/// and the entry before; `sortie audit verify` checks the whole chain.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Prints only calls of this task and its descendants
    #[arg(value_name = "ID")]
    run: Option<String>,
    /// Prints only entries after this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// Prints the last entries, at most this many; with --after, the first ones; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    limit: u32,
    /// Prints complete entries, one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(Verify),
}

/// Checks that no audit entry was changed, removed or left out
///
/// Keep the hash that it prints elsewhere: with it you can also detect a truncated end.
#[derive(Debug, Args)]
struct Verify {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match &self.command {
            Some(AuditCommand::Verify(verify)) => verify.run(settings).await,
            None => self.print(settings).await,
        }
    }

    async fn print(&self, settings: &Settings) -> Result<Exit, Problem> {
        let store = settings.options.read_store()?;
        let run = match &self.run {
            Some(id) => Some(audited(&store, id).await?),
            None => None,
        };
        if self.limit > 0 && self.after == 0 {
            return self.print_last(settings, &store, run).await;
        }
        let mut after = self.after;
        let mut printed = 0;
        loop {
            let limit = match self.limit {
                0 => PAGE_LINES,
                limit => PAGE_LINES.min(limit - printed),
            };
            let filter = AuditFilter {
                run,
                after,
                limit,
                ..AuditFilter::default()
            };
            let lines = store.audit(filter).await?;
            let tasks: BTreeSet<RunId> = lines.iter().map(|line| line.entry.run).collect();
            let handles = handles(&store, tasks.into_iter()).await?;
            for line in &lines {
                self.print_line(line, &handles)?;
                after = line.seq;
                printed += 1;
            }
            let is_last = lines.len() < limit as usize;
            if is_last || (self.limit > 0 && printed >= self.limit) {
                break;
            }
        }
        if printed == 0 && !self.json {
            output::note(&t!(settings.lang, "audit-empty"));
        }
        Ok(Exit::Ok)
    }

    /// Prints the newest lines, oldest first.
    async fn print_last(
        &self,
        settings: &Settings,
        store: &ReadStore,
        run: Option<RunId>,
    ) -> Result<Exit, Problem> {
        let mut last: VecDeque<AuditLine> = VecDeque::new();
        let mut after = 0;
        loop {
            let filter = AuditFilter {
                run,
                after,
                limit: PAGE_LINES,
                ..AuditFilter::default()
            };
            let lines = store.audit(filter).await?;
            let is_end = lines.len() < PAGE_LINES as usize;
            after = lines.last().map_or(after, |line| line.seq);
            last.extend(lines);
            let too_many = last.len().saturating_sub(self.limit as usize);
            last.drain(..too_many);
            if is_end {
                break;
            }
        }
        let tasks: BTreeSet<RunId> = last.iter().map(|line| line.entry.run).collect();
        let handles = handles(store, tasks.into_iter()).await?;
        for line in &last {
            self.print_line(line, &handles)?;
        }
        if last.is_empty() && !self.json {
            output::note(&t!(settings.lang, "audit-empty"));
        }
        Ok(Exit::Ok)
    }

    fn print_line(&self, line: &AuditLine, handles: &Handles) -> Result<(), Problem> {
        if self.json {
            output::json_line(&sortie_protocol::AuditLine::from(line.clone()))
        } else {
            output::text(&words(line, handles))
        }
    }
}

/// Resolves the id of a task. A deleted task keeps its audit lines; it needs the whole id.
async fn audited(store: &ReadStore, id: &str) -> Result<RunId, Problem> {
    let found = resolve(store, id).await;
    let missing = matches!(
        &found,
        Err(Problem::Runtime(sortie_runtime::RuntimeError::Store(
            StoreError::NotFound(_)
        )))
    );
    match id.parse() {
        Ok(run) if missing => Ok(run),
        Ok(_) | Err(_) => found,
    }
}

/// Formats a line with the audit's own terms.
fn words(line: &AuditLine, handles: &Handles) -> String {
    let entry = &line.entry;
    let mut words = vec![
        format!("{:>4}", line.seq),
        line.at.to_rfc3339(),
        handles.of(entry.run),
        format!("[{}]", write_out_line(&entry.agent)),
        write_out_line(&entry.tool),
    ];
    words.extend(entry.ruling.as_ref().map(ruling));
    words.push(stage(&entry.stage));
    words.join(" ")
}

fn ruling(ruling: &Ruling) -> String {
    let mut words = format!("{} by {}", ruling.decision, ruling.layer);
    if let Some(rule) = &ruling.rule {
        words.push_str(&format!(" ({})", shown(rule)));
    }
    match &ruling.approved {
        None => {}
        Some(ApprovedBy::Person { name, .. }) => {
            words.push_str(&format!(", yes from {}", shown(name)));
        }
        Some(ApprovedBy::Grant { rule }) => {
            words.push_str(&format!(", granted before ({})", shown(rule)));
        }
    }
    words
}

fn stage(stage: &AuditStage) -> String {
    match stage {
        AuditStage::Begun => "begun".to_owned(),
        AuditStage::Waits => "waits".to_owned(),
        AuditStage::Ended {
            status,
            duration_ms,
            sandbox,
            ..
        } => {
            let status = match status {
                ResultStatus::Ok => "ok",
                ResultStatus::Error => "error",
                ResultStatus::Denied => "denied",
                ResultStatus::Interrupted => "interrupted",
            };
            let mut words = format!("{status} {duration_ms}ms");
            if let Some(backend) = sandbox.as_ref().and_then(backend) {
                words.push_str(&format!(" in {}", write_out_line(backend)));
            }
            words
        }
    }
}

/// Returns the name of the sandbox backend that confined a command, as the audit records it.
pub(super) fn backend(sandbox: &serde_json::Value) -> Option<&str> {
    sandbox.get("backend").and_then(serde_json::Value::as_str)
}

impl Verify {
    async fn run(&self, settings: &Settings) -> Result<Exit, Problem> {
        let report = settings.options.read_store()?.verify_audit().await?;
        let lang = settings.lang;
        let good = report.problems.is_empty();
        if self.json {
            output::json(&report)?;
        } else {
            for problem in &report.problems {
                output::text(&write_out_line(problem))?;
            }
            let head = report.head.as_deref().unwrap_or("-");
            let words = t!(lang, "audit-checked", entries = report.entries, head = head);
            output::text(&words)?;
        }
        if good {
            return Ok(Exit::Ok);
        }
        let words = t!(lang, "audit-damaged", count = report.problems.len());
        output::note(&t!(lang, "error-line", message = words));
        output::note(&t!(lang, "error-hint", hint = t!(lang, "hint-audit")));
        Ok(Exit::Failed)
    }
}
