//! Commands and flags in documents, compared with the snapshot of every `--help` and with the help
//! text of `cargo xtask`.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Document, words};
use super::keys::Schema;
use crate::help;
use crate::tree::Tree;

/// The snapshot of the help of every command; a test of the binary keeps it current.
pub(super) const REFERENCE: &str =
    "crates/cli/tests/it/snapshots/it__reference__the_help_of_every_command.snap";
/// Flags of other programs that documents explain on their own.
const FOREIGN: [&str; 4] = [
    "--security-opt",
    "--release",
    "--locked",
    "--permission-mode",
];

#[derive(Debug, Default)]
struct Command {
    subcommands: BTreeSet<String>,
    flags: BTreeSet<String>,
    /// Flags that are followed by a value.
    with_value: BTreeSet<String>,
}

/// Everything that can be typed.
#[derive(Debug)]
pub(super) struct Commands {
    /// Commands by their words, `sortie tasks list`.
    commands: BTreeMap<String, Command>,
    xtask: BTreeMap<String, BTreeSet<String>>,
    packages: BTreeSet<String>,
    examples: BTreeSet<String>,
}

impl Commands {
    pub(super) fn read(tree: &Tree) -> Self {
        let reference = tree.text(REFERENCE).unwrap_or_default();
        let packages = tree
            .texts()
            .filter(|(path, _)| path.ends_with("Cargo.toml"))
            .flat_map(|(_, text)| text.lines())
            .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
            .map(str::to_owned)
            .collect();
        let examples = tree
            .paths()
            .filter_map(|path| {
                let (_, name) = path.split_once("/examples/")?;
                name.strip_suffix(".rs")
            })
            .map(str::to_owned)
            .collect();
        Self {
            commands: parse_reference(reference),
            xtask: parse_xtask(help::HELP),
            packages,
            examples,
        }
    }

    pub(super) fn problems(&self, document: &Document, schema: &Schema) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        for piece in document.commands() {
            let words = words(&piece.text);
            let found = self.judge(&words, schema);
            problems.extend(found.into_iter().map(|problem| (piece.line, problem)));
        }
        problems
    }

    fn judge(&self, words: &[String], schema: &Schema) -> Vec<String> {
        let Some(first) = words.first() else {
            return Vec::new();
        };
        match first.as_str() {
            "sortie" => self.judge_sortie(words, schema),
            "cargo" => self.judge_cargo(words, schema),
            name if is_package_name(name) && words.len() == 1 => self.judge_package(name),
            _ if first.starts_with("--") => self.judge_flags(words),
            "-c" => judge_settings(words, schema),
            // `tasks show --json`: a command whose first word is left out.
            _ if words.len() > 1 && self.is_command(words) => {
                let mut whole = vec!["sortie".to_owned()];
                whole.extend_from_slice(words);
                self.judge_sortie(&whole, schema)
            }
            _ => Vec::new(),
        }
    }

    fn is_command(&self, words: &[String]) -> bool {
        let Some(command) = self.commands.get(&format!("sortie {}", words[0])) else {
            return false;
        };
        let second = words[1].trim_start_matches('[');
        second.starts_with("--") || command.subcommands.contains(second.trim_end_matches(','))
    }

    fn judge_sortie(&self, words: &[String], schema: &Schema) -> Vec<String> {
        let mut problems = judge_settings(words, schema);
        let mut reached = vec!["sortie".to_owned()];
        let mut listing = false;
        let mut value_follows = false;
        for word in &words[1..] {
            if std::mem::take(&mut value_follows) {
                continue;
            }
            let bare = word.trim_matches(['[', ']', '…']);
            if let Some(flag) = flag_of(bare) {
                let known = |name: &String| {
                    self.commands
                        .get(name)
                        .is_some_and(|command| command.flags.contains(&flag))
                };
                // Without a command, `sortie` is `sortie chat`.
                let is_chat = reached == ["sortie"] && known(&"sortie chat".to_owned());
                if !reached.iter().any(known) && !known(&"sortie".to_owned()) && !is_chat {
                    problems.push(format!("`{}` has no flag {flag}", reached.join("`, `")));
                }
                value_follows = self.takes_value(&reached, &flag) && !bare.contains('=');
                listing = false;
                continue;
            }
            let names: Vec<&str> = bare.trim_end_matches(',').split('|').collect();
            let parents: Vec<String> = if listing {
                // `tasks list, show`: siblings of the one before.
                let parent = |name: &String| name.rsplit_once(' ').map(|(head, _)| head.to_owned());
                reached.first().and_then(parent).into_iter().collect()
            } else {
                reached.clone()
            };
            let Some(parent) = parents
                .first()
                .filter(|name| {
                    self.commands
                        .get(*name)
                        .is_some_and(|command| !command.subcommands.is_empty())
                })
                .cloned()
            else {
                continue;
            };
            if !names.iter().all(|name| is_word(name)) {
                continue;
            }
            let known = &self.commands[&parent].subcommands;
            let next: Vec<String> = names
                .iter()
                .map(|name| format!("{parent} {name}"))
                .collect();
            for name in names.iter().filter(|name| !known.contains(**name)) {
                problems.push(format!("`{parent}` has no command {name:?}"));
            }
            if listing {
                reached.extend(next);
            } else {
                reached = next;
            }
            listing = bare.ends_with(',');
        }
        problems
    }

    fn takes_value(&self, reached: &[String], flag: &str) -> bool {
        reached
            .iter()
            .map(String::as_str)
            .chain(["sortie"])
            .filter_map(|name| self.commands.get(name))
            .any(|command| command.with_value.contains(flag))
    }

    fn judge_cargo(&self, words: &[String], schema: &Schema) -> Vec<String> {
        let mut problems = Vec::new();
        for pair in words.windows(2) {
            match pair[0].as_str() {
                "-p" | "--package" => problems.extend(self.judge_package(&pair[1])),
                "--example" if !self.examples.contains(&pair[1]) => {
                    problems.push(format!("there is no example {:?}", pair[1]));
                }
                _ => {}
            }
        }
        if words.get(1).is_some_and(|word| word == "run")
            && let Some(at) = words.iter().position(|word| word == "--")
            && !words.iter().any(|word| word == "-p")
        {
            let mut typed = vec!["sortie".to_owned()];
            typed.extend_from_slice(&words[at + 1..]);
            problems.extend(self.judge_sortie(&typed, schema));
        }
        if words.get(1).is_some_and(|word| word == "xtask")
            && let Some(name) = words.get(2)
            && is_word(name)
        {
            let Some(flags) = self.xtask.get(name) else {
                problems.push(format!("`cargo xtask` has no command {name:?}"));
                return problems;
            };
            // The benchmark parses its own arguments.
            let passes_on = ["bench", "load"].contains(&name.as_str());
            for flag in words[3..].iter().filter_map(|word| flag_of(word)) {
                if !flags.contains(&flag) && !passes_on {
                    problems.push(format!("`cargo xtask {name}` has no flag {flag}"));
                }
            }
        }
        problems
    }

    fn judge_package(&self, name: &str) -> Vec<String> {
        if self.packages.contains(name) {
            Vec::new()
        } else {
            vec![format!("there is no package {name:?}")]
        }
    }

    fn judge_flags(&self, words: &[String]) -> Vec<String> {
        let known = |flag: &String| {
            self.commands
                .values()
                .any(|command| command.flags.contains(flag))
                || self.xtask.values().any(|flags| flags.contains(flag))
                || FOREIGN.contains(&flag.as_str())
        };
        words
            .iter()
            .filter_map(|word| flag_of(word.trim_matches(['[', ']', '…'])))
            .filter(|flag| !known(flag))
            .map(|flag| format!("no command has the flag {flag}"))
            .collect()
    }
}

