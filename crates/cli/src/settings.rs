//! Flags and environment, merged once into one value. Nobody below reads the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sortie_base::redact::{REDACTED, Redactor};
use sortie_config::{Language, LogFormat};
use sortie_core::Lang;
use sortie_text::{lang_from, one_line, strip_sequences, t, truncate_columns};

use crate::arguments::GlobalArguments;
use crate::configuration::Configuration;
use crate::output;
use crate::problem::Problem;

/// What shell commands of an agent see of the environment: enough to build and test, and nothing
/// that holds a key or a password.
const EXEC_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "COLORTERM",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NVM_DIR",
    "PATH",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
];
/// The variables that say how a program speaks.
const LOCALE_PREFIX: &str = "LC_";
/// How much of the command line other processes are told.
const COMMAND_COLUMNS: usize = 120;

/// How much of a person's name is kept.
const PERSON_COLUMNS: usize = 64;

/// The environment as a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// That of this process: the one place where it is read.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable that is set to something.
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    fn locale(&self) -> Option<&str> {
        ["SORTIE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"]
            .into_iter()
            .find_map(|name| self.text(name))
    }

    /// Sortie's own variables.
    fn own(&self) -> Vec<(String, String)> {
        self.texts()
            .filter(|(name, _)| name.starts_with("SORTIE_"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// What says how to reach providers: keys, addresses and proxies, and whatever the
    /// configuration may name.
    fn for_providers(&self) -> BTreeMap<String, String> {
        self.texts()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
            .filter(|(_, value)| !value.is_empty())
    }

    fn for_exec(&self) -> Vec<(OsString, OsString)> {
        let allowed = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                EXEC_VARIABLES.contains(&name) || name.starts_with(LOCALE_PREFIX)
            })
        };
        self.0
            .iter()
            .filter(|(name, _)| allowed(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Everything that was set, by flag or by environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where the store is.
    pub(crate) home: PathBuf,
    /// The language of everything people read.
    pub(crate) lang: Lang,
    /// What was configured.
    pub(crate) configuration: Configuration,
    /// The variables that say how to reach providers.
    pub(crate) provider_variables: BTreeMap<String, String>,
    /// The folder the command was started in.
    pub(crate) folder: PathBuf,
    /// The environment of shell commands.
    pub(crate) exec_environment: Vec<(OsString, OsString)>,
    /// Where programs are looked for.
    pub(crate) search_path: Vec<PathBuf>,
    /// The person's home folder.
    pub(crate) user_home: Option<PathBuf>,
    /// Who types, as audits name them: `cli:anna`.
    pub(crate) person: String,
    /// The folder for configuration.
    pub(crate) config_folder: PathBuf,
    /// The folder for temporary files.
    pub(crate) scratch: PathBuf,
    /// The command, for other processes that find the store in use.
    pub(crate) command: String,
    /// What to log.
    pub(crate) log: Option<String>,
    /// How to write it.
    pub(crate) log_format: LogFormat,
    /// Whether keys of the configuration were set for this command alone.
    pub(crate) assigned: bool,
    /// Which streams are a terminal.
    pub(crate) terminal: Terminal,
    /// Where a test wants the process to die.
    #[cfg(feature = "crash-points")]
    pub(crate) crash_at: Option<String>,
    /// What a test wants broken.
    #[cfg(feature = "crash-points")]
    pub(crate) break_part: Option<String>,
    /// Runs with this text in their task kill the process.
    #[cfg(feature = "crash-points")]
    pub(crate) poison: Option<String>,
}

/// Which streams a person sits at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Somebody can type.
    pub(crate) input: bool,
    /// Somebody reads the results.
    pub(crate) output: bool,
    /// Somebody reads the progress.
    pub(crate) progress: bool,
}

impl Terminal {
    fn of_process() -> Self {
        Self {
            input: std::io::stdin().is_terminal(),
            output: std::io::stdout().is_terminal(),
            progress: std::io::stderr().is_terminal(),
        }
    }

    /// Whether somebody can be asked.
    pub(crate) const fn has_person(self) -> bool {
        self.input && self.progress
    }
}

/// Settings that could not be made, and the language to say so in.
#[derive(Debug)]
pub(crate) struct Unsettled {
    /// Why.
    pub(crate) problem: Box<Problem>,
    /// How to say it.
    pub(crate) lang: Lang,
}

impl Settings {
    /// Flags first, then the environment, then files, then defaults.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "nobody should read the environment after this"
    )]
    pub(crate) fn new(
        global: &GlobalArguments,
        environment: Environment,
    ) -> Result<Self, Unsettled> {
        let spoken = lang_from(environment.locale());
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
        let configured = configuration.config().lang.map(|lang| match lang {
            Language::En => Lang::En,
            Language::Zh => Lang::Zh,
        });
        let lang = global.lang.or(configured).unwrap_or(spoken);
        let log_format = global
            .log_format
            .map_or(configuration.config().log.format, LogFormat::from);
        let terminal = Terminal::of_process();
        let colors = !global.no_color && environment.get("NO_COLOR").is_none();
        console::set_colors_enabled(colors && terminal.output);
        console::set_colors_enabled_stderr(colors && terminal.progress);
        Ok(Self {
            home: folder.join(home),
            lang,
            configuration,
            provider_variables: environment.for_providers(),
            exec_environment: environment.for_exec(),
            search_path: environment
                .get("PATH")
                .map(|path| std::env::split_paths(path).collect())
                .unwrap_or_default(),
            user_home: environment.get("HOME").map(PathBuf::from),
            person: person(&environment),
            config_folder: directories::ProjectDirs::from("", "", "sortie")
                .map(|folders| folders.config_dir().to_owned())
                .unwrap_or_default(),
            scratch: environment
                .get("TMPDIR")
                .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            command: command_line(std::env::args_os()),
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
            folder,
        })
    }

    /// Where programs are looked for that are started outside any sandbox: the folders of the path
    /// that no agent of this project can write to.
    pub(crate) fn safe_path(&self) -> Vec<PathBuf> {
        let here = self.folder.canonicalize();
        let here = here.unwrap_or_else(|_| self.folder.clone());
        let repository = here.ancestors().find(|folder| folder.join(".git").exists());
        let project = repository.unwrap_or(&here);
        let safe = self.search_path.iter().filter(|folder| {
            let real = folder.canonicalize();
            folder.is_absolute() && real.is_ok_and(|real| !real.starts_with(project))
        });
        safe.cloned().collect()
    }

    /// A model's name that means the same in every folder: paths in it become absolute.
    pub(crate) fn absolute_model(&self, name: &str) -> String {
        match name.split_once(':') {
            Some((kind @ ("script" | "replay"), path)) if !path.is_empty() => {
                format!("{kind}:{}", self.folder.join(path).display())
            }
            Some(_) | None => name.to_owned(),
        }
    }

    /// The configured model of runs that ask for none.
    pub(crate) fn configured_model(&self) -> Option<String> {
        let name = self.configuration.config().model.as_deref()?;
        Some(self.absolute_model(name))
    }

    /// Says what was wrong with the configuration, or that it cannot be used at all. For commands
    /// that work with it.
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

    /// The flag that configures this process alone, if it was given.
    pub(crate) const fn own_configuration(&self) -> Option<&'static str> {
        if self.assigned { Some("-c") } else { None }
    }

    /// The folder that a run works in.
    pub(crate) fn workspace(&self, given: Option<&Path>) -> Result<PathBuf, Problem> {
        let path = given.map_or_else(|| self.folder.clone(), |given| self.folder.join(given));
        let bad = |source| Problem::Workspace {
            path: path.clone(),
            source,
        };
        let whole = path.canonicalize().map_err(bad)?;
        if whole.is_dir() {
            Ok(whole)
        } else {
            Err(bad(std::io::ErrorKind::NotADirectory.into()))
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
        environment.own(),
        &global.config,
    )
    .map_err(|error| Problem::Config(Arc::new(error)))
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

/// The person at this command line: the name that the system has for them, if it says one.
fn person(environment: &Environment) -> String {
    let name = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| environment.text(name))
        .unwrap_or("unknown");
    format!("cli:{}", truncate_columns(&one_line(name), PERSON_COLUMNS))
}

