//! Flags and environment, merged once into one value. No other module reads the environment.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};
use sortie::{Builder, Environment, Options, SandboxHelper};
use sortie_base::redact::{REDACTED, Redactor};
use sortie_config::LogFormat;
use sortie_core::words::Lang;
use sortie_text::{lang_from, one_line, strip_sequences, t, truncate_columns};

use crate::arguments::GlobalArguments;
use crate::configuration::Configuration;
use crate::output;
use crate::problem::Problem;
use crate::theme;

/// Columns of the command line that the lock file shows.
const COMMAND_COLUMNS: usize = 120;

/// Columns of a user name that are kept.
const PERSON_COLUMNS: usize = 64;

/// Returns the environment of this process: the one place where it is read.
pub(crate) fn environment() -> Environment {
    std::env::vars_os().collect()
}

/// Everything that was set, by flag or by environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What the library is given: the home folder, the current folder as workspace, the configuration,
    /// the environment.
    pub(crate) options: Options,
    /// The language of all output.
    pub(crate) lang: Lang,
    /// The configuration with the origin of each key.
    pub(crate) configuration: Configuration,
    /// The user, as the audit names them: `cli:anna`.
    pub(crate) person: String,
    /// The log filter, if `SORTIE_LOG` sets one.
    pub(crate) log: Option<String>,
    pub(crate) log_format: LogFormat,
    /// Whether `-c` sets keys of the configuration for this command alone.
    pub(crate) assigned: bool,
    /// Which streams are a terminal.
    pub(crate) terminal: Terminal,
    /// The crash point at which a test kills the process.
    #[cfg(feature = "crash-points")]
    pub(crate) crash_at: Option<String>,
    /// The part that a test breaks.
    #[cfg(feature = "crash-points")]
    pub(crate) break_part: Option<String>,
    /// Text in a task that kills the process which runs it.
    #[cfg(feature = "crash-points")]
    pub(crate) poison: Option<String>,
}

/// Which streams are a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Whether stdin is one.
    pub(crate) input: bool,
    /// Whether stdout is one.
    pub(crate) output: bool,
    /// Whether stderr is one.
    pub(crate) progress: bool,
}

impl Terminal {
    fn of_process() -> Self {
        Self {
            input: io::stdin().is_terminal(),
            output: io::stdout().is_terminal(),
            progress: io::stderr().is_terminal(),
        }
    }

    /// Whether a person can be prompted.
    pub(crate) const fn has_person(self) -> bool {
        self.input && self.progress
    }
}

/// Why the settings are invalid, and the language of the message.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) problem: Box<Problem>,
    pub(crate) lang: Lang,
}

impl Settings {
    /// Merges flags, environment, files and defaults, in this order of precedence.
    pub(crate) fn new(
        global: &GlobalArguments,
        environment: Environment,
        helper: Option<SandboxHelper>,
    ) -> Result<Self, Unsettled> {
        let spoken = lang_from(locale(&environment));
        let failed = |problem| Unsettled {
            problem: Box::new(problem),
            lang: global.lang.unwrap_or(spoken),
        };
        let folder = std::env::current_dir()
            .map_err(Problem::Process)
            .map_err(failed)?;
        let home = home(global, &environment)
            .ok_or(Problem::NoHome)
            .map_err(failed)?;
        let configuration = configuration(global, &environment, &folder).map_err(failed)?;
        let lang = global.lang.or(configuration.config().lang);
        let lang = lang.unwrap_or(spoken);
        let log_format = global
            .log_format
            .map_or(configuration.config().log.format, LogFormat::from);
        let terminal = Terminal::of_process();
        let colors = !global.no_color && environment.get("NO_COLOR").is_none();
        console::set_colors_enabled(colors && terminal.output);
        console::set_colors_enabled_stderr(colors && terminal.progress);
        theme::settle(
            configuration.config().terminal.theme,
            environment.text("COLORFGBG"),
            colors,
        );
        Ok(Self {
            lang,
            person: person(&environment),
            log: environment.text("SORTIE_LOG").map(str::to_owned),
            log_format,
            assigned: !global.config.is_empty(),
            #[cfg(feature = "crash-points")]
            crash_at: environment.text("SORTIE_CRASH_AT").map(str::to_owned),
            #[cfg(feature = "crash-points")]
            break_part: environment.text("SORTIE_BREAK").map(str::to_owned),
            #[cfg(feature = "crash-points")]
            poison: environment.text("SORTIE_POISON").map(str::to_owned),
            terminal,
            options: Options {
                home: folder.join(home),
                workspace: folder,
                config: configuration.config().clone(),
                environment,
                config_folder: directories::ProjectDirs::from("", "", "sortie")
                    .map(|folders| folders.config_dir().to_owned()),
                lang,
                command: command_line(std::env::args_os()),
                host: host(),
                helper,
            },
            configuration,
        })
    }

