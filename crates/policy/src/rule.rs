//! One rule: its text and its meaning.

use std::fmt;
use std::str::FromStr;

use sortie_base::wildcard::Wildcard;

use crate::command::CommandPattern;
use crate::host::HostPattern;
use crate::object::{Kind, Object, kind_of_name};
use crate::place::PathPattern;
use crate::tool::{Group, Names, ToolFacts};

/// The most characters of a rule. The longest useful rule is a grant of one exact command.
pub const MAX_RULE_CHARS: usize = 4_000;

/// The tools that start one subagent. A rule that restricts one of them also restricts a tool that starts
/// several: otherwise that tool would pass rules that were written without it in mind.
const STARTS_ONE: [&str; 2] = ["task", "spawn_subagent"];
/// The tool that starts several subagents.
const STARTS_SEVERAL: &str = "fan_out";

/// A rule: `read_file`, `mcp__srv__*`, `group:fs`, `exec(git status *)`, `write_file(src/**)`,
/// `web_fetch(domain:example.com)`, `group:spawn(code)`.
///
/// An argument in parentheses is a command for `exec`, a glob relative to the workspace for file
/// tools, a domain for `web_fetch`, and an agent for tools that start subagents; the groups `exec`,
/// `fs`, `read`, `write`, `net` and `spawn` accept one as well. `*` alone in the parentheses matches any argument.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    subject: Subject,
    pub(crate) argument: Option<Argument>,
}

/// Why a rule could not be parsed, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

#[derive(Clone, Debug)]
enum Subject {
    Name(Wildcard),
    Group(Group),
}

/// The condition of a rule on the arguments of a call.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    Command(CommandPattern),
    Path(PathPattern),
    Host(HostPattern),
    Agent(Wildcard),
}

impl Rule {
    /// Returns the rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the rule applies to some call of this tool.
    pub fn is_about(&self, tool: &ToolFacts) -> bool {
        self.means(&Names::of(tool))
    }

    /// Returns whether the rule applies to some call of the tool with these names.
    pub(crate) fn means(&self, names: &Names<'_>) -> bool {
        match &self.subject {
            Subject::Name(pattern) => names.any(|name| pattern.fits_folded(name)),
            Subject::Group(group) => group.includes(names.touches()),
        }
    }

    /// Returns whether the rule, as one that restricts, applies to some call of the tool.
    pub(crate) fn restricts_tool(&self, names: &Names<'_>) -> bool {
        self.means(names)
            || match &self.subject {
                Subject::Name(pattern) => {
                    names.any(|name| name == STARTS_SEVERAL)
                        && STARTS_ONE.iter().any(|name| pattern.fits_folded(name))
                }
                Subject::Group(_) => false,
            }
    }

    /// Returns whether the rule alone permits the call. An unknown object is not permitted.
    pub(crate) fn permits(&self, object: &Object<'_>) -> bool {
        self.means(object.names())
            && match &self.argument {
                None => true,
                Some(Argument::Command(pattern)) => object
                    .command()
                    .is_some_and(|command| pattern.permits(command)),
                Some(Argument::Path(pattern)) => object
                    .place()
                    .is_some_and(|place| pattern.permits(place, object.looks_into())),
                Some(Argument::Host(pattern)) => {
                    object.host().is_some_and(|host| pattern.fits(host))
                }
                Some(Argument::Agent(pattern)) => {
                    object.agent().is_some_and(|agent| pattern.fits(agent))
                }
            }
    }

    /// Returns whether the rule restricts the call. An unknown object is restricted.
    pub(crate) fn restricts(&self, object: &Object<'_>) -> bool {
        self.restricts_tool(object.names())
            && match &self.argument {
                None => true,
                Some(Argument::Command(pattern)) => object
                    .command()
                    .is_none_or(|command| pattern.restricts(command)),
                Some(Argument::Path(pattern)) => {
                    object.place().is_none_or(|place| pattern.restricts(place))
                }
                Some(Argument::Host(pattern)) => {
                    object.host().is_none_or(|host| pattern.fits(host))
                }
                // A call that starts no agent is not meant.
                Some(Argument::Agent(pattern)) => {
                    object.agent().is_some_and(|agent| pattern.fits(agent))
                }
            }
    }

