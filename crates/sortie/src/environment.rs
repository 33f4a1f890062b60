//! The environment of the process, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// The variables that shell commands of an agent see: enough to build and test, and no key or
/// password.
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
/// The prefix of variables that set the locale; shell commands see these too.
const LOCALE_PREFIX: &str = "LC_";

/// The environment of the process, as a value: this crate reads none by itself.
///
/// A program collects it from the standard library. The default is empty: no key, no `PATH`.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// Prints the number of variables only: their values include secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Environment")
            .field(&self.0.len())
            .finish()
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl Environment {
    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns a variable that is set, not empty and valid UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    /// Returns all variables that are valid UTF-8 and not empty.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
            .filter(|(_, value)| !value.is_empty())
    }

    /// Returns the variables that model providers, MCP servers and telemetry are configured by: keys,
    /// addresses, proxies, and every variable that the configuration may name.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.texts()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns the variables that shell commands of agents see.
    pub(crate) fn for_commands(&self) -> Vec<(OsString, OsString)> {
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

    /// Returns the folders of `PATH`, in order.
    pub fn search_path(&self) -> Vec<PathBuf> {
        self.get("PATH")
            .map(|path| std::env::split_paths(path).collect())
            .unwrap_or_default()
    }

    /// Returns the user's home folder.
    pub fn user_home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// Returns the folder for temporary files.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.get("TMPDIR")
            .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_commands_see_no_keys() {
        let environment = Environment::from_iter([
            ("PATH", "/bin"),
            ("LC_TIME", "de_DE"),
            ("OPENAI_API_KEY", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("HTTPS_PROXY", "http://user:secret@proxy"),
            ("SORTIE_HOME", "/x"),
        ]);
        let names: Vec<_> = environment
            .for_commands()
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
    fn debug_output_has_no_value() {
        let environment = Environment::from_iter([("OPENAI_API_KEY", "sk-secret")]);
        assert_eq!(format!("{environment:?}"), "Environment(1)");
    }
}
