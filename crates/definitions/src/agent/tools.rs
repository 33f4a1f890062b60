//! Maps the tool names of other systems in agent files.

use std::collections::BTreeMap;

use serde_json::Value;
use sortie_base::wildcard::matches;
use sortie_core::agent::ToolSelection;

use super::Known;
use crate::Severity;
use crate::fields::{Field, Fields, scalar, shown, words};

/// Tool names of other systems: (theirs in lower case, ours).
const ALIASES: &[(&str, &str)] = &[
    // Claude Code.
    ("read", "read_file"),
    ("notebookread", "read_file"),
    ("ls", "list_dir"),
    ("bash", "exec"),
    ("edit", "edit_file"),
    ("multiedit", "edit_file"),
    ("write", "write_file"),
    ("webfetch", "web_fetch"),
    ("websearch", "web_search"),
    ("todowrite", "todo_write"),
    ("agent", "task"),
    // opencode.
    ("list", "list_dir"),
    ("patch", "edit_file"),
    ("apply_patch", "edit_file"),
    // gemini and qwen.
    ("readfile", "read_file"),
    ("read_many_files", "read_file"),
    ("readmanyfiles", "read_file"),
    ("list_directory", "list_dir"),
    ("listfiles", "list_dir"),
    ("search_file_content", "grep"),
    ("grep_search", "grep"),
    ("searchtext", "grep"),
    ("ripgrep", "grep"),
    ("findfiles", "glob"),
    ("replace", "edit_file"),
    ("writefile", "write_file"),
    ("run_shell_command", "exec"),
    ("shell", "exec"),
    ("google_web_search", "web_search"),
    ("write_todos", "todo_write"),
    ("activate_skill", "skill"),
    // Other systems.
    ("strreplacefile", "edit_file"),
    ("fetchurl", "web_fetch"),
    ("searchweb", "web_search"),
    ("file_read", "read_file"),
    ("file_write", "write_file"),
    ("sessions_spawn", "spawn_subagent"),
    ("spawn", "spawn_subagent"),
];
/// Prefix of MCP tools.
const MCP: &str = "mcp__";
/// The same, as gemini writes it.
const MCP_SINGLE: &str = "mcp_";

/// Returns the tool of a rule: `exec` of `exec(git *)`.
pub fn rule_tool(rule: &str) -> &str {
    rule.split_once('(').map_or(rule, |(tool, _)| tool).trim()
}

/// Translates a rule of another system: `Bash(git *)` is `exec(git *)`, `mcp__srv` is
/// `mcp__srv__*`. `None` if it names no tool of `tools`, or cannot be parsed.
pub fn translate_rule(rule: &str, tools: &[String]) -> Option<String> {
    let rule = rule.trim();
    let (name, arguments) = match rule.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.strip_suffix(')')?.trim())),
        None => (rule, None),
    };
    let name = translate_name(name, tools)?;
    Some(match arguments {
        // `Bash(*)` and `Bash()` mean the same as `Bash`.
        None | Some("" | "*") => name,
        Some(arguments) => format!("{name}({arguments})"),
    })
}

fn translate_name(name: &str, tools: &[String]) -> Option<String> {
    let lower = name.to_lowercase();
    if let Some(server) = lower.strip_prefix(MCP) {
        return mcp_rule(server);
    }
    if let Some(ours) = known(&lower, tools) {
        return Some(ours);
    }
    if let Some((_, ours)) = ALIASES.iter().find(|(theirs, _)| *theirs == lower) {
        return known(ours, tools);
    }
    if let Some(server) = lower.strip_prefix(MCP_SINGLE) {
        let server = server.strip_suffix("_*").unwrap_or(server);
        return mcp_rule(server);
    }
    let is_pattern = lower.contains('*') && tools.iter().any(|tool| matches(&lower, tool));
    is_pattern.then_some(lower)
}

fn known(name: &str, tools: &[String]) -> Option<String> {
    tools.iter().find(|tool| tool.as_str() == name).cloned()
}

/// Returns the rule for all tools of a server, which are listed only later.
fn mcp_rule(server: &str) -> Option<String> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
    if server.is_empty() || !server.chars().all(is_name) {
        return None;
    }
    if server.contains("__") || server == "*" {
        return Some(format!("{MCP}{server}"));
    }
    Some(format!("{MCP}{server}__*"))
}