    /// Returns whether the rule matches exactly one command.
    pub(crate) fn is_exact_command(&self) -> bool {
        match &self.argument {
            Some(Argument::Command(pattern)) => pattern.is_exact(),
            Some(Argument::Path(_) | Argument::Host(_) | Argument::Agent(_)) | None => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        read(text).map_err(RuleError)
    }
}

fn read(text: &str) -> Result<Rule, String> {
    let text = text.trim();
    if text.chars().count() > MAX_RULE_CHARS {
        return Err(format!("it is longer than {MAX_RULE_CHARS} characters"));
    }
    let (subject, argument) = match text.split_once('(') {
        None => (text, None),
        Some((subject, rest)) => {
            let inside = rest.strip_suffix(')').ok_or("it does not end with `)`")?;
            (subject, Some(inside.trim()))
        }
    };
    let subject = read_subject(subject)?;
    let argument = argument
        .map(|argument| read_argument(&subject, argument))
        .transpose()?;
    Ok(Rule {
        text: text.to_owned(),
        subject,
        argument,
    })
}

fn read_subject(text: &str) -> Result<Subject, String> {
    if text.is_empty() {
        return Err("the name of the tool is missing".to_owned());
    }
    if let Some(name) = text.to_lowercase().strip_prefix("group:") {
        return match Group::from_name(name) {
            Some(group) => Ok(Subject::Group(group)),
            None => Err(format!(
                "there is no group `{name}`; the groups are {}",
                Group::names()
            )),
        };
    }
    // A list in one string, or an unknown prefix, would be a name that no tool has: a deny rule
    // that denies nothing.
    let strange = |c: char| c.is_whitespace() || c.is_control() || "(),;:|".contains(c);
    match text.chars().find(|c| strange(*c)) {
        Some(c) => Err(format!("the name of a tool cannot contain {c:?}")),
        None => Ok(Subject::Name(Wildcard::new(text))),
    }
}

fn read_argument(subject: &Subject, text: &str) -> Result<Argument, String> {
    if text.is_empty() {
        return Err("the parentheses are empty; omit them to match every call".to_owned());
    }
    match kind_of(subject)? {
        Kind::Command => Ok(Argument::Command(CommandPattern::read(text)?)),
        Kind::Path => Ok(Argument::Path(PathPattern::read(text)?)),
        Kind::Host => Ok(Argument::Host(HostPattern::read(text)?)),
        Kind::Agent => Ok(Argument::Agent(Wildcard::new(text))),
    }
}

/// Returns the kind of argument that the parentheses of a subject contain.
fn kind_of(subject: &Subject) -> Result<Kind, String> {
    let kind = match subject {
        Subject::Group(group) => group.kind(),
        Subject::Name(pattern) => pattern.only().and_then(kind_of_name),
    };
    kind.ok_or_else(|| {
        "only `exec`, file tools, `web_fetch`, `task`, `spawn_subagent` and their groups accept parentheses".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_their_text() {
        for text in [
            "read_file",
            "*",
            "mcp__srv__*",
            "group:fs",
            "Group:Mcp",
            "exec(git status *)",
            "bash(cargo *)",
            "group:exec(ls)",
            "exec(*)",
            "write_file(src/**)",
            "grep(app/(group)/**)",
            "group:write(docs/)",
            "web_fetch(domain:example.com)",
            "group:net(domain:*.example.com)",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn unparsable_rules_report_the_reason() {
        let long = "x".repeat(MAX_RULE_CHARS + 1);
        for (text, expected) in [
            ("", "the name of the tool is missing"),
            ("  ", "the name of the tool is missing"),
            ("(x)", "the name of the tool is missing"),
            ("exec(git", "it does not end with `)`"),
            ("exec(git) now", "it does not end with `)`"),
            ("exec)", "the name of a tool cannot contain ')'"),
            (
                "exec()",
                "the parentheses are empty; omit them to match every call",
            ),
            ("read_file, exec", "the name of a tool cannot contain ','"),
            ("read_file exec", "the name of a tool cannot contain ' '"),
            ("groups:fs", "the name of a tool cannot contain ':'"),
            (
                "group:all",
                "there is no group `all`; the groups are fs, read, write, exec, net, spawn, mcp",
            ),
            (
                "todo_write(x)",
                "only `exec`, file tools, `web_fetch`, `task`, `spawn_subagent` and their groups accept parentheses",
            ),
            (
                "*_file(src/**)",
                "only `exec`, file tools, `web_fetch`, `task`, `spawn_subagent` and their groups accept parentheses",
            ),
            (
                "group:mcp(x)",
                "only `exec`, file tools, `web_fetch`, `task`, `spawn_subagent` and their groups accept parentheses",
            ),
            (
                "write_file(/etc/**)",
                "paths in rules are relative to the workspace",
            ),
            (
                "web_fetch(example.com)",
                "`domain:` must be followed by a host, `*.` and a domain, or `*`",
            ),
            (&long, "it is longer than 4000 characters"),
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
