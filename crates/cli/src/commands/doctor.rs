//! `sortie doctor`.

mod authority;
mod sandbox;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use console::Style;
use serde::Serialize;
use serde_json::json;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::store::{ListFilter, StoreResult};
use sortie_protocol::DoctorLine;
use sortie_store::ReadStore;
use sortie_text::{one_line, t};

use crate::choice::default_model;
use crate::exit::Exit;
use crate::lock::{Holder, holder};
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::theme::Themed as _;

/// Below this many free bytes, the store will soon fail.
const LOW_DISK_BYTES: u64 = 1 << 30;
/// Below this many free bytes, no write is certain to succeed.
const NO_DISK_BYTES: u64 = 64 << 20;
/// The most damaged journals that are listed.
const SHOWN_PROBLEMS: usize = 3;

/// Checks this machine and the store
///
/// Each line states the result of one check and, if something is missing, what to do about it.
/// Exits with 1 if a check fails, else with 0.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// No action is needed.
    Ok,
    /// An optional part is missing.
    Warn,
    /// The operator has to act.
    Fail,
}

/// One check and its result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// The next action of the operator, if one is needed.
    todo: Option<String>,
}

impl Check {
    /// Returns the check as a line of the API, in which a warning is no failure.
    pub(super) fn to_line(&self) -> DoctorLine {
        let detail = match &self.todo {
            Some(todo) => format!("{} ({todo})", self.found),
            None => self.found.clone(),
        };
        DoctorLine {
            name: self.name.to_owned(),
            ok: self.state != State::Fail,
            detail: one_line(&detail),
        }
    }

    const fn ok(name: &'static str, found: String) -> Self {
        Self {
            name,
            state: State::Ok,
            found,
            todo: None,
        }
    }

    const fn warn(name: &'static str, found: String, todo: String) -> Self {
        Self {
            name,
            state: State::Warn,
            found,
            todo: Some(todo),
        }
    }

    const fn fail(name: &'static str, found: String, todo: String) -> Self {
        Self {
            name,
            state: State::Fail,
            found,
            todo: Some(todo),
        }
    }
}

impl Doctor {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let checks = checks(settings).await;
        let failed = checks.iter().any(|check| check.state == State::Fail);
        if self.json {
            output::json(&json!({"ok": !failed, "checks": checks}))?;
        } else {
            for check in &checks {
                output::text(&line(settings, check))?;
            }
            output::text(&last_line(settings, &checks))?;
        }
        Ok(if failed { Exit::Failed } else { Exit::Ok })
    }
}

pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![home(settings), server::files(settings), disk(settings)];
    checks.extend(store(settings).await);
    checks.push(lock(settings));
    checks.extend(server::checks(settings));
    checks.extend([
        configuration(settings),
        keys(settings),
        model(settings).await,
        authority::servers(settings),
        git(settings),
        language(settings),
    ]);
    checks.extend(sandbox::checks(settings));
    checks
}

/// Formats a check as a line, and a second one if the operator has to act.
pub(super) fn line(settings: &Settings, check: &Check) -> String {
    let lang = settings.lang;
    let (word, style) = match check.state {
        State::Ok => (t!(lang, "doctor-ok"), Style::new().good()),
        State::Warn => (t!(lang, "doctor-warn"), Style::new().warning()),
        State::Fail => (t!(lang, "doctor-fail"), Style::new().bad()),
    };
    let line = format!(
        "{} {}: {}",
        style.apply_to(sortie_text::pad_columns(&word, 4)),
        title(settings, check.name),
        one_line(&check.found)
    );
    match &check.todo {
        Some(todo) => {
            let todo = t!(lang, "doctor-todo", todo = todo);
            format!("{line}\n     {}", todo.replace('\n', "\n     "))
        }
        None => line,
    }
}

/// Counts the checks that need an action.
fn last_line(settings: &Settings, checks: &[Check]) -> String {
    let count = |state: State| checks.iter().filter(|check| check.state == state).count();
    let (failed, warned) = (count(State::Fail), count(State::Warn));
    match (failed, warned) {
        (0, 0) => t!(settings.lang, "doctor-all-ok"),
        (0, warned) => t!(settings.lang, "doctor-warned", count = warned),
        (failed, warned) => t!(
            settings.lang,
            "doctor-failed",
            failed = failed,
            warned = warned
        ),
    }
}

/// Checks which sandbox would be used.
pub(super) fn sandbox_check(settings: &Settings) -> Check {
    sandbox::check(settings)
}

