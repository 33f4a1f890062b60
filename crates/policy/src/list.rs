//! A list of rules that is evaluated as one.

use sortie_shell::{Pattern, Verdict};

use crate::object::Object;
use crate::rule::{Argument, Rule};
use crate::tool::Names;

/// Rules sorted by their text, so that the order in which they were written affects nothing, not
/// even which rule a ruling names.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    rules: Vec<Rule>,
    /// The patterns of all rules about commands: together they may cover a command that none covers
    /// alone.
    commands: Vec<Pattern>,
}

impl List {
    pub(crate) fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        Self {
            commands: patterns(rules.iter()),
            rules,
        }
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether a rule applies to some call of the tool.
    pub(crate) fn mentions(&self, names: &Names<'_>) -> bool {
        self.rules.iter().any(|rule| rule.means(names))
    }

    /// Returns the rule that restricts every call of the tool.
    pub(crate) fn restricts_wholly(&self, names: &Names<'_>) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.argument.is_none() && rule.restricts_tool(names))
    }

    /// Returns the names of the rules that permit the call.
    pub(crate) fn permits(&self, object: &Object<'_>) -> Option<String> {
        let mut others = self.rules.iter().filter(|rule| !is_command(rule));
        if let Some(rule) = others.find(|rule| rule.permits(object)) {
            return Some(rule.as_str().to_owned());
        }
        if !self.may_permit_command(object) {
            return None;
        }
        let mut commands = self.rules.iter().filter(|rule| is_command(rule));
        match commands.find(|rule| rule.permits(object)) {
            Some(rule) => Some(rule.as_str().to_owned()),
            None => permits_jointly(&[self], object),
        }
    }

    /// Returns the rule that restricts the call.
    pub(crate) fn restricts(&self, object: &Object<'_>) -> Option<&Rule> {
        let about_commands = self.may_restrict_command(object);
        self.rules
            .iter()
            .filter(|rule| about_commands || !is_command(rule))
            .find(|rule| rule.restricts(object))
    }

    /// Returns whether rules about commands could permit the call. Matching all patterns once is
    /// cheaper than evaluating each rule.
    fn may_permit_command(&self, object: &Object<'_>) -> bool {
        !self.commands.is_empty()
            && object
                .command()
                .is_some_and(|command| Pattern::all_fit(&self.commands, command))
    }

    /// Like `may_permit_command`, for rules that restrict.
    fn may_restrict_command(&self, object: &Object<'_>) -> bool {
        !self.commands.is_empty()
            && object.command().is_none_or(|command| {
                match Pattern::any_fits(&self.commands, command) {
                    Verdict::Clear => false,
                    Verdict::Fits(_) | Verdict::CannotCheck { .. } => true,
                }
            })
    }
}

/// Returns the names of the rules of several lists that only together permit a command: `git add .
/// && cargo test`.
pub(crate) fn permits_jointly(lists: &[&List], object: &Object<'_>) -> Option<String> {
    let about: Vec<&Rule> = lists
        .iter()
        .filter(|list| !list.commands.is_empty())
        .flat_map(|list| &list.rules)
        .filter(|rule| is_command(rule) && rule.means(object.names()))
        .collect();
    if about.len() < 2 {
        return None;
    }
    let command = object.command()?;
    let fits = Pattern::all_fit(&patterns(about.iter().copied()), command);
    fits.then(|| shown(&about))
}

/// The most rules that are named if several decided together.
const MAX_NAMED: usize = 4;

fn shown(rules: &[&Rule]) -> String {
    let names: Vec<&str> = rules
        .iter()
        .take(MAX_NAMED)
        .map(|rule| rule.as_str())
        .collect();
    let more = if rules.len() > MAX_NAMED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn is_command(rule: &Rule) -> bool {
    match rule.argument {
        Some(Argument::Command(_)) => true,
        Some(Argument::Path(_) | Argument::Host(_) | Argument::Agent(_)) | None => false,
    }
}

fn patterns<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<Pattern> {
    let mut all = Vec::new();
    for rule in rules {
        match &rule.argument {
            Some(Argument::Command(pattern)) => all.extend_from_slice(pattern.patterns()),
            Some(Argument::Path(_) | Argument::Host(_) | Argument::Agent(_)) | None => {}
        }
    }
    all
}