    /// Returns a builder of the runtime. Calls that need approval wait if a person sits at the terminal.
    pub(crate) fn builder(&self) -> Builder {
        Builder::from(self.options.clone())
            .approver(self.terminal.has_person())
            .next_turns_only(true)
            .on_notice(output::note)
    }

    /// Arms what a test wants to happen: a crash at a point, a poisoned run, a broken part.
    #[cfg(feature = "crash-points")]
    pub(crate) fn arm_crash_points(&self) -> Result<(), Problem> {
        use sortie_runtime::crash;
        if let Some(plan) = &self.crash_at {
            let plan = plan
                .parse()
                .map_err(|error: crash::BadPlan| Problem::CrashPlan(error.to_string()))?;
            crash::arm(plan);
        }
        if let Some(text) = &self.poison {
            crash::poison(text.clone());
        }
        match self.break_part.as_deref() {
            None => Ok(()),
            Some("outbox") => {
                crash::break_outbox();
                Ok(())
            }
            Some("fence") => {
                sortie_store::break_fences();
                Ok(())
            }
            Some(other) => Err(Problem::CrashPlan(format!(
                "SORTIE_BREAK knows `outbox` and `fence`; got {other:?}"
            ))),
        }
    }

    /// Prints the warnings of the configuration; fails if a file of it is invalid. For commands that
    /// start work.
    pub(crate) fn check_configuration(&self) -> Result<(), Problem> {
        if let Some(broken) = &self.configuration.broken {
            return Err(Problem::Config(Arc::clone(broken)));
        }
        for warning in &self.configuration.warnings {
            let words = t!(self.lang, "config-warning", warning = warning);
            output::note(&strip_sequences(&words));
        }
        Ok(())
    }