/// Keys of `-c KEY=VALUE`.
fn judge_settings(words: &[String], schema: &Schema) -> Vec<String> {
    words
        .windows(2)
        .filter(|pair| pair[0] == "-c" || pair[0] == "--config")
        .filter_map(|pair| pair[1].split_once('='))
        .filter(|(key, _)| *key != "KEY" && !schema.has(key))
        .map(|(key, _)| format!("there is no configuration key {key}"))
        .collect()
}

fn is_package_name(word: &str) -> bool {
    word.strip_prefix("sortie-").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The flag that a word begins with, without its value.
fn flag_of(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?;
    let end = name
        .find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-')
        .unwrap_or(name.len());
    (end > 0).then(|| format!("--{}", &name[..end]))
}

fn parse_reference(text: &str) -> BTreeMap<String, Command> {
    let mut commands: BTreeMap<String, Command> = BTreeMap::new();
    let mut name = String::new();
    let mut in_commands = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            heading.clone_into(&mut name);
        }
        let command = commands.entry(name.clone()).or_default();
        if !line.starts_with(' ') {
            in_commands = line == "Commands:";
        } else if in_commands && let Some(word) = line.split_whitespace().next() {
            command.subcommands.insert(word.to_owned());
            if let Some((_, alias)) = line.split_once("[alias: ") {
                command
                    .subcommands
                    .insert(alias.trim_end_matches(']').to_owned());
            }
        } else if line.trim_start().starts_with('-') {
            let mut words = line.split_whitespace();
            if let Some(flag) = words.find_map(flag_of) {
                if line.contains('<') {
                    command.with_value.insert(flag.clone());
                }
                command.flags.insert(flag);
            }
        }
    }
    commands
}

/// Commands of the help text stand two columns in, their flags anywhere below.
fn parse_xtask(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut commands: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("  ")
            && !rest.starts_with(' ')
            && let Some(word) = rest.split_whitespace().next()
        {
            word.clone_into(&mut name);
        }
        let flags = commands.entry(name.clone()).or_default();
        let words = line.split_whitespace();
        flags.extend(words.filter_map(|word| flag_of(word.trim_start_matches('['))));
    }
    commands
}