fn title(settings: &Settings, name: &str) -> String {
    let lang = settings.lang;
    match name {
        "config" => t!(lang, "doctor-config"),
        "home" => t!(lang, "doctor-home"),
        "files" => t!(lang, "doctor-files"),
        "disk" => t!(lang, "doctor-disk"),
        "store" => t!(lang, "doctor-store"),
        "journal" => t!(lang, "doctor-journal"),
        "tasks" => t!(lang, "doctor-tasks"),
        "lock" => t!(lang, "doctor-lock"),
        "server" => t!(lang, "doctor-server"),
        "port" => t!(lang, "doctor-port"),
        "open_files" => t!(lang, "doctor-open-files"),
        "audit" => t!(lang, "doctor-audit"),
        "approvals" => t!(lang, "doctor-approvals"),
        "mcp" => t!(lang, "doctor-mcp"),
        "sandbox" => t!(lang, "doctor-sandbox"),
        "control_groups" => t!(lang, "doctor-cgroups"),
        "bwrap" => t!(lang, "doctor-bwrap"),
        "landlock" => t!(lang, "doctor-landlock"),
        "namespaces" => t!(lang, "doctor-namespaces"),
        "keys" => t!(lang, "doctor-keys"),
        "model" => t!(lang, "doctor-model"),
        "git" => t!(lang, "doctor-git"),
        "language" => t!(lang, "doctor-language"),
        other => other.to_owned(),
    }
}

/// Returns the folder of the store, or its nearest existing ancestor.
fn existing(path: &Path) -> PathBuf {
    path.ancestors()
        .find(|folder| folder.is_dir())
        .unwrap_or(path)
        .to_owned()
}

fn home(settings: &Settings) -> Check {
    let lang = settings.lang;
    let path = settings.options.home.display().to_string();
    if !is_writable(&existing(&settings.options.home)) {
        return Check::fail(
            "home",
            t!(lang, "doctor-home-read-only", path = path),
            t!(lang, "doctor-home-todo"),
        );
    }
    if settings.options.home.is_dir() {
        Check::ok("home", path)
    } else {
        Check::ok("home", t!(lang, "doctor-home-new", path = path))
    }
}

