//! Commands that git starts because of its arguments.

use super::Carrier;
use crate::script::{Simple, Word};

/// Options before the subcommand of git that take the next word.
const VALUED: [&str; 5] = [
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--attr-source",
];
/// Prefixes of settings that start no program.
const HARMLESS: [&str; 12] = [
    "advice.",
    "color.",
    "commit.gpgsign",
    "core.abbrev",
    "core.autocrlf",
    "core.quotepath",
    "diff.renames",
    "init.defaultbranch",
    "log.",
    "protocol.",
    "safe.directory",
    "user.",
];

impl Carrier {
    pub(super) fn git(&mut self, arguments: &[Word]) {
        let mut rest = arguments;
        while let Some((word, after)) = rest.split_first() {
            let Some(text) = word.known() else {
                self.doubt("the git subcommand is not known before it runs");
                return;
            };
            rest = after;
            match text {
                "-c" => {
                    if let Some(setting) = after.first() {
                        self.setting(setting);
                    }
                    rest = after.get(1..).unwrap_or_default();
                }
                _ if VALUED.contains(&text) => rest = after.get(1..).unwrap_or_default(),
                _ if text.starts_with("--exec-path=") || text.starts_with("--config-env") => {
                    self.doubt("git would run programs from another folder");
                }
                _ if text.starts_with('-') => {}
                _ => {
                    if after.len() + 1 < arguments.len() {
                        self.without_options(word, after);
                    }
                    return self.git_command(text, after);
                }
            }
        }
    }

    /// Adds the same command without the options before its subcommand, so that a rule for it
    /// matches.
    fn without_options(&mut self, name: &Word, after: &[Word]) {
        let mut words = vec![Word::Known("git".to_owned()), name.clone()];
        words.extend_from_slice(after);
        self.carry(Simple {
            words,
            ..Simple::default()
        });
    }

    fn setting(&mut self, setting: &Word) {
        let text = setting.shape();
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.to_lowercase();
        if setting.known().is_none() {
            self.doubt("a setting of git is not known before it runs");
        } else if name.starts_with("alias.") {
            match value.strip_prefix('!') {
                Some(command) => self.text(command),
                None => self.text(&format!("git {value}")),
            }
        } else if !HARMLESS.iter().any(|start| name.starts_with(start)) {
            self.doubt("a setting of git may start a program");
        }
    }

    fn git_command(&mut self, name: &str, arguments: &[Word]) {
        let first = arguments.first().map(Word::shape);
        let after = arguments.get(1..).unwrap_or_default();
        match (name, first) {
            ("bisect", Some("run")) => self.command(after, false),
            ("submodule", Some("foreach")) => {
                let options = |word: &&Word| word.shape().starts_with('-');
                let count = after.iter().take_while(options).count();
                self.line(after.get(count..).unwrap_or_default());
            }
            ("rebase", _) => {
                let mut rest = arguments.iter();
                while let Some(text) = rest.next().map(Word::shape) {
                    let attached = text.strip_prefix("--exec=").or(text.strip_prefix("-x"));
                    match attached {
                        Some("") => self.line(rest.as_slice().get(..1).unwrap_or_default()),
                        Some(attached) => self.text(attached),
                        None if text == "--exec" => {
                            self.line(rest.as_slice().get(..1).unwrap_or_default());
                        }
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }
}