/// Translates a rule of another system; an error is the reason why it cannot be used.
pub(super) fn resolve(rule: &str, known: &Known<'_>) -> Result<String, String> {
    let shown = shown(&Value::from(rule));
    let ours = translate_rule(rule, known.tools)
        .ok_or_else(|| format!("there is no tool {shown} here"))?;
    match (known.check_rule)(&ours) {
        Ok(()) => Ok(ours),
        Err(why) => Err(format!("the rule {shown} cannot be used ({why})")),
    }
}

/// Translates restricting rules. If only the part in parentheses cannot be used, a rule applies to every
/// call of the tool; a rule for an unknown tool is kept, because the tool may be added later.
pub(super) fn restricting(
    fields: &mut Fields,
    key: &str,
    rule: &str,
    known: &Known<'_>,
) -> Vec<String> {
    let why = match resolve(rule, known) {
        Ok(ours) => return with_parts(ours, known),
        Err(why) => why,
    };
    let name = rule_tool(rule);
    let lower = name.to_lowercase();
    let whole = resolve(name, known).ok();
    let whole = whole.or_else(|| (known.check_rule)(&lower).is_ok().then_some(lower));
    match whole {
        Some(whole) => {
            let text = format!("{why}; the rule applies to every call of `{whole}` instead");
            fields.problem(Severity::Warning, key, text);
            vec![whole]
        }
        None => {
            fields.problem(Severity::Refusal, key, why);
            Vec::new()
        }
    }
}

/// Splits a rule about several commands, `exec(rm *, mv *)`, into one rule for each.
fn with_parts(rule: String, known: &Known<'_>) -> Vec<String> {
    let mut rules = Vec::new();
    if let Some((tool, arguments)) = rule.split_once('(')
        && let Some(arguments) = arguments.strip_suffix(')')
        && arguments.contains(',')
    {
        let parts = arguments
            .split(',')
            .map(|part| format!("{tool}({})", part.trim()));
        rules.extend(parts.filter(|part| (known.check_rule)(part).is_ok()));
    }
    rules.insert(0, rule);
    rules
}

/// Reads which tools an agent may use. What cannot be parsed is refused or omitted, never
/// read as "all tools".
pub(super) fn selection(fields: &mut Fields, known: &Known<'_>) -> ToolSelection {
    let mut selection = ToolSelection {
        allow: None,
        deny: Vec::new(),
    };
    if let Some(field) = fields.take(&["disallowedTools", "excludeTools"]) {
        match words(&field.value) {
            Some(rules) => selection.deny = deny(fields, &field.key, &rules, known),
            None => refuse_shape(fields, &field),
        }
    }
    if let Some(field) = fields.take(&["tools", "allowedTools"]) {
        if let Value::Object(switches) = &field.value {
            switched(fields, &field.key, switches, known, &mut selection);
        } else {
            match words(&field.value) {
                Some(rules) => selection.allow = allow(fields, &field.key, &rules, known),
                None => refuse_shape(fields, &field),
            }
        }
    }
    selection
}

/// Refuses an agent whose every tool is denied.
pub(super) fn refuse_empty(fields: &mut Fields, selection: &ToolSelection) {
    let denied = |rule: &str| selection.deny.iter().any(|deny| matches(deny, rule));
    let nothing_left = match &selection.allow {
        Some(allow) => !allow.is_empty() && allow.iter().all(|rule| denied(rule_tool(rule))),
        None => denied("*"),
    };
    if nothing_left {
        fields.problem(
            Severity::Refusal,
            "tools",
            "every tool that it could have is denied, so it has none",
        );
    }
}

fn allow(
    fields: &mut Fields,
    key: &str,
    rules: &[String],
    known: &Known<'_>,
) -> Option<Vec<String>> {
    if rules.iter().any(|rule| rule == "*") {
        return None;
    }
    let mut allow: Vec<String> = Vec::new();
    for rule in rules {
        match resolve(rule, known) {
            Ok(ours) if allow.contains(&ours) => {}
            Ok(ours) => allow.push(ours),
            Err(why) => {
                fields.problem(Severity::Warning, key, format!("{why}; it is left out"));
            }
        }
    }
    if allow.is_empty() {
        let text = if rules.is_empty() {
            format!("`{key}` names no tool; leave the key out for every tool that policy allows")
        } else {
            format!("no tool of `{key}` can be used here, so the agent would have none")
        };
        fields.problem(Severity::Refusal, key, text);
    }
    Some(allow)
}