fn is_writable(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn disk(settings: &Settings) -> Check {
    let lang = settings.lang;
    let Some(free) = free_bytes(&existing(&settings.options.home)) else {
        return Check::warn(
            "disk",
            t!(lang, "doctor-unknown"),
            t!(lang, "doctor-disk-todo"),
        );
    };
    let found = t!(
        lang,
        "doctor-disk-free",
        gigabytes = format!("{:.1}", free as f64 / f64::from(1 << 30))
    );
    match free {
        ..NO_DISK_BYTES => Check::fail("disk", found, t!(lang, "doctor-disk-todo")),
        NO_DISK_BYTES..LOW_DISK_BYTES => Check::warn("disk", found, t!(lang, "doctor-disk-todo")),
        LOW_DISK_BYTES.. => Check::ok("disk", found),
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Returns the first problems of a report.
fn shown(problems: &[String]) -> String {
    problems[..problems.len().min(SHOWN_PROBLEMS)].join("; ")
}

/// Opens the store read-only, verifies every journal, and looks for leftovers of earlier processes.
async fn store(settings: &Settings) -> Vec<Check> {
    let lang = settings.lang;
    let store = match settings.options.read_store() {
        Ok(store) => store,
        Err(error) => {
            let todo = t!(lang, "doctor-store-todo");
            return vec![Check::fail(
                "store",
                sortie_core::error::with_causes(&error),
                todo,
            )];
        }
    };
    vec![
        Check::ok("store", t!(lang, "doctor-store-ok")),
        journal(settings, &store).await,
        tasks(settings, &store).await,
        authority::audit(settings, &store).await,
        authority::approvals(settings, &store).await,
    ]
}

async fn journal(settings: &Settings, store: &ReadStore) -> Check {
    let lang = settings.lang;
    match store.verify(super::store::folded).await {
        Ok(report) if report.problems.is_empty() => Check::ok(
            "journal",
            t!(
                lang,
                "doctor-journal-ok",
                runs = report.runs,
                entries = report.entries
            ),
        ),
        Ok(report) => Check::fail(
            "journal",
            t!(
                lang,
                "doctor-journal-damaged",
                count = report.problems.len(),
                first = shown(&report.problems)
            ),
            t!(lang, "doctor-journal-todo"),
        ),
        Err(error) => Check::fail(
            "journal",
            sortie_core::error::with_causes(&error),
            t!(lang, "doctor-store-todo"),
        ),
    }
}

async fn tasks(settings: &Settings, store: &ReadStore) -> Check {
    let lang = settings.lang;
    let (active, blocked) = match count_tasks(store).await {
        Ok(counts) => counts,
        Err(error) => {
            return Check::fail(
                "tasks",
                sortie_core::error::with_causes(&error),
                t!(lang, "doctor-store-todo"),
            );
        }
    };
    let found = t!(
        lang,
        "doctor-tasks-found",
        active = active,
        blocked = blocked
    );
    let left_alone = active > 0 && matches!(holder(&settings.options.home), Ok(Holder::Unlocked));
    if left_alone {
        Check::warn("tasks", found, t!(lang, "doctor-tasks-todo"))
    } else {
        Check::ok("tasks", found)
    }
}

/// Counts the active tasks, and those with a blocked delivery.
async fn count_tasks(store: &ReadStore) -> StoreResult<(u64, u64)> {
    let stats = store.stats(ListFilter::default()).await?;
    let undelivered = store.undelivered().await?;
    Ok((stats.pending + stats.running, undelivered.blocked))
}

fn lock(settings: &Settings) -> Check {
    let lang = settings.lang;
    match holder(&settings.options.home) {
        Ok(Holder::Unlocked) => Check::ok("lock", t!(lang, "doctor-lock-free")),
        Ok(Holder::Locked(owner)) => {
            let owner = owner.map_or_else(|| t!(lang, "doctor-unknown"), |owner| owner.to_string());
            Check::ok("lock", t!(lang, "doctor-lock-held", owner = owner))
        }
        Err(error) => Check::fail("lock", error.to_string(), t!(lang, "doctor-home-todo")),
    }
}

/// Reports which keys are set. Prints names only: a value must never be shown.
fn keys(settings: &Settings) -> Check {
    let lang = settings.lang;
    let vendors = settings
        .options
        .model_directory(Duration::ZERO, None)
        .vendors();
    let set: Vec<String> = vendors
        .into_iter()
        .filter(|vendor| vendor.key_present)
        .map(|vendor| vendor.name)
        .collect();
    if set.is_empty() {
        Check::ok("keys", t!(lang, "doctor-keys-none"))
    } else {
        Check::ok("keys", t!(lang, "doctor-keys-set", names = set.join(", ")))
    }
}

async fn model(settings: &Settings) -> Check {
    let lang = settings.lang;
    let Ok(name) = default_model(settings).await else {
        return Check::warn(
            "model",
            t!(lang, "error-no-model"),
            t!(lang, "hint-no-model"),
        );
    };
    match settings
        .options
        .model_directory(Duration::ZERO, None)
        .find(&name)
    {
        Ok(_) => Check::ok("model", t!(lang, "doctor-model-ok", name = name)),
        Err(error) => Check::fail("model", error.message, t!(lang, "hint-model")),
    }
}

fn configuration(settings: &Settings) -> Check {
    let lang = settings.lang;
    let configuration = &settings.configuration;
    if let Some(broken) = &configuration.broken {
        return Check::fail("config", broken.to_string(), t!(lang, "doctor-config-todo"));
    }
    let mut warnings = configuration.warnings.clone();
    match settings.builder().assemble() {
        Ok(assembly) => warnings.extend(assembly.unknown_tools()),
        Err(error) => warnings.push(Problem::from(error).text(lang)),
    }
    match warnings.as_slice() {
        [] => Check::ok(
            "config",
            configuration.places.user_file.display().to_string(),
        ),
        warnings => Check::warn(
            "config",
            warnings.join("; "),
            t!(lang, "doctor-config-todo"),
        ),
    }
}

fn git(settings: &Settings) -> Check {
    let lang = settings.lang;
    match program(settings, "git") {
        Some(path) => Check::ok("git", path.display().to_string()),
        None => Check::warn(
            "git",
            t!(lang, "doctor-not-found"),
            t!(lang, "doctor-git-todo"),
        ),
    }
}

fn language(settings: &Settings) -> Check {
    Check::ok("language", settings.lang.to_string())
}

/// Finds a program on the path without starting it.
fn program(settings: &Settings, name: &str) -> Option<PathBuf> {
    let search_path = settings.options.environment.search_path();
    search_path
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
