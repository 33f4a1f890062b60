//! Defines which files are private, and what commands do if other users could have read or changed
//! them.
//!
//! `sortie_base::private_files` classifies the files; commands refuse or repair them here, and
//! `doctor` shows the same findings.

use std::path::{Path, PathBuf};

use sortie_base::private_files::{self, Class, Danger, FileRefusal, Finding, Kind, Verdict};
use sortie_core::words::Lang;
use sortie_text::t;

use crate::output;
use crate::problem::Problem;
use crate::serving::{self, Left};
use crate::settings::Settings;

/// Files of the home that only this program writes.
const PRIVATE: [&str; 11] = [
    crate::chat::history::FILE,
    "keys.json",
    "keys.lock",
    "lock",
    "mcp-approved.json",
    "mcp-approved.lock",
    "models.json",
    "sortie.db",
    "sortie.db-journal",
    "sortie.db-shm",
    "sortie.db-wal",
];

/// Tightens the modes of files that no other user could have used, with a note, and refuses files
/// that others could have changed. A leaked secret stops only the commands that use it.
pub(crate) fn enforce(settings: &Settings) -> Result<(), Problem> {
    let findings = private_files::enforce(&settings.options.home, &files(settings))?;
    for finding in findings {
        let path = finding.path.display().to_string();
        match finding.verdict {
            Verdict::Repair if finding.path == serving::token_path(&settings.options.home) => {
                output::note(&t!(settings.lang, "private-token-repaired", path = path));
            }
            Verdict::Repair => output::note(&t!(settings.lang, "private-repaired", path = path)),
            // The commands that use the secret refuse; those that replace it must work.
            Verdict::Leaked | Verdict::Safe | Verdict::Unsafe(_) => {}
        }
    }
    if matches!(serving::left_in(&settings.options.home), Ok(Left::Damaged)) {
        let path = serving::path(&settings.options.home).display().to_string();
        output::note(&t!(settings.lang, "server-file-damaged", path = path));
    }
    Ok(())
}

/// Refuses to use secrets that other users could have read.
pub(crate) fn refuse_leaked(settings: &Settings, secrets: &[PathBuf]) -> Result<(), Problem> {
    let files: Vec<_> = secrets
        .iter()
        .map(|path| (path.clone(), Class::Secret))
        .collect();
    let findings = private_files::enforce(&settings.options.home, &files)?;
    let leaked = findings
        .into_iter()
        .find(|one| one.verdict == Verdict::Leaked);
    leaked.map_or(Ok(()), |finding| {
        Err(Problem::Leaked {
            remedy: remedy(settings, &finding.path),
            path: finding.path,
        })
    })
}

/// Returns all findings without changing any file.
pub(crate) fn findings(settings: &Settings) -> Result<Vec<Finding>, FileRefusal> {
    private_files::inspect(&settings.options.home, &files(settings))
}

/// Returns what to do about a finding, as a command if there is one.
pub(crate) fn todo(settings: &Settings, finding: &Finding) -> String {
    let path = finding.path.display().to_string();
    match finding.verdict {
        Verdict::Safe | Verdict::Repair => t!(settings.lang, "private-repair-todo", path = path),
        Verdict::Leaked => remedy(settings, &finding.path),
        Verdict::Unsafe(danger) => danger_todo(settings.lang, &finding.path, danger),
    }
}

/// Returns the command that makes a refused file or folder usable.
pub(crate) fn danger_todo(lang: Lang, path: &Path, danger: Danger) -> String {
    let path = path.display().to_string();
    match danger {
        Danger::ForeignOwner { .. } => t!(lang, "private-owner-todo", path = path),
        Danger::WritableByOthers { .. } => t!(lang, "private-writable-todo", path = path),
        Danger::WrongKind(_) => t!(lang, "private-kind-todo", path = path),
    }
}

/// Describes a finding in the user's language.
pub(crate) fn words(settings: &Settings, finding: &Finding) -> String {
    let path = finding.path.display().to_string();
    match &finding.verdict {
        Verdict::Safe => path,
        Verdict::Repair => t!(settings.lang, "private-wide", path = path),
        Verdict::Leaked => t!(settings.lang, "error-leaked", path = path),
        Verdict::Unsafe(danger) => t!(
            settings.lang,
            "error-unsafe",
            path = path,
            danger = danger_words(settings.lang, *danger)
        ),
    }
}

/// Describes why a file cannot be used; the text follows its name.
pub(crate) fn danger_words(lang: Lang, danger: Danger) -> String {
    match danger {
        Danger::ForeignOwner { owner } => {
            t!(lang, "danger-foreign-owner", owner = owner.to_string())
        }
        Danger::WritableByOthers { mode } => {
            t!(lang, "danger-writable", mode = format!("{mode:04o}"))
        }
        Danger::WrongKind(Kind::Link) => t!(lang, "danger-link"),
        Danger::WrongKind(Kind::Folder) => t!(lang, "danger-folder"),
        Danger::WrongKind(Kind::File) => t!(lang, "danger-no-folder"),
        Danger::WrongKind(Kind::Special) => t!(lang, "danger-special"),
    }
}

/// Returns how to revoke a secret that other users may have read.
fn remedy(settings: &Settings, path: &Path) -> String {
    if path == serving::path(&settings.options.home) {
        return t!(settings.lang, "private-restart-todo");
    }
    // The id is no secret; if it cannot be read, the user finds it in the list of keys.
    let id = serving::read_token(&settings.options.home)
        .ok()
        .and_then(|token| token.split('_').nth(1).map(str::to_owned))
        .unwrap_or_else(|| "ID".to_owned());
    t!(settings.lang, "private-rotate-todo", id = id)
}

fn files(settings: &Settings) -> Vec<(PathBuf, Class)> {
    let home = &settings.options.home;
    let places = &settings.configuration.places;
    let mut files: Vec<_> = PRIVATE
        .iter()
        .map(|name| (home.join(name), Class::Private))
        .collect();
    files.push((serving::token_path(home), Class::Secret));
    // Anything else at this path is no secret: it counts as stale and is replaced.
    let notice = serving::path(home);
    if std::fs::symlink_metadata(&notice).is_ok_and(|about| about.is_file()) {
        files.push((notice, Class::Secret));
    }
    files.push((places.user_file.clone(), Class::Settings));
    files.push((places.trust_file.clone(), Class::Settings));
    files
}
