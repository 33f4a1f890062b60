//! Suggests rules for a lasting grant.

use std::path::Path;

use sortie_base::hidden::is_hidden;
use sortie_shell::{Simple, Understanding};

use crate::object::{Kind, Object};
use crate::place::Place;
use crate::{Call, Rule};

/// Programs of which one call predicts nothing about the next: they run their arguments, or destroy
/// their target. A grant covers only the exact command.
const EXACT_ONLY: &[&str] = &[
    "apt",
    "apt-get",
    "awk",
    "bash",
    "builtin",
    "bun",
    "bunx",
    "busybox",
    "chmod",
    "chown",
    "command",
    "crontab",
    "csh",
    "curl",
    "dash",
    "dd",
    "deno",
    "dnf",
    "doas",
    "docker",
    "env",
    "eval",
    "exec",
    "expect",
    "find",
    "fish",
    "gawk",
    "ionice",
    "kill",
    "killall",
    "ksh",
    "kubectl",
    "ln",
    "lua",
    "mv",
    "nc",
    "nice",
    "node",
    "nohup",
    "npx",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pkill",
    "pnpx",
    "podman",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "rm",
    "rmdir",
    "rsync",
    "ruby",
    "scp",
    "sed",
    "setsid",
    "sh",
    "shred",
    "source",
    "ssh",
    "stdbuf",
    "sudo",
    "systemctl",
    "tar",
    "tclsh",
    "tee",
    "time",
    "timeout",
    "ts-node",
    "tsx",
    "uvx",
    "watch",
    "wget",
    "xargs",
    "yes",
    "zsh",
    ".",
];
/// Programs whose first argument is a subcommand.
const WITH_COMMANDS: &[&str] = &[
    "brew",
    "bundle",
    "cargo",
    "composer",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "just",
    "make",
    "mix",
    "mvn",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "swift",
    "terraform",
    "uv",
    "yarn",
];
/// Words after which the next word names what runs: `npm run build`.
const RUNNING: &[&str] = &["exec", "run", "x"];

/// Returns the rules that a lasting grant of this call could have, the narrowest first.
///
/// Each of them permits the call. There is none for a command that was not understood.
pub fn suggest(call: &Call<'_>) -> Vec<String> {
    let object = Object::of(*call);
    let name = &call.tool.name;
    let candidates = match object.kind() {
        None => vec![name.clone()],
        Some(Kind::Command) => commands(name, &object),
        Some(Kind::Path) => paths(name, &object),
        Some(Kind::Host) => hosts(name, &object),
        // One grant for all tools that start this agent.
        Some(Kind::Agent) => object
            .agent()
            // The model chose the name: a pattern would grant other agents too.
            .filter(|agent| !agent.contains('*'))
            .map(|agent| format!("group:spawn({agent})"))
            .into_iter()
            .collect(),
    };
    candidates
        .into_iter()
        .filter(|text| {
            let rule: Result<Rule, _> = text.parse();
            rule.is_ok_and(|rule| rule.permits(&object)) && !text.contains(is_hidden)
        })
        .collect()
}

fn paths(name: &str, object: &Object<'_>) -> Vec<String> {
    let Some(Place::Inside(path)) = object.place() else {
        return Vec::new();
    };
    let escaped = globset::escape(path);
    let mut rules = Vec::new();
    if object.looks_into() {
        if !path.is_empty() {
            rules.push(format!("{name}({escaped}/**)"));
        }
    } else {
        rules.push(format!("{name}({escaped})"));
        let folder = Path::new(path)
            .parent()
            .and_then(Path::to_str)
            .unwrap_or_default();
        if !folder.is_empty() {
            rules.push(format!("{name}({}/**)", globset::escape(folder)));
        }
    }
    rules.push(name.to_owned());
    rules
}

fn hosts(name: &str, object: &Object<'_>) -> Vec<String> {
    let host = object.host();
    host.map(|host| format!("{name}(domain:{host})"))
        .into_iter()
        .collect()
}

fn commands(name: &str, object: &Object<'_>) -> Vec<String> {
    let Some(command @ Understanding::Whole(script)) = object.command() else {
        return Vec::new();
    };
    let effective = script.to_allow();
    let mut rules = Vec::new();
    if let [only] = effective.as_slice()
        && let Some(words) = known(only)
    {
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        rules.push(format!("{name}({})", quoted.join(" ")));
    }
    let free = effective.iter().all(|command| !is_exact_only(command));
    if !free || !sortie_shell::dangers(command).is_empty() {
        return rules;
    }
    if let [only] = effective.as_slice() {
        rules.extend(prefix(only).map(|prefix| format!("{name}({prefix} *)")));
    }
    // Never the shell as a whole: that would permit every program.
    rules
}

fn known(command: &Simple) -> Option<Vec<&str>> {
    let words: Option<Vec<&str>> = command.words.iter().map(|word| word.known()).collect();
    words.filter(|words| !words.is_empty())
}

fn is_exact_only(command: &Simple) -> bool {
    let Some(words) = known(command) else {
        return true;
    };
    let runs_others = words.get(1).is_some_and(|word| RUNNING.contains(word));
    words.first().is_none_or(|program| {
        // A program that is named by its path may be any file of the workspace.
        program.contains('/')
            || EXACT_ONLY.contains(program)
            || (matches!(*program, "uv" | "poetry" | "bundle") && runs_others)
    })
}

/// Returns the words that determine what a command does: `git commit`, `npm run build`, `ls`.
fn prefix(command: &Simple) -> Option<String> {
    let words = known(command)?;
    let program = *words.first()?;
    if !WITH_COMMANDS.contains(&program) {
        return Some(quoted(program));
    }
    let first = *words.get(1)?;
    let count = if RUNNING.contains(&first) { 3 } else { 2 };
    let words = words.get(..count)?;
    let plain = words.iter().all(|word| is_plain(word));
    plain.then(|| words.join(" "))
}

/// Returns whether a word is a name and not an option.
fn is_plain(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
}

/// Quotes a word so that a command pattern matches it literally.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