    /// Returns the flag that configures this process alone, if it is set.
    pub(crate) const fn own_configuration(&self) -> Option<&'static str> {
        if self.assigned { Some("-c") } else { None }
    }

    /// Fails if the home folder is something else, or closed to this user.
    pub(crate) fn check_home(&self) -> Result<(), Problem> {
        let home = &self.options.home;
        let bad = |source| Problem::Home {
            path: home.clone(),
            source,
        };
        match std::fs::metadata(home) {
            Ok(found) if !found.is_dir() => Err(bad(io::ErrorKind::NotADirectory.into())),
            Ok(_) => {
                access(home, Access::READ_OK | Access::EXEC_OK).map_err(|error| bad(error.into()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(bad(error)),
        }
    }

    /// Fails if the home folder, or the folder in which it would be created, cannot be written.
    pub(crate) fn check_home_writable(&self) -> Result<(), Problem> {
        let home = &self.options.home;
        let existing = home.ancestors().find(|folder| folder.exists());
        access(existing.unwrap_or(home), Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            Problem::Home {
                path: home.clone(),
                source: error.into(),
            }
        })
    }

    /// Returns the canonical path of the workspace.
    pub(crate) fn workspace(&self, given: Option<&Path>) -> Result<PathBuf, Problem> {
        let path = given.map_or_else(
            || self.options.workspace.clone(),
            |given| self.options.workspace.join(given),
        );
        let bad = |source| Problem::Workspace {
            path: path.clone(),
            source,
        };
        let whole = path.canonicalize().map_err(bad)?;
        if whole.is_dir() {
            Ok(whole)
        } else {
            Err(bad(io::ErrorKind::NotADirectory.into()))
        }
    }
}

fn configuration(
    global: &GlobalArguments,
    environment: &Environment,
    folder: &Path,
) -> Result<Configuration, Problem> {
    let folders = directories::ProjectDirs::from("", "", "sortie").ok_or(Problem::NoHome)?;
    Configuration::read(
        folder,
        folders.config_dir(),
        environment
            .get("SORTIE_CONFIG")
            .map(|file| folder.join(file)),
        own_variables(environment),
        &global.config,
    )
    .map_err(|error| Problem::Config(Arc::new(error)))
}

/// Returns the locale that the environment sets; the nearest variable counts.
pub(crate) fn locale(environment: &Environment) -> Option<&str> {
    ["SORTIE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"]
        .into_iter()
        .find_map(|name| environment.text(name))
}

/// Returns Sortie's own variables.
fn own_variables(environment: &Environment) -> Vec<(String, String)> {
    environment
        .texts()
        .filter(|(name, _)| name.starts_with("SORTIE_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn home(global: &GlobalArguments, environment: &Environment) -> Option<PathBuf> {
    global
        .home
        .clone()
        .or_else(|| environment.get("SORTIE_HOME").map(PathBuf::from))
        .or_else(|| {
            let folders = directories::ProjectDirs::from("", "", "sortie")?;
            Some(folders.data_dir().to_owned())
        })
}

/// Returns the name of the user in the audit: `cli:NAME`.
fn person(environment: &Environment) -> String {
    let name = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| environment.text(name))
        .unwrap_or("unknown");
    format!("cli:{}", truncate_columns(&one_line(name), PERSON_COLUMNS))
}

/// Returns a word of the command line without values that may be secrets.
fn without_secret(word: &str) -> String {
    let Some((key, _)) = word.split_once('=') else {
        return Redactor::default().redact(word).into_owned();
    };
    let lower = key.to_lowercase();
    let secret = [
        "key", "token", "secret", "password", "headers.", "query.", "env.",
    ];
    if secret.iter().any(|part| lower.contains(part)) {
        format!("{key}={REDACTED}")
    } else {
        Redactor::default().redact(word).into_owned()
    }
}

/// Returns the command line, without secrets, on one line and truncated.
fn command_line(words: impl Iterator<Item = OsString>) -> String {
    let words: Vec<String> = std::iter::once("sortie".to_owned())
        .chain(
            words
                .skip(1)
                .map(|word| without_secret(&word.to_string_lossy())),
        )
        .collect();
    truncate_columns(&one_line(&words.join(" ")), COMMAND_COLUMNS)
}

/// Returns the name of this machine.
fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().copied().collect()
    }

    #[test]
    fn sortie_lang_overrides_lc_all_and_lc_all_overrides_lang() {
        let check = |pairs: &[(&str, &str)], expected: Lang| {
            assert_eq!(lang_from(locale(&variables(pairs))), expected, "{pairs:?}");
        };
        check(&[], Lang::En);
        check(&[("LANG", "zh_CN.UTF-8")], Lang::Zh);
        check(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")], Lang::En);
        check(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "")], Lang::Zh);
        check(&[("LC_ALL", "C"), ("SORTIE_LANG", "zh")], Lang::Zh);
    }

    #[test]
    fn audit_name_comes_from_user_or_logname() {
        let check = |pairs: &[(&str, &str)], expected: &str| {
            assert_eq!(person(&variables(pairs)), expected, "{pairs:?}");
        };
        check(&[("USER", "anna"), ("LOGNAME", "root")], "cli:anna");
        check(&[("LOGNAME", "anna")], "cli:anna");
        check(&[("USER", "a\nb")], "cli:a b");
        check(&[], "cli:unknown");
    }

    #[test]
    fn a_command_line_is_one_short_line() {
        let check = |words: &[&str], expected: &str| {
            let words = words.iter().map(OsString::from);
            assert_eq!(command_line(words), expected);
        };
        check(&["/usr/bin/sortie", "run", "a\nb"], "sortie run a b");
        check(
            &["sortie", &"x".repeat(200)],
            &format!("sortie {}…", "x".repeat(112)),
        );
    }
}