/// A word of the command line; what may be a key in it is not repeated.
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

/// The command as the person typed it, on one line and not too long.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment(
            pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }

    #[test]
    fn shell_commands_see_no_keys() {
        let environment = environment(&[
            ("PATH", "/bin"),
            ("LC_TIME", "de_DE"),
            ("OPENAI_API_KEY", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("HTTPS_PROXY", "http://user:secret@proxy"),
            ("SORTIE_HOME", "/x"),
        ]);
        let names: Vec<_> = environment
            .for_exec()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["LC_TIME", "PATH"]);
    }

    #[test]
    fn key_variables_never_reach_shell_commands() {
        let models = sortie_models::Directory::new(sortie_models::DirectorySettings::default());
        for vendor in models.vendors() {
            for name in &vendor.key_variables {
                assert!(!EXEC_VARIABLES.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn the_nearest_locale_counts() {
        let check = |pairs: &[(&str, &str)], expected: Lang| {
            assert_eq!(
                lang_from(environment(pairs).locale()),
                expected,
                "{pairs:?}"
            );
        };
        check(&[], Lang::En);
        check(&[("LANG", "zh_CN.UTF-8")], Lang::Zh);
        check(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")], Lang::En);
        check(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "")], Lang::Zh);
        check(&[("LC_ALL", "C"), ("SORTIE_LANG", "zh")], Lang::Zh);
    }

    #[test]
    fn a_person_has_a_name() {
        let check = |pairs: &[(&str, &str)], expected: &str| {
            assert_eq!(person(&environment(pairs)), expected, "{pairs:?}");
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