fn deny(fields: &mut Fields, key: &str, rules: &[String], known: &Known<'_>) -> Vec<String> {
    let mut deny = Vec::new();
    for rule in rules {
        deny.extend(restricting(fields, key, rule, known));
    }
    deny
}

/// opencode's older form: each tool switched on or off.
fn switched(
    fields: &mut Fields,
    key: &str,
    switches: &serde_json::Map<String, Value>,
    known: &Known<'_>,
    selection: &mut ToolSelection,
) {
    // Sorted by name, because a JSON object has no order.
    let switches: BTreeMap<&String, &Value> = switches.iter().collect();
    let (on, off): (Vec<_>, Vec<_>) = switches
        .into_iter()
        .partition(|(_, value)| scalar(value).is_some_and(|word| word == "true"));
    let names = |pairs: Vec<(&String, &Value)>| -> Vec<String> {
        pairs.into_iter().map(|(name, _)| name.clone()).collect()
    };
    let mut off = names(off);
    // With everything off, the tools that are on form an allow list.
    if off.iter().any(|name| name == "*") {
        off.retain(|name| name != "*");
        selection.allow = allow(fields, key, &names(on), known);
    }
    selection.deny.extend(deny(fields, key, &off, known));
}

fn refuse_shape(fields: &mut Fields, field: &Field) {
    let text = format!(
        "`{}` must be a list of tools or text with commas",
        field.key
    );
    fields.problem(Severity::Refusal, &field.key, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<String> {
        [
            "read_file",
            "list_dir",
            "glob",
            "grep",
            "write_file",
            "edit_file",
            "exec",
            "todo_write",
            "task",
            "spawn_subagent",
            "subagents",
            "web_fetch",
            "web_search",
            "skill",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn rules_of_other_systems() {
        for (theirs, ours) in [
            ("Read", Some("read_file")),
            ("Grep", Some("grep")),
            ("LS", Some("list_dir")),
            ("MultiEdit", Some("edit_file")),
            ("TodoWrite", Some("todo_write")),
            ("Task", Some("task")),
            ("Agent(explore, plan)", Some("task(explore, plan)")),
            ("Skill", Some("skill")),
            ("Bash", Some("exec")),
            ("Bash(*)", Some("exec")),
            ("Bash()", Some("exec")),
            ("Bash(git *)", Some("exec(git *)")),
            ("Bash(git commit:*)", Some("exec(git commit:*)")),
            ("Bash(git", None),
            ("run_shell_command(ls)", Some("exec(ls)")),
            ("search_file_content", Some("grep")),
            ("google_web_search", Some("web_search")),
            ("read_file", Some("read_file")),
            ("web_*", Some("web_*")),
            ("zzz*", None),
            ("mcp__github", Some("mcp__github__*")),
            ("mcp__github__*", Some("mcp__github__*")),
            ("mcp__github__get_issue", Some("mcp__github__get_issue")),
            ("mcp__*", Some("mcp__*")),
            ("mcp_*", Some("mcp__*")),
            ("mcp_github_*", Some("mcp__github__*")),
            ("mcp__", None),
            ("mcp__a b", None),
            ("NotebookEdit", None),
            ("", None),
        ] {
            let found = translate_rule(theirs, &tools());
            assert_eq!(found.as_deref(), ours, "{theirs}");
        }
    }

    #[test]
    fn every_alias_leads_to_a_tool_of_ours() {
        for (theirs, ours) in ALIASES {
            assert_eq!(*theirs, theirs.to_lowercase(), "compared in lower case");
            assert_eq!(known(ours, &tools()).as_deref(), Some(*ours), "{theirs}");
        }
    }

    #[test]
    fn an_alias_of_a_tool_that_is_switched_off_is_unresolved() {
        assert_eq!(translate_rule("Bash", &["grep".to_owned()]), None);
    }
}
